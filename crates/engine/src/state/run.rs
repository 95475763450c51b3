//! A run: the work for one message, from accepted to exactly one outcome.

use serde::{Deserialize, Serialize};

use super::blocks::BlockList;
use super::call::Call;
use super::counters::Counters;
use super::repeats::Repeats;
use super::text_blocks::TextBlocks;
use super::title::TitleRequest;
use crate::body::{Attachment, Body};
use crate::event::{Breakpoint, Outcome, PauseCause, StopReason, Usage, WaitFor};
use crate::failure::Failure;
use crate::ids::{CallId, EffectId, EffectKind, Epoch, Hash, MessageId, RunId, Seq, Timestamp};
use crate::tables::budget::{Allowance, Spent};
use crate::tables::compaction::CompactionStep;
use crate::tables::transitions::RunState;

/// The active or held run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Run {
    pub id: RunId,
    /// The messages that it answers, in order; those that were steered into it are the last.
    pub inputs: Vec<MessageId>,
    /// The hash of its settings.
    pub settings: Hash,
    /// The entry that started it.
    pub first_seq: Seq,
    /// When it started.
    pub started_at: Timestamp,
    /// What it is doing.
    pub phase: Phase,
    /// What outlives a phase.
    pub step: Step,
    /// The system prompt, once it is made.
    pub prompt: Option<Body>,
    #[serde(flatten)]
    pub counts: RunCounts,
    #[serde(flatten)]
    pub compaction: RunCompactions,
    /// The failures so far.
    pub trace: Vec<Failure>,
    /// The tokens used so far, as the providers report them.
    pub usage: Usage,
    #[serde(flatten)]
    pub budget: RunBudget,
    /// Calls that brought nothing new.
    pub repeats: Repeats,
    /// Calls that could not be ended.
    pub unended: Vec<CallId>,
    /// The title of the conversation that a model is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<TitleRequest>,
    /// Whether it has asked for one, which it does once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_asked_title: bool,
    /// Whether the model has received that its answer does not fit the schema, which happens once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_schema_mismatch: bool,
    /// The text that waits to go out in blocks; none if its answers go out whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Box<TextBlocks>>,
    /// Set once its outcome is decided.
    pub ending: Option<Ending>,
    #[serde(flatten)]
    pub breakpoints: RunBreakpoints,
    /// While it is paused: why, and since when.
    pub pause: Option<Pause>,
    /// Its own clock.
    pub clock: RunClock,
}

/// How often a run tried what. In snapshots the fields of this and the following groups are fields of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCounts {
    /// The candidate in use, and the failures of the others.
    #[serde(rename = "counters")]
    pub candidates: Counters,
    /// Which try this is, over all candidates, from 1.
    pub attempt: u32,
    /// Calls so far; numbers their effects.
    pub calls: u32,
    /// Openings in a row without an orderly end and without progress.
    pub openings: u32,
    /// The number, try and length of the last request.
    pub request: (u32, u32, u32),
    /// How often it queued for its lane after a wait; numbers these effects.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lane_waits: u32,
    /// How often it was recovered without a human since one last resumed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recoveries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(times: &u32) -> bool {
    *times == 0
}

/// A run's compactions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCompactions {
    /// How many compactions began; numbers their effects.
    #[serde(rename = "compactions")]
    pub begun: u32,
    /// The user asked for a summary.
    pub summary: Option<SummaryRequest>,
}

/// What a run may spend and has spent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBudget {
    /// What counts against its budget.
    pub spent: Spent,
    /// What it had spent at its last answer.
    pub at_answer: Spent,
    /// What it may spend, where somebody has said so.
    pub allowance: Allowance,
    /// Its progress in wrapping up because a budget is used up.
    #[serde(rename = "winding")]
    pub wrap_up: WrapUp,
    /// The pending grant for its next request.
    pub asked: Option<Asked>,
    /// How many grants it has requested; numbers these effects.
    pub asks: u32,
    /// Whether the limit of the home denied the pending grant: no time ends that wait, and only a wait for memory keeps
    /// its slot of the lane.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub home_reached: bool,
}

/// Where a run is to stop for its user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBreakpoints {
    #[serde(rename = "breakpoints")]
    #[allow(missing_docs, reason = "the field says it itself")]
    pub set: Vec<Breakpoint>,
    /// The state in which a breakpoint stopped it, or in which it was when the breakpoint was set, as long as it stays
    /// in it.
    pub passed: Option<RunState>,
}

/// A run's progress in wrapping up because a budget is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapUp {
    /// Nothing was said.
    #[default]
    Not,
    /// The model was asked to wrap up.
    #[serde(rename = "told")]
    Asked,
    /// The model was asked to report what was done.
    Closing,
    /// It has reported, or cannot any more.
    Closed,
}

/// A pending grant for a request that counts against shared budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The effect that asks for it.
    pub reserve: EffectId,
    /// What the request is taken to cost.
    pub expected: Spent,
    /// Whether it only says what was done.
    pub closing: bool,
}

