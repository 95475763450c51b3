//! A wait for a place in a global lane. It is in no journal: only the owner of a home knows of it.

use engine::{Lane, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// A run that waits for its place in a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LaneWait {
    /// The lane.
    #[cfg_attr(feature = "schema", schemars(with = "names::LaneName"))]
    pub lane: Lane,
    /// The agent, where it waits for one of those places that this agent may have in the lane (`budget.agent.concurrent_runs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Since when, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// How many wait that have their turn before it.
    pub ahead: u32,
    /// The runs that have the places that it waits for.
    pub behind: Vec<LaneHolder>,
}

/// A run that has a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LaneHolder {
    /// The key of its session.
    pub session: String,
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
}

impl LaneWait {
    /// What it waits for, in words.
    pub fn place(&self) -> String {
        let of = self.agent.as_ref().map(|agent| format!(" of the agent {agent}")).unwrap_or_default();
        format!("a place{of} in the lane {}", self.lane.name())
    }

    /// Behind whom it waits, in words.
    pub fn behind_whom(&self) -> String {
        match &self.behind[..] {
            [] => format!("who had a place in the lane {}", self.lane.name()),
            [one] => one.session.clone(),
            [one, others @ ..] => format!("{} and {} more", one.session, others.len()),
        }
    }
}
