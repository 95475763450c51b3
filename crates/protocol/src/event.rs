//! The lines that subscribers receive: one for each event in a session. A line has all that a screen needs; longer
//! texts are in the journal.

use engine::tables::failover::FailureCategory;
use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::transitions::RunState;
use engine::{
    AnswerForm, CallId, CallOutcome, CompactionCause, CompactionStep, EffectId, EndingCause, Epoch, Failure,
    FailureClass, Flags, Found, Hash, InterruptCause, Lane, Leg, MessageId, Outcome, PlanItem, PlanStatus,
    ProcessCause, QueueMode, QueueState, ReceiptState, Resources, RunId, StopReason, Thinking, Timestamp, ToolClass,
    Usage, WaitFor,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::method::{BudgetLine, FileDiff};
use crate::show::LaneWait;
#[cfg(feature = "schema")]
use crate::show::names;

/// The name of the event frame that carries an [`Event`].
pub const AGENT_EVENT: &str = "agent";

/// A line: `{cursor, session, run, at, stream, type, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Event {
    /// The cursor with which a subscriber resumes after this line.
    pub cursor: String,
    /// The key of the session, agent:AGENT:NAME.
    pub session: String,
    /// The run that it belongs to, if any.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// When the event was decided, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// The stream and the type of the line, with their fields.
    #[serde(flatten)]
    pub what: Stream,
    /// The messages whose shown state changes with this line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<MessageShows>,
}

/// The new shown state of a message. Like everything in a line, it is derived from recorded events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MessageShows {
    /// The id of the message.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub message: MessageId,
    /// The queue mode of the message.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: QueueMode,
    /// Its queue state, one of the states of its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub queue_state: Option<QueueState>,
    /// The state of its steering leg, if it has two legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub steer_state: Option<QueueState>,
}

/// What happened, by stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "stream", rename_all = "snake_case")]
pub enum Stream {
    /// Starts and ends of runs.
    Lifecycle(LifecycleLine),
    /// The text of the model.
    Assistant(AssistantLine),
    /// The reasoning of the model.
    Reasoning(ReasoningLine),
    /// The calls of tools.
    Tool(ToolLine),
    /// State changes and failures of the session.
    State(StateLine),
    /// The progress of messages in the queue.
    Queue(QueueLine),
    /// Compactions of the history.
    Compaction(CompactionLine),
    /// The token usage of runs.
    Usage(UsageLine),
    /// The plan of the conversation.
    Plan(PlanLine),
    /// What goes out to routes, and messages of the model.
    Delivery(DeliveryLine),
}

pub use super::delivery::DeliveryLine;

/// The plan of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PlanLine {
    /// A call has set the plan. Its result follows.
    Set {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// All steps, in order; none if the plan is cleared. Not sanitized.
        items: Vec<PlanStep>,
    },
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanStep {
    /// What is to be done, on one line.
    pub step: String,
    /// How far it has come.
    #[cfg_attr(feature = "schema", schemars(with = "names::PlanStatusName"))]
    pub status: PlanStatus,
}

impl From<PlanItem> for PlanStep {
    fn from(PlanItem { step, status }: PlanItem) -> Self {
        Self { step, status }
    }
}

/// The token usage of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UsageLine {
    /// The usage of the run so far, all requests together. Sent when a request has added to it.
    Run {
        /// The model of the run, `PROVIDER/MODEL`.
        model: String,
        /// The sum over all requests.
        #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
        usage: Usage,
    },
}

/// Compactions of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompactionLine {
    /// A compaction begins. The old history stays in force until it is done.
    Begun {
        /// What triggered the compaction.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: CompactionCause,
        /// The compaction step: how the history is compacted.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// The attempt of this step, counted from 1.
        #[serde(rename = "try")]
        try_no: u32,
        /// The estimated number of tokens of the next request.
        tokens: u64,
    },
    /// The new history is in force.
    Done {
        /// The estimated number of tokens before.
        before: u64,
        /// The estimated number of tokens after.
        after: u64,
        /// The model that wrote the summary, `PROVIDER/MODEL`; none if no model did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The number of results that were truncated, if this step truncates results.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<u32>,
    },
    /// The compaction failed.
    Failed {
        /// The failure that prevented it.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        failure: Failure,
        /// Whether the run ends because of it. The last line of the run repeats the failure.
        ends_run: bool,
        /// The kind of error and whether it can pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::CategoryShape>"))]
        category: Option<FailureCategory>,
    },
    /// The last compaction was undone: the old history is in force again.
    Undone {
        /// The number of messages and results that are sent to the model again.
        items: u32,
    },
}

