//! The shapes of a run.

use engine::tables::failover::FailureCategory;
use engine::tables::transitions::RunState;
use engine::{
    Address, BranchId, CallId, CallOutcome, EffectId, Outcome, Resources, RunId, SessionId, Stage, StopReason,
    Timestamp, ToolClass, Usage,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;
use super::{LaneWait, Reply};
use crate::method::BudgetLine;

/// A run in a list, without its text. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunSummary {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The id of its session.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// The key of the session, agent:AGENT:NAME.
    pub key: String,
    /// The id of its branch.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// The state; `idle` while its message waits.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub state: RunState,
    /// How it ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
    pub outcome: Option<Outcome>,
    /// When it started, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub ended_at: Option<Timestamp>,
    /// The model, `PROVIDER/MODEL`.
    pub model: String,
    /// Its token usage so far.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Its last failure, unless the run completed despite it.
    pub error: Option<String>,
    /// Why the answer of a completed run is incomplete; none if it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::StopReasonName>"))]
    pub stop_reason: Option<StopReason>,
    /// The checkpoint of an interrupted run, `BRANCH@SEQ`: its last entry before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Its wait in a lane, if it waits. Only the owner of the home knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_wait: Option<LaneWait>,
}

/// A run with its answer and calls. Retracted text is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunStory {
    /// The fields that a list shows.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The entry up to which its first entries were removed, `BRANCH@SEQ`; their content is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_to: Option<String>,
    /// While it is unfinished: its limits, and those of its session, its agent and its day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<BudgetLine>,
    /// How the last run of its session ended; none if none has ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
    pub last_outcome: Option<Outcome>,
    /// Whether an abort is accepted: a run is active and not ending, or suspended.
    #[serde(default)]
    pub can_abort: bool,
    /// What the run has used, its limits and its times.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "names::ResourcesShape"))]
    pub resources: Resources,
    /// The kind of error and whether it can pass, if it has failed or is failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CategoryShape>"))]
    pub category: Option<FailureCategory>,
    /// The text of the answer; while the run is active, without the text of the open request.
    pub text: String,
    /// The id of the request whose response is streaming now.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub open_request: Option<EffectId>,
    /// The text of that response so far.
    pub open_text: String,
    /// The messages of the model.
    pub steps: Vec<StepStory>,
    /// Where its first message came from, if its sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub origin: Option<Box<Address>>,
    /// Where the answer goes, if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub reply_to: Option<Box<Address>>,
    /// Its reply, once it has ended.
    #[serde(flatten)]
    pub reply: Option<Reply>,
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepStory {
    /// The id of the request that it answers.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub request: EffectId,
    /// The text of the message; empty if it has none.
    pub text: String,
    /// The calls of the message, in order.
    pub calls: Vec<CallStory>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallStory {
    /// The id of the call.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The class of the tool: whether the call may be repeated.
    #[cfg_attr(feature = "schema", schemars(with = "names::ToolClassName"))]
    pub class: ToolClass,
    /// The stage of the call.
    pub stage: CallStage,
    /// How it ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CallOutcomeName>"))]
    pub outcome: Option<CallOutcome>,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The output that the model received, once the call is settled.
    pub output: Option<String>,
}

/// The stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// The policy checks it.
    Guarding,
    /// It waits for approval.
    Asking,
    /// It is allowed and has not started.
    Ready,
    /// It is running.
    Started,
    /// It is being ended.
    Ending,
    /// A crash interrupted it; the owner looks up its outcome.
    Lost,
    /// It has its result.
    Settled,
}

impl From<&Stage> for CallStage {
    fn from(stage: &Stage) -> Self {
        match stage {
            Stage::Guarding => Self::Guarding,
            Stage::Asking => Self::Asking,
            Stage::Ready => Self::Ready,
            Stage::Started { .. } => Self::Started,
            Stage::Ending { .. } => Self::Ending,
            Stage::Lost => Self::Lost,
            Stage::Settled { .. } => Self::Settled,
        }
    }
}

impl RunSummary {
    /// Its state, or its outcome once it has ended.
    pub fn status(&self) -> String {
        if let Some(wait) = &self.lane_wait {
            return format!("queued behind {}", wait.behind_whom());
        }
        self.outcome.map_or(self.state.name(), Outcome::name).to_owned()
    }
}
