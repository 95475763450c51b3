//! What subscribers read: one line for whatever happens in a session. A line holds all that a screen needs; longer texts
//! are in the journal.

use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::transitions::RunState;
use engine::{
    CallId, CallOutcome, CompactionCause, CompactionStep, CutCause, EffectId, EndingCause, Epoch, Failure,
    FailureClass, Flags, Found, Hash, Lane, Leg, MessageId, Outcome, ProcessCause, QueueMode, QueueState, ReceiptState,
    RunId, Thinking, Timestamp, ToolClass, Usage, WaitFor,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::show::LaneWait;
#[cfg(feature = "schema")]
use crate::show::names;

/// The name of the event frame that carries an [`Event`].
pub const AGENT_EVENT: &str = "agent";

/// A line: `{cursor, session, run, at, stream, type, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Event {
    /// What a subscriber that has seen this line comes back with.
    pub cursor: String,
    /// The session's key.
    pub session: String,
    /// The run that it belongs to, if any.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// When it was decided.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub what: Stream,
    /// The messages that show something else from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<MessageShows>,
}

/// A message that shows something else of itself. It follows from what was recorded, as everything in a line does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MessageShows {
    /// The message.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub message: MessageId,
    /// Its mode.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: QueueMode,
    /// Where it stands, in the words of its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub queue_state: Option<QueueState>,
    /// Where the leg of it stands that steers, if it has two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub steer_state: Option<QueueState>,
}

/// What happened, by stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "stream", rename_all = "snake_case")]
pub enum Stream {
    /// The beginnings and ends of runs.
    Lifecycle(LifecycleLine),
    /// What the model says.
    Assistant(AssistantLine),
    /// What the model thinks.
    Reasoning(ReasoningLine),
    /// What its calls do.
    Tool(ToolLine),
    /// What the session is doing, and what went wrong.
    State(StateLine),
    /// What becomes of messages.
    Queue(QueueLine),
    /// How the history is made shorter.
    Compaction(CompactionLine),
    /// What it takes.
    Usage(UsageLine),
}

/// What it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UsageLine {
    /// What the run has taken so far, all of its requests together; told when a request has added to it.
    Run {
        /// The model that it runs on, `PROVIDER/MODEL`.
        model: String,
        /// The sum.
        #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
        usage: Usage,
    },
}

/// How the history is made shorter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompactionLine {
    /// It begins. The old history is in force until it is done.
    Begun {
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: CompactionCause,
        /// Which way.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// Which try of this way, from 1.
        #[serde(rename = "try")]
        try_no: u32,
        /// About how many tokens the next request would hold.
        tokens: u64,
    },
    /// The new history is in force.
    Done {
        /// About how many tokens it had before.
        before: u64,
        /// And has now.
        after: u64,
        /// The model that summarised, `PROVIDER/MODEL`; none = no model did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Results of calls that were cut, where that was the way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<u32>,
    },
    /// It was not made shorter.
    Failed {
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        failure: Failure,
        /// Whether the run ends with it; its last line says so again.
        ends_run: bool,
    },
    /// It was taken back: the old history is in force again.
    Undone {
        /// Messages and results that are told again.
        items: u32,
    },
}

/// The beginnings and ends of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LifecycleLine {
    /// An owner took the session up.
    Opened {
        /// How often the home was opened.
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        epoch: Epoch,
    },
    /// The run starts.
    Start,
    /// The run completed. The last line of a run.
    End(RunEnd),
    /// It did not complete. The last line of a run.
    Error(RunEnd),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunEnd {
    /// How.
    #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
    pub outcome: Outcome,
    /// What it said, whole.
    pub text: String,
    /// What it took.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Why it did not complete.
    pub error: Option<String>,
}

/// What the model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantLine {
    /// Text streamed in.
    Delta(Delta),
    /// The stream was cut; what had come is struck, or kept as a message that the model goes on from (`runs.resume`).
    Cut {
        /// The request.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: CutCause,
    },
    /// The text of this request is not a part of the answer.
    Struck {
        /// The request.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
    },
    /// A message is finished.
    Message {
        /// The request that it answers.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// Its text, whole.
        text: Option<String>,
        /// How many calls it asks for.
        calls: u32,
        /// What the request took.
        #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
        usage: Usage,
    },
}