/// Starts and ends of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LifecycleLine {
    /// An owner opened the session.
    Opened {
        /// The epoch of the owner, which counts how often the home was opened.
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        epoch: Epoch,
    },
    /// The run starts.
    Start,
    /// The run completed. The last line of a run.
    End(RunEnd),
    /// The run did not complete. The last line of a run.
    Error(RunEnd),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunEnd {
    /// The outcome of the run.
    #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
    pub outcome: Outcome,
    /// The whole text of its answer.
    pub text: String,
    /// The token usage of the run.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Why the run did not complete; none if it completed.
    pub error: Option<String>,
    /// Why the answer of a completed run is incomplete; none if it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::StopReasonName>"))]
    pub stop_reason: Option<StopReason>,
    /// The checkpoint of an interrupted run, `BRANCH@SEQ`: its last entry before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The kind of error and whether it can pass, if the run ended with a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CategoryShape>"))]
    pub category: Option<FailureCategory>,
}

/// The text of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantLine {
    /// A piece of text of a running request.
    Delta(Delta),
    /// The stream was interrupted. Its text is retracted, or kept as a message that the model continues
    /// (`runs.resume`).
    Cut {
        /// The id of the request.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// What interrupted the stream.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: InterruptCause,
    },
    /// The text of this request was retracted: it is not part of the answer.
    Struck {
        /// The id of the request.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
    },
    /// A message of the model is complete.
    Message {
        /// The id of the request that it answers.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// The whole text of the message; none if it has no text.
        text: Option<String>,
        /// The number of calls in the message.
        calls: u32,
        /// Why the message ended early; none if the model was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::StopReasonName>"))]
        stop_reason: Option<StopReason>,
        /// Whether the next message continues this one: both are one text.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continues: bool,
        /// The token usage of the request.
        #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
        usage: Usage,
    },
}

/// The reasoning of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReasoningLine {
    /// A piece of reasoning of a running request.
    Delta(Delta),
}

/// A piece of the output of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Delta {
    /// The id of the effect.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub effect: EffectId,
    /// The number of bytes of this effect's output before this piece.
    pub offset: u64,
    /// The text of the piece.
    pub text: String,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolLine {
    /// A call starts.
    Start {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The id of the effect that runs it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        effect: EffectId,
        /// The class of the tool: whether the call may be repeated.
        #[cfg_attr(feature = "schema", schemars(with = "names::ToolClassName"))]
        class: ToolClass,
        /// The tool's name, as the model wrote it.
        tool: String,
        /// The beginning of its arguments.
        arguments: String,
    },
    /// The call produced output.
    Update(Delta),
    /// The call has its result.
    End {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The tool's name, as the model wrote it.
        tool: String,
        /// The outcome of the call.
        #[cfg_attr(feature = "schema", schemars(with = "names::CallOutcomeName"))]
        outcome: CallOutcome,
        /// The length in bytes of the output that the model receives.
        bytes: u64,
        /// The beginning of that output.
        output: String,
        /// The number of its lines, without what a tool says about them.
        #[serde(default)]
        lines: u64,
        /// Its end, if the call did not succeed and `output` does not reach it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<String>,
        /// The files that a call of a tool for files has changed, each with the beginning of its diff. It is recorded, so it
        /// is there after any time; `runs.diff` has the whole.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileDiff>,
    },
    /// The call needs approval, or is a question to the user.
    Asked {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The question for the user.
        question: String,
        /// The fingerprint of the call. The answer must name it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        fingerprint: Hash,
        /// What it takes as the answer, if it is a question to the user: `text`, `choice` or `json`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        takes: Option<AnswerForm>,
    },
    /// The approval request or the question was answered.
    Answered {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// Whether the call may run; of a question, whether it was answered and not skipped.
        allow: bool,
        /// Whether it was a question to the user.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        question: bool,
        /// Who or what answered.
        by: String,
        /// Why it may not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The arguments that it runs with instead of its own, shortened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<String>,
        /// Whether all such calls may run from now on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        always: bool,
    },
    /// Nobody answered the approval request in time.
    Expired {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// Whether it stays open; else the call is denied.
        kept: bool,
    },
    /// The process that ran the call is gone; the owner looks up its outcome.
    Lost {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
    },
    /// The lookup of the call is done.
    Found {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// The result of the lookup.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        found: Found,
    },
    /// The owner ends the call.
    Ending {
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// Why the owner ends it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        why: EndingCause,
    },
    /// The command of the call continues in the background.
    Background {
        /// The name of the background process.
        process: String,
        /// The id of the call.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        call: CallId,
        /// When it is ended at the latest, milliseconds since 1970 UTC.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        until: Timestamp,
    },
    /// The owner ends a background process.
    BackgroundEnding {
        /// The name of the background process.
        process: String,
        /// Why the owner ends it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        why: ProcessCause,
    },
    /// A background process has ended.
    BackgroundEnded {
        /// The name of the background process.
        process: String,
        /// The outcome of the command.
        #[cfg_attr(feature = "schema", schemars(with = "names::CallOutcomeName"))]
        outcome: CallOutcome,
        /// A description of how it ended.
        how: String,
    },
}

