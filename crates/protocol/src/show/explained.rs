//! The explanation of a run's current state.

use engine::{RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::PlanStep;
use crate::method::BudgetLine;

/// What a run is doing, what it waits for, and what the user can do. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Explained {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The key of its session.
    pub key: String,
    /// The state of the run; `queued` until it has started, its outcome once it has ended.
    pub state: String,
    /// Since when it is in this state.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// A description of what it waits for; none once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When the wait ends at the latest, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub until: Option<Timestamp>,
    /// What happens at `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// The limit that leaves too little for its next request, if it waits for a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetLine>,
    /// The plan of its conversation, while a step of it is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanStep>,
    /// The actions that the user can take.
    pub can: Vec<Way>,
}

/// An action that the user can take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Way {
    /// A description of the action.
    pub what: String,
    /// The command that does it.
    pub command: String,
}