/// What the model thinks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReasoningLine {
    /// Reasoning streamed in.
    Delta(Delta),
}

/// A piece of an effect's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Delta {
    /// The effect.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub effect: EffectId,
    /// Bytes of all that this effect gave before it.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// What calls do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolLine {
    /// A call begins.
    Start {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The effect that runs it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// How it may be repeated.
        #[cfg_attr(feature = "schema", schemars(with = "names::ToolClassName"))]
        class: ToolClass,
        /// The tool's name, as the model wrote it.
        tool: String,
        /// The beginning of its arguments.
        arguments: String,
    },
    /// It wrote something.
    Update(Delta),
    /// It has its result.
    End {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The tool's name, as the model wrote it.
        tool: String,
        /// How it ended.
        #[cfg_attr(feature = "schema", schemars(with = "names::CallOutcomeName"))]
        outcome: CallOutcome,
        /// Bytes that the model is told.
        bytes: u64,
        /// Their beginning.
        output: String,
    },
    /// Leave is asked for it.
    Asked {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// What is asked, for a person.
        question: String,
        /// What the answer binds to.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        fingerprint: Hash,
    },
    /// The question was answered.
    Answered {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// Whether it may run.
        allow: bool,
        /// By whom or what.
        by: String,
    },
    /// The process that ran it is gone; it is looked up.
    Lost {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
    },
    /// What was found of it.
    Found {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// What.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        found: Found,
    },
    /// It is to be ended.
    Ending {
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        why: EndingCause,
    },
    /// Its command goes on in the background.
    Background {
        /// The process.
        process: String,
        /// The call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// When it is ended at the latest.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        until: Timestamp,
    },
    /// A process in the background is to be ended.
    BackgroundEnding {
        /// The process.
        process: String,
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        why: ProcessCause,
    },
    /// A process in the background has ended.
    BackgroundEnded {
        /// The process.
        process: String,
        /// How.
        #[cfg_attr(feature = "schema", schemars(with = "names::CallOutcomeName"))]
        outcome: CallOutcome,
        /// How, in words.
        how: String,
    },
}

/// What the session is doing, and what went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StateLine {
    /// The state is another.
    Changed {
        /// Of the run.
        #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
        state: RunState,
        /// Of the session.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        lifecycle: LifecycleKind,
        /// The flags.
        #[cfg_attr(feature = "schema", schemars(with = "names::FlagsShape"))]
        flags: Flags,
    },
    /// A request failed, or something that had to come before it.
    Failed {
        /// How.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        failure: Failure,
        /// Whether the run ends with it; its last line says so again.
        ends_run: bool,
    },
    /// It will be tried again.
    Retry {
        /// When.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        until: Timestamp,
        /// Which try that will be, from 2.
        #[serde(rename = "try")]
        try_no: u32,
        /// Another model that it will be with, `PROVIDER/MODEL (PROFILE)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The lower thinking level that it will be at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        thinking: Option<Thinking>,
    },
    /// Another model is asked than the one that was chosen or asked before, and nothing was tried again for it to be; or one that
    /// has failed, and not answered since.
    Asks {
        /// Which, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Whether it is a probe: it has failed, and not answered since.
        probe: bool,
    },
    /// A model is not asked for now.
    Cooling {
        /// Which, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Until when; none = not before another has answered.
        #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
        until: Option<Timestamp>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        class: Option<FailureClass>,
    },
    /// The user has said that a model may be asked again.
    Cleared {
        /// Which, `PROVIDER/MODEL (PROFILE)`.
        model: String,
    },
    /// The ledger has recorded what failed: every session of the home knows it now.
    Reported {
        /// The request that failed.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        request: EffectId,
    },
    /// The run waits.
    Waiting {
        /// For what.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        on: WaitFor,
        /// Until when at most.
        #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
        until: Option<Timestamp>,
    },
    /// The run is to end.
    Ending {
        /// How.
        #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
        outcome: Outcome,
        /// Whether the session ends with it, for good.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminate: bool,
    },
    /// The model is told something that no user and no tool said.
    Noted {
        /// Its text.
        text: String,
    },
    /// The lifecycle of the session is another.
    Lifecycle {
        /// From where.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        from: LifecycleKind,
        /// To where.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        to: LifecycleKind,
        /// Why.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: LifecycleCause,
        /// What is wrong, if a human is needed.
        reason: Option<String>,
        /// The command that mends it.
        remedy: Option<String>,
    },
    /// This subscriber has seen what is not in the journal any more: what it has beyond this line's cursor never happened.
    Rewound {
        /// The cursor to go on from; the line's own.
        to: String,
    },
    /// What follows of this session cannot be read back; the others are told. For whoever reads back the whole home.
    Unreadable {
        /// What is wrong.
        reason: String,
    },
}

