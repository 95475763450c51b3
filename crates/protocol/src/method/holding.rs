//! Parameters and results of the methods that pause and resume a run and set breakpoints. Names are camelCase.

use engine::RunId;
use engine::tables::transitions::RunState;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// Parameters of `runs.pause`: a run, or a session, which means its active run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseParams {
    /// The id of the run, or a unique prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session, whose active run is meant; if neither is given, agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether its commands and their limits are frozen too; otherwise the commands continue and their results are
    /// kept.
    #[serde(default)]
    pub freeze: bool,
}

/// Parameters of `runs.resume`: a run, or a session, which means its run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunResumeParams {
    /// The id of the run, or a unique prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session, whose run is meant; if neither is given, agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// End the run as interrupted instead: its partial results are kept, and the next message in the queue follows.
    #[serde(default)]
    pub drop: bool,
}

/// Parameters of `runs.break`: a run, or a session, which means its active run; and one breakpoint, or none to remove
/// all its breakpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakParams {
    /// The id of the run, or a unique prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session, whose active run is meant; if neither is given, agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Pause before the next call of this tool starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_tool: Option<String>,
    /// Pause when the run next enters this state: preparing, tool_exec, compacting, error, retry or awaiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub on_state: Option<RunState>,
}

/// The result once a request on a run is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunAsked {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The key of its session.
    pub session_key: String,
}