/// State changes and failures of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StateLine {
    /// The state of the run, the lifecycle state or a flag changed.
    Changed {
        /// The state of the run.
        #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
        state: RunState,
        /// The lifecycle state of the session.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        lifecycle: LifecycleKind,
        /// The flags of the session.
        #[cfg_attr(feature = "schema", schemars(with = "names::FlagsShape"))]
        flags: Flags,
        /// How the last run of the session ended; none if none has ended yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
        last_outcome: Option<Outcome>,
        /// Whether an abort is accepted: a run is active and not ending, or suspended.
        #[serde(default)]
        can_abort: bool,
        /// What the session has used, its limits and its times.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(with = "names::ResourcesShape"))]
        resources: Resources,
    },
    /// A request, or a step that it needs, failed.
    Failed {
        /// The failure, with its class and message.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        failure: Failure,
        /// Whether the run ends because of it. The last line of the run repeats the failure.
        ends_run: bool,
        /// The kind of error and whether it can pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::CategoryShape>"))]
        category: Option<FailureCategory>,
    },
    /// The request will be retried.
    Retry {
        /// When it is retried, milliseconds since 1970 UTC.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        until: Timestamp,
        /// The number of the attempt, from 2.
        #[serde(rename = "try")]
        try_no: u32,
        /// The model of the retry, if it is another one, `PROVIDER/MODEL (PROFILE)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The thinking level of the retry, if it is lowered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        thinking: Option<Thinking>,
    },
    /// The request goes to another model than the chosen or the last one without a retry, or to a model that failed and
    /// has not answered since.
    Asks {
        /// The model, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Whether the request is a probe: the model failed and has not answered since.
        probe: bool,
    },
    /// A model is in cooldown.
    Cooling {
        /// The model, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// The end of the cooldown, milliseconds since 1970 UTC; none if it lasts until another model has answered.
        #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
        until: Option<Timestamp>,
        /// The class of the failure that caused it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        class: Option<FailureClass>,
    },
    /// The user cleared the cooldown of a model.
    Cleared {
        /// The model, `PROVIDER/MODEL (PROFILE)`.
        model: String,
    },
    /// The ledger recorded the failure: it now applies to all sessions of the home.
    Reported {
        /// The id of the failed request.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        request: EffectId,
    },
    /// The changes of files of a run are taken back.
    Undoing {
        /// The run.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        of: RunId,
        /// Whether they are made once more instead.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
        /// Instead, what becomes of the copy in which it worked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<crate::show::names::CopyActName>"))]
        copy: Option<engine::CopyAct>,
    },
    /// That is done.
    Undone {
        /// The run.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        of: RunId,
        /// How many files stayed as they were.
        #[serde(default)]
        left: usize,
    },
    /// What a deleted conversation said is erased, or could not be.
    Erased {
        /// Why it could not be erased; the next owner tries again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A model has given the conversation a title. Nothing is sent if it has not.
    Titled {
        /// The title, on one line; not sanitized.
        title: String,
    },
    /// The run waits for something outside of it: an approval, a quota, a budget.
    Waiting {
        /// What it waits for.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        on: WaitFor,
        /// When the wait ends at the latest, milliseconds since 1970 UTC.
        #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
        until: Option<Timestamp>,
        /// The limit that leaves too little for its next request, if it waits for a budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetLine>,
    },
    /// The run is ending.
    Ending {
        /// The outcome that the run will have.
        #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
        outcome: Outcome,
        /// Whether the session is terminated with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminate: bool,
    },
    /// The model receives a note from limulus itself.
    Noted {
        /// The text of the note.
        text: String,
        /// Whether it says the date and the like, which people know: a terminal does not show it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        facts: bool,
    },
    /// The lifecycle state of the session changed.
    Lifecycle {
        /// The lifecycle state before.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        from: LifecycleKind,
        /// The lifecycle state after.
        #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
        to: LifecycleKind,
        /// What caused the change.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cause: LifecycleCause,
        /// What is wrong, if the user must act.
        reason: Option<String>,
        /// The command that repairs it.
        remedy: Option<String>,
        /// For `error`: which attempt Limulus makes by itself next (`runs.recover`); for `recovering`: which of them
        /// this is, and none if a human asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// For `error`: when it makes that attempt, milliseconds since 1970 UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
        retry_at: Option<Timestamp>,
    },
    /// The subscriber has received lines that are no longer in the journal. It must discard all lines after this line's
    /// cursor.
    Rewound {
        /// The cursor to continue from; the same as the line's own.
        to: String,
    },
    /// The following entries of this session cannot be read; those of other sessions are still sent. Only for
    /// subscriptions that read the whole home.
    Unreadable {
        /// Why they cannot be read.
        reason: String,
    },
}

