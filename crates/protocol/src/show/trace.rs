//! The story of a run.

use engine::tables::transitions::{RunState, Trigger};
use engine::{Epoch, Position, RunId, Seq, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// One entry of a run. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TraceLine {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The entry's place in its branch.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub seq: Seq,
    /// Its place in the home.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub position: Position,
    /// The owner that recorded it.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub epoch: Epoch,
    /// When, since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// Since the first line.
    pub ms: u64,
    /// The state of the run before it.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub from: RunState,
    /// And after it.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub to: RunState,
    /// The node of the graph (R06) that the run is in after it, if it is in one.
    pub node: Option<Node>,
    /// The kind of the entry.
    pub event: String,
    /// The edge of the table that it takes, if it is one that can.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::TriggerName>"))]
    pub trigger: Option<Trigger>,
    /// Whether it is an opening after a crash.
    pub crash: bool,
    /// What happened, in a few words.
    pub detail: Option<String>,
    /// Whether a person need not see it: it says what the line before said. `--json` prints all lines without this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

/// A node of the graph that the loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A request is being made.
    Prepare,
    /// It is sent.
    CallModel,
    /// The answer streams in.
    ProcessStream,
    /// Calls are checked, asked, run.
    ExecuteTools,
    /// The history is being summarised.
    Compact,
    /// A failure is being decided on.
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