/// Why a run is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What holds it.
    pub cause: PauseCause,
    /// Whether its commands are frozen as well.
    pub freeze: bool,
    /// Since when.
    pub since: Timestamp,
    /// The call that a breakpoint stopped it before.
    pub call: Option<CallId>,
    /// The state that a breakpoint stopped it in.
    pub state: Option<RunState>,
}

/// What a run is doing, with all that only matters then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A request is being made, or was sent and no byte has come.
    Preparing {
        /// How far it is.
        stage: PrepareStage,
    },
    /// The model is answering.
    Streaming(Stream),
    /// Calls are checked, asked, run; they are in the step.
    ToolExec,
    /// It waits for something outside.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Awaiting {
        on: WaitFor,
        /// Until when at most.
        until: Option<Timestamp>,
    },
    /// A compaction is in progress; none = its step is decided next.
    Compacting(Option<Compacting>),
    /// A failure is being decided on.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Error { failure: Failure },
    /// A failed request waits for its next try.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Retry { until: Timestamp },
}

/// A summary that the user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRequest {
    /// What it is to keep above all.
    pub focus: Option<Body>,
}

/// A compaction in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Compacting {
    /// The effect that does it.
    pub effect: EffectId,
    #[serde(rename = "rung")]
    pub compaction_step: CompactionStep,
    /// How many items a summary is to stand for.
    pub items: u32,
    /// What the user wants it to keep above all.
    pub focus: Option<Body>,
    /// Since when, or since it was resumed.
    pub since: Timestamp,
    /// The reservation for it.
    pub reserved: Option<Spent>,
}

/// How far a request is before its first byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareStage {
    /// What it needs is being made.
    Gathering,
    /// Its budget is being reserved.
    Reserving,
    /// It is out.
    Sent(Sent),
}

/// A request that is out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Sent {
    pub request: EffectId,
    /// The owner that sent it.
    pub epoch: Epoch,
    pub at: Timestamp,
    /// How many items of the transcript it holds.
    pub items: u32,
    /// About how many tokens it holds.
    pub tokens: u64,
    /// The reservation for it.
    pub reserved: Option<Spent>,
}

/// An answer that is streaming in: the only text that the state holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// The request that it answers.
    pub sent: Sent,
    /// The text so far.
    pub text: String,
    /// The reasoning so far.
    pub reasoning: String,
    /// The calls so far, by their place in the answer.
    pub calls: Vec<PartialCall>,
    /// Its blocks so far.
    pub blocks: BlockList,
    /// Its images so far.
    pub images: Vec<Attachment>,
    /// Bytes of everything so far: the offset of what comes next.
    pub bytes: u64,
    /// When something last came.
    pub last_at: Timestamp,
}

/// A call that is streaming in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialCall {
    /// Its place in the answer.
    pub index: u32,
    /// The provider's id.
    pub provider_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments so far.
    pub arguments: String,
}

/// One request to a model and the calls that its answer asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its number in the run, from 1; 0 before the first.
    pub no: u32,
    /// Text of interrupted or failed streams that is neither retracted nor part of a message yet.
    pub kept: Vec<Body>,
    /// Text of this step's finished messages: what the run's answer is made of if this is its last step.
    pub segments: Vec<Body>,
    /// Calls that the model has requested in it, including those of interrupted messages: no two share an id.
    pub asked: u32,
    /// Whether its message is sealed: what follows is another step.
    pub answered: bool,
    /// Why its last message ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// How often its message was continued after it was cut at its output limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub continued: u32,
    /// The calls of its message.
    pub calls: Vec<Call>,
}

/// A decided outcome: the run ends when nothing of it runs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Ending {
    pub outcome: Outcome,
    /// Whether the session terminates with it.
    pub terminate: bool,
    /// Whether a new conversation starts after it.
    pub reset: bool,
    /// Since when, or since the owner that resumes it: its calls are ended by a living process.
    pub since: Timestamp,
}

/// The run's own clock. It stands still in awaiting, retry, paused, and while no process owns the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunClock {
    /// Milliseconds that it has run before `since`.
    pub spent_ms: u64,
    /// Since when it runs.
    pub since: Option<Timestamp>,
}

