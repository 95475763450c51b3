//! A wait in a global lane. It is not in the journal: only the owner of a home knows it.

use engine::{Lane, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// A run that waits in a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LaneWait {
    /// The name of the lane.
    #[cfg_attr(feature = "schema", schemars(with = "names::LaneName"))]
    pub lane: Lane,
    /// The agent, if the run waits because of the agent's own limit in the lane (`budget.agent.concurrent_runs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it waits because as many agents execute as may (`budget.home.concurrent_agents`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_agents: bool,
    /// Since when it waits, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// The number of waiting runs that come before it.
    pub ahead: u32,
    /// The runs that occupy the lane now.
    pub behind: Vec<LaneHolder>,
}

/// A run that occupies a slot of the lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LaneHolder {
    /// The key of its session.
    pub session: String,
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
}

impl LaneWait {
    /// Describes what it waits for.
    pub fn place(&self) -> String {
        let of = self.agent.as_ref().map(|agent| format!(" of the agent {agent}")).unwrap_or_default();
        let another = if self.for_agents { " for another agent" } else { "" };
        format!("a slot{of}{another} in the lane {}", self.lane.name())
    }

    /// Describes the runs that it waits for.
    pub fn behind_whom(&self) -> String {
        match &self.behind[..] {
            [] => format!("a run that has left the lane {}", self.lane.name()),
            [one] => one.session.clone(),
            [one, others @ ..] => format!("{} and {} more", one.session, others.len()),
        }
    }
}
