//! A run: the work for one message, from accepted to exactly one outcome.

use serde::{Deserialize, Serialize};

use super::blocks::BlockList;
use super::call::Call;
use super::repeats::Repeats;
use crate::body::{Attachment, Body};
use crate::event::{Breakpoint, Outcome, PauseCause, Usage, WaitFor};
use crate::failure::Failure;
use crate::ids::{CallId, EffectId, EffectKind, Epoch, Hash, MessageId, RunId, Seq, Timestamp};
use crate::tables::budget::{Allowance, Spent};
use crate::tables::compaction::CompactionStep;
use crate::tables::recovery::Counters;
use crate::tables::transitions::RunState;

/// The run that is under way or held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
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
    /// Which of its candidates it is with, and what became of the others.
    pub counters: Counters,
    /// Which try this is, over all candidates, from 1.
    pub attempt: u32,
    /// Calls so far; numbers their effects.
    pub calls: u32,
    /// Openings in a row without an orderly end and without progress.
    pub openings: u32,
    /// The number, try and length of the last request.
    pub request: (u32, u32, u32),
    /// How often it began to shorten the history; numbers these effects.
    pub compactions: u32,
    /// The user asked for a summary.
    pub summary: Option<SummaryRequest>,
    /// The failures so far.
    pub trace: Vec<Failure>,
    /// What it took so far, as the providers say.
    pub usage: Usage,
    /// What counts against its budget.
    pub spent: Spent,
    /// What it had spent at its last answer.
    pub at_answer: Spent,
    /// What it may spend, where somebody has said so.
    pub allowance: Allowance,
    /// How far it is with coming to an end because a budget is used up.
    pub winding: WrapUp,
    /// The leave that it asks for its next request.
    pub asked: Option<Asked>,
    /// How often it has asked; numbers these effects.
    pub asks: u32,
    /// Calls that brought nothing new.
    pub repeats: Repeats,
    /// Calls that could not be ended.
    pub unended: Vec<CallId>,
    /// Set once its end is decided.
    pub ending: Option<Ending>,
    /// Where it is to stop.
    pub breakpoints: Vec<Breakpoint>,
    /// The state that a breakpoint stopped it in, or that it was in when that was set, as long as it stays in it.
    pub passed: Option<RunState>,
    /// While it is held: why, and since when.
    pub pause: Option<Pause>,
    /// Its own clock.
    pub clock: RunClock,
}

/// How far a run is with coming to an end because a budget is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapUp {
    /// Nothing was said.
    #[default]
    Not,
    /// The model was told to wrap up.
    Told,
    /// It was asked to say what was done.
    Closing,
    /// It has said so, or cannot any more.
    Closed,
}

/// Leave that is asked for a request, of which others spend as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The effect that asks for it.
    pub reserve: EffectId,
    /// What the request is taken to cost.
    pub expected: Spent,
    /// Whether it only says what was done.
    pub closing: bool,
}

/// Why a run is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What holds it.
    pub cause: PauseCause,
    /// Whether its commands stand still as well.
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
    Awaiting {
        /// For what.
        on: WaitFor,
        /// Until when at most.
        until: Option<Timestamp>,
    },
    /// The history is being shortened; none = how is decided next.
    Compacting(Option<Compacting>),
    /// A failure is being decided on.
    Error {
        /// Which.
        failure: Failure,
    },
    /// A failed request waits for its next try.
    Retry {
        /// When.
        until: Timestamp,
    },
}

/// A summary that the user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRequest {
    /// What it is to keep above all.
    pub focus: Option<Body>,
}

/// A history that is being shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacting {
    /// The effect that does it.
    pub effect: EffectId,
    /// Which way.
    #[serde(rename = "rung")]
    pub compaction_step: CompactionStep,
    /// How many items a summary is to stand for.
    pub items: u32,
    /// What the user wants it to keep above all.
    pub focus: Option<Body>,
    /// Since when, or since it was taken up again.
    pub since: Timestamp,
    /// What is set aside for it.
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
pub struct Sent {
    /// Its id.
    pub request: EffectId,
    /// The owner that sent it.
    pub epoch: Epoch,
    /// When.
    pub at: Timestamp,
    /// How many items of the transcript it holds.
    pub items: u32,
    /// About how many tokens it holds.
    pub tokens: u64,
    /// What is set aside for it.
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
    /// Text of cut or failed streams that is neither struck nor part of a message yet.
    pub kept: Vec<Body>,
    /// Text of this step's finished messages: what the run's answer is made of if this is its last step.
    pub segments: Vec<Body>,
    /// Calls that the model has asked for in it, those of cut messages included: no two share an id.
    pub asked: u32,
    /// Whether its message is sealed: what follows is another step.
    pub answered: bool,
    /// The calls of its message.
    pub calls: Vec<Call>,
}

/// A decided end: the run takes it when nothing of it runs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Whether the session ends for good with it.
    pub terminate: bool,
    /// Whether the conversation begins anew after it.
    pub reset: bool,
    /// Since when, or since the owner that takes it up: its calls are ended by a process that lives.
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
            counters: Counters::default(),
            attempt: 1,
            calls: 0,
            openings: 0,
            request: (0, 0, 0),
            compactions: 0,
            summary: None,
            trace: vec![],
            usage: Usage::default(),
            spent: Spent::default(),
            at_answer: Spent::default(),
            allowance: Allowance::default(),
            winding: WrapUp::default(),
            asked: None,
            asks: 0,
            repeats: Repeats::default(),
            unended: vec![],
            ending: None,
            breakpoints: vec![],
            passed: None,
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

    /// An effect of the run itself.
    pub fn effect(&self, kind: EffectKind, ordinal: u32, try_no: u32) -> EffectId {
        EffectId { run: self.id, kind, ordinal, try_no }
    }

    /// The request that is out: sent or streaming.
    pub fn sent(&self) -> Option<&Sent> {
        match &self.phase {
            Phase::Preparing { stage: PrepareStage::Sent(sent) } => Some(sent),
            Phase::Streaming(stream) => Some(&stream.sent),
            _ => None,
        }
    }

    /// The request that was sent last; none when none was.
    pub(crate) fn failed_request(&self) -> Option<EffectId> {
        let (ordinal, try_no, _) = self.request;
        (ordinal > 0).then(|| self.effect(EffectKind::Request, ordinal, try_no))
    }

    /// A call of the step that is under way.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.step.calls.iter().find(|call| call.id == id)
    }
}