/// What becomes of messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QueueLine {
    /// It is recorded; its run has the id of the line.
    Accepted {
        /// The message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The sender's key.
        key: Option<String>,
    },
    /// It waits no more: it has come to an end, or a run takes it that it did not start.
    Settled {
        /// The message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// How.
        #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
        state: ReceiptState,
        /// The run that takes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        taken_by: Option<RunId>,
        /// Which leg of it; all that wait, where none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::LegName>"))]
        leg: Option<Leg>,
    },
    /// Messages show something else, and nothing else of what was recorded is told: the line's `queue` says which.
    Shows,
    /// Its run waits for a place in a lane: told when the wait begins, to whoever begins to listen meanwhile, and once more
    /// when it has lasted 2 s. Such a line is in no journal.
    Waiting {
        /// The message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// How long it has waited, milliseconds.
        waited_ms: u64,
        /// Behind whom, and since when.
        #[serde(flatten)]
        wait: LaneWait,
    },
    /// Its run has waited for its place, and has it. Such a line is in no journal.
    Entered {
        /// The message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The lane.
        #[cfg_attr(feature = "schema", schemars(with = "names::LaneName"))]
        lane: Lane,
        /// How long it waited, milliseconds.
        waited_ms: u64,
    },
}

impl From<engine::MessageShows> for MessageShows {
    fn from(shows: engine::MessageShows) -> Self {
        let engine::MessageShows { message, mode, queue_state, steer_state } = shows;
        Self { message, mode, queue_state, steer_state }
    }
}

impl Event {
    /// Whether it tells how things stand now: such a line is told whenever a subscriber has caught up, and stands for no entry.
    pub fn is_state(&self) -> bool {
        matches!(self.what, Stream::State(StateLine::Changed { .. }) | Stream::Usage(_))
    }

    /// Whether it tells a wait for a place in a lane, which only the owner knows of: such a line stands for no entry.
    pub fn is_lane_wait(&self) -> bool {
        matches!(self.what, Stream::Queue(QueueLine::Waiting { .. } | QueueLine::Entered { .. }))
    }

    /// Whether it tells what became of the message that was to begin this run: that no run will, or which one takes it.
    pub fn settles(&self, run: RunId) -> bool {
        matches!(&self.what, Stream::Queue(QueueLine::Settled { message, .. }) if RunId::from(*message) == run)
    }

    /// How the message ended that was to begin this run, if this line tells that it never will.
    pub fn never_began(&self, run: RunId) -> Option<ReceiptState> {
        match &self.what {
            Stream::Queue(QueueLine::Settled { state, taken_by: None, leg: None, .. }) if self.settles(run) => {
                Some(*state)
            }
            _ => None,
        }
    }

    /// How its run ended, if this is its last line.
    pub fn run_end(&self) -> Option<&RunEnd> {
        match &self.what {
            Stream::Lifecycle(LifecycleLine::End(end) | LifecycleLine::Error(end)) => Some(end),
            _ => None,
        }
    }
}
