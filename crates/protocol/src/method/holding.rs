//! What the methods take and give that hold a run, let it go on, or tell it where to hold. Names are camelCase here.

use engine::RunId;
use engine::tables::transitions::RunState;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// What `runs.pause` takes: a run, or a session whose active run is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseParams {
    /// The run's id, or as much of its beginning as is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose active run it is; without either agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether its commands stand still as well, and their limits with them; else they go on, and what they give is kept.
    #[serde(default)]
    pub freeze: bool,
}

/// What `runs.resume` takes: a run, or a session whose run is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunResumeParams {
    /// The run's id, or as much of its beginning as is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose run it is; without either agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// End it as interrupted instead: what came is kept, and what waits behind it is next.
    #[serde(default)]
    pub drop: bool,
}

/// What `runs.break` takes: a run, or a session whose active run is meant; and one place, or none to take all of its places
/// away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakParams {
    /// The run's id, or as much of its beginning as is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose active run it is; without either agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Before a call of this tool starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_tool: Option<String>,
    /// When it comes into this state: preparing, tool_exec, compacting, error, retry or awaiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub on_state: Option<RunState>,
}

/// What is given once that which was asked of a run is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunAsked {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// Its session.
    pub session_key: String,
}