/// The progress of messages in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QueueLine {
    /// The message is recorded. `run` of the line is its run.
    Accepted {
        /// The id of the message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The idempotency key of the sender.
        key: Option<String>,
        /// The beginning of its text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The message no longer waits: it has ended, or a run that it did not start has taken it.
    Settled {
        /// The id of the message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The state in which it was settled.
        #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
        state: ReceiptState,
        /// The run that took it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        taken_by: Option<RunId>,
        /// The leg; none means all waiting legs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::LegName>"))]
        leg: Option<Leg>,
    },
    /// The shown state of messages changed and nothing else: the line's `queue` names them.
    Shows,
    /// The run of the message queues for a slot of a lane. Sent when the wait begins, to each new subscriber during the
    /// wait, and again after 2 s. The line is not in the journal.
    Waiting {
        /// The id of the message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// How long it has waited so far, milliseconds.
        waited_ms: u64,
        /// The runs ahead, and since when it waits.
        #[serde(flatten)]
        wait: LaneWait,
    },
    /// The run of the message has waited and entered the lane. The line is not in the journal.
    Entered {
        /// The id of the message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The name of the lane.
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
    /// The event in the payload of a frame; none if this version does not know it. A function of this crate, so that the
    /// parser of all lines is compiled once.
    pub fn of_payload(payload: &Value) -> Option<Self> {
        Self::deserialize(payload).ok()
    }

    /// Whether the line reports the current state. Such a line is sent whenever a subscriber has caught up, and belongs
    /// to no entry.
    pub fn is_state(&self) -> bool {
        matches!(self.what, Stream::State(StateLine::Changed { .. }) | Stream::Usage(_))
    }

    /// Whether the line reports a wait in a lane, which only the owner knows. Such a line belongs to no entry.
    pub fn is_lane_wait(&self) -> bool {
        matches!(self.what, Stream::Queue(QueueLine::Waiting { .. } | QueueLine::Entered { .. }))
    }

    /// Whether the line settles the message that was to start this run: no run will, or another run took it.
    pub fn settles(&self, run: RunId) -> bool {
        matches!(&self.what, Stream::Queue(QueueLine::Settled { message, .. }) if RunId::from(*message) == run)
    }

    /// How the message that was to start this run ended, if this line says that the run will never start.
    pub fn never_began(&self, run: RunId) -> Option<ReceiptState> {
        match &self.what {
            Stream::Queue(QueueLine::Settled { state, taken_by: None, leg: None, .. }) if self.settles(run) => {
                Some(*state)
            }
            _ => None,
        }
    }

    /// How the run ended, if this is its last line.
    pub fn run_end(&self) -> Option<&RunEnd> {
        match &self.what {
            Stream::Lifecycle(LifecycleLine::End(end) | LifecycleLine::Error(end)) => Some(end),
            _ => None,
        }
    }

    /// The whole text of a message or an answer, if this is its line.
    pub fn text(&self) -> Option<&str> {
        match &self.what {
            Stream::Assistant(AssistantLine::Message { text, .. }) => text.as_deref(),
            _ => self.run_end().map(|end| end.text.as_str()),
        }
    }
}
