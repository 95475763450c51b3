//! The trace of a run.

use engine::tables::failover::FailureCategory;
use engine::tables::transitions::{RunState, Trigger};
use engine::{Epoch, Position, RunId, Seq, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use super::names;

/// One entry in the trace of a run. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TraceLine {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The sequence number of the entry in its branch.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub seq: Seq,
    /// Its position in the home.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub position: Position,
    /// The epoch of the owner that recorded it.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub epoch: Epoch,
    /// When it was recorded, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// Milliseconds since the first line.
    pub ms: u64,
    /// The state of the run before the entry.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub from: RunState,
    /// The state of the run after the entry.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub to: RunState,
    /// The node of the graph (R06) that the run is in after the entry, if it is in one.
    pub node: Option<Node>,
    /// The kind of the entry.
    pub event: String,
    /// The edge of the transition table that it takes, if it takes one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::TriggerName>"))]
    pub trigger: Option<Trigger>,
    /// Whether it records an opening after a crash.
    pub crash: bool,
    /// A short description; none if the kind says enough.
    pub detail: Option<String>,
    /// The recorded fields of the entry, as `docs/internals/format.md` lists them for its kind; texts are named by their
    /// hash.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub fields: Value,
    /// The kind of error and whether it can pass, if the entry records a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CategoryShape>"))]
    pub category: Option<FailureCategory>,
    /// Whether the command line hides the line, because it repeats the line before. `--json` prints all lines, without
    /// this field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

/// A node of the graph of the agent loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A request is being prepared.
    Prepare,
    /// The request is sent.
    CallModel,
    /// The answer streams in.
    ProcessStream,
    /// Calls are checked, approved and run.
    ExecuteTools,
    /// The history is being compacted.
    Compact,
    /// A failure is being handled.
    Error,
    /// The run has ended.
    End,
}

impl Node {
    /// The name on the wire and in drawings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::CallModel => "call_model",
            Self::ProcessStream => "process_stream",
            Self::ExecuteTools => "execute_tools",
            Self::Compact => "compact",
            Self::Error => "error",
            Self::End => "end",
        }
    }
}
