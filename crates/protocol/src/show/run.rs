//! A run.

use engine::tables::transitions::RunState;
use engine::{BranchId, CallId, CallOutcome, EffectId, Outcome, RunId, SessionId, Stage, Timestamp, ToolClass, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LaneWait;
#[cfg(feature = "schema")]
use super::names;

/// A run without its text. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunSummary {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// Its session.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// The session's key.
    pub key: String,
    /// The branch that it is in.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// `idle` as long as its message waits.
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
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// What it took so far.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Its last failure, unless it completed all the same.
    pub error: Option<String>,
    /// Behind whom it waits for its place in a lane, if it does. Only the owner of the home knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_wait: Option<LaneWait>,
}

/// A run with all that it said and did. Text that was struck is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunStory {
    /// What a list has of it.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Its first entries were removed, up to this one, `BRANCH@SEQ`: what they said and did is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_to: Option<String>,
    /// What its answer says, or would say if it ended now without the open stream.
    pub text: String,
    /// The request that is answered just now.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub open_request: Option<EffectId>,
    /// What has come of that.
    pub open_text: String,
    /// The messages of the model.
    pub steps: Vec<StepStory>,
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepStory {
    /// The request that it answers.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub request: EffectId,
    /// What it says.
    pub text: String,
    /// What it asks for.
    pub calls: Vec<CallStory>,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallStory {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// How it may be repeated.
    #[cfg_attr(feature = "schema", schemars(with = "names::ToolClassName"))]
    pub class: ToolClass,
    /// How far it has come.
    pub stage: CallStage,
    /// How it ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CallOutcomeName>"))]
    pub outcome: Option<CallOutcome>,
    /// As the model wrote them.
    pub arguments: String,
    /// What the model was told, once it is settled.
    pub output: Option<String>,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// Its check is out.
    Guarding,
    /// A human is asked.
    Asking,
    /// It may start.
    Ready,
    /// It was started.
    Started,
    /// It is being ended.
    Ending,
    /// A crash cut it off; it is being looked up.
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
    /// Its state, or how it ended.
    pub fn status(&self) -> String {
        if let Some(wait) = &self.lane_wait {
            return format!("queued behind {}", wait.behind_whom());
        }
        self.outcome.map_or(self.state.name(), Outcome::name).to_owned()
    }
}