impl RunClock {
    pub(crate) fn set_running(&mut self, running: bool, at: Timestamp) {
        match (self.since, running) {
            (None, true) => self.since = Some(at),
            (Some(since), false) => {
                self.spent_ms += at.since(since);
                self.since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
}

impl Run {
    pub(crate) fn new(id: RunId, inputs: Vec<MessageId>, settings: Hash, first_seq: Seq, at: Timestamp) -> Self {
        Self {
            id,
            inputs,
            settings,
            first_seq,
            started_at: at,
            phase: Phase::Preparing { stage: PrepareStage::Gathering },
            step: Step::default(),
            prompt: None,
            counts: RunCounts {
                candidates: Counters::default(),
                attempt: 1,
                calls: 0,
                openings: 0,
                request: (0, 0, 0),
                lane_waits: 0,
                recoveries: 0,
            },
            compaction: RunCompactions::default(),
            trace: vec![],
            usage: Usage::default(),
            budget: RunBudget::default(),
            repeats: Repeats::default(),
            unended: vec![],
            title: None,
            has_asked_title: false,
            has_schema_mismatch: false,
            blocks: None,
            ending: None,
            breakpoints: RunBreakpoints::default(),
            pause: None,
            clock: RunClock { spent_ms: 0, since: Some(at) },
        }
    }

    /// The state that its phase stands for.
    pub fn state(&self) -> RunState {
        match self.phase {
            Phase::Preparing { .. } => RunState::Preparing,
            Phase::Streaming(_) => RunState::Streaming,
            Phase::ToolExec => RunState::ToolExec,
            Phase::Awaiting { .. } => RunState::Awaiting,
            Phase::Compacting(_) => RunState::Compacting,
            Phase::Error { .. } => RunState::Error,
            Phase::Retry { .. } => RunState::Retry,
        }
    }

    /// Whether it waits for something outside and needs no slot of its lane until that comes. A wait for memory keeps
    /// the slot: another run would only need more of it.
    pub fn frees_lane(&self) -> bool {
        match self.phase {
            Phase::Awaiting { on: WaitFor::Budget, .. } => !self.waits_for_memory(),
            Phase::Awaiting { on, .. } => on.frees_lane(),
            Phase::Preparing { .. }
            | Phase::Streaming(_)
            | Phase::ToolExec
            | Phase::Compacting(_)
            | Phase::Error { .. }
            | Phase::Retry { .. } => false,
        }
    }

    /// Whether it waits until the process has memory for it: its grant was denied, and neither a day nor a human ends
    /// that wait.
    pub fn waits_for_memory(&self) -> bool {
        let is_passing = matches!(self.phase, Phase::Awaiting { on: WaitFor::Budget, until: None });
        is_passing && self.budget.asked.is_some() && !self.budget.home_reached
    }

    /// Whether a question of the model is open.
    pub(crate) fn asks_user(&self) -> bool {
        self.step.calls.iter().any(|call| call.stage == super::call::Stage::Asking && call.takes.is_some())
    }

    /// Whether its wait is over, and it queues for its lane again.
    pub fn waits_for_lane(&self) -> bool {
        matches!(self.phase, Phase::Awaiting { on: WaitFor::Lane, .. })
    }

    /// An effect of the run itself.
    pub fn effect(&self, kind: EffectKind, ordinal: u32, try_no: u32) -> EffectId {
        EffectId { run: self.id, kind, ordinal, try_no }
    }

    /// The request that is out: sent or streaming.
    pub fn sent(&self) -> Option<&Sent> {
        match &self.phase {
            Phase::Preparing { stage: PrepareStage::Sent(sent) } => Some(sent),
            Phase::Streaming(stream) => Some(&stream.sent),
            Phase::Preparing { .. }
            | Phase::ToolExec
            | Phase::Awaiting { .. }
            | Phase::Compacting(_)
            | Phase::Error { .. }
            | Phase::Retry { .. } => None,
        }
    }

    /// Whether it has an answer that lacks only its rest: it was cut at its output limit, and its continuation has not
    /// ended.
    pub(crate) fn has_part(&self) -> bool {
        self.step.continued > 0 && !self.step.answered
    }

    /// The request that was sent last; none when none was.
    pub(crate) fn failed_request(&self) -> Option<EffectId> {
        let (ordinal, try_no, _) = self.counts.request;
        (ordinal > 0).then(|| self.effect(EffectKind::Request, ordinal, try_no))
    }

    /// A call of the current step.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.step.calls.iter().find(|call| call.id == id)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// Groups of fields are fields of the run on disk, in this order: the hash of a state is that of these bytes.
    #[test]
    fn r17_the_form_of_a_run_has_no_groups() {
        let id = Uuid::from_u128(7);
        let run = Run::new(RunId(id), vec![MessageId(id)], Hash::of(b""), Seq(3), Timestamp(5));
        let form = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000007","inputs":["00000000-0000-0000-0000-000000000007"],"#,
            r#""settings":"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262","first_seq":3,"started_at":5,"#,
            r#""phase":{"preparing":{"stage":"gathering"}},"#,
            r#""step":{"no":0,"kept":[],"segments":[],"asked":0,"answered":false,"calls":[]},"prompt":null,"#,
            r#""counters":{"candidate":0,"lowered":null,"failed":0,"refused":0,"cooling":[],"waited_ms":0,"#,
            r#""room":{"rung":"summarise","failed":0,"overflows":0,"history":"estimated","broke":false,"alone":false,"tokens":0}},"#,
            r#""attempt":1,"calls":0,"openings":0,"request":[0,0,0],"compactions":0,"summary":null,"trace":[],"#,
            r#""usage":{"input":0,"cached":0,"cache_written":0,"output":0,"reasoning":0},"#,
            r#""spent":{},"at_answer":{},"allowance":{},"winding":"not","asked":null,"asks":0,"#,
            r#""repeats":{"seen":[],"told":false},"unended":[],"ending":null,"breakpoints":[],"passed":null,"#,
            r#""pause":null,"clock":{"spent_ms":0,"since":5}}"#
        );
        assert_eq!(serde_json::to_string(&run).unwrap(), form);
        assert_eq!(serde_json::from_str::<Run>(form).unwrap(), run);
    }
}
