//! Inputs: what was asked for and what happened. A command may be refused; a report may only be late.

use std::sync::Arc;

use crate::body::{Attached, Content};
use crate::event::{Breakpoint, CallOutcome, Found, Leg, Overrides, QueueMode, ReceiptState, Usage};
use crate::failure::Failure;
use crate::ids::{BranchId, CallId, EffectId, Epoch, Hash, MessageId, RunId, SessionId, Timestamp};
use crate::ledger::{CooldownLifted, CooldownSet};
use crate::queue::QueueSettings;
use crate::settings::{Policy, Settings, Thinking};
use crate::state::{BlockOf, ItemAt, LegState};
use crate::tables::budget::{Allowance, Limit, Scope};

/// Something for the machine to decide on.
#[derive(Debug, Clone)]
pub enum Input {
    /// Asked for.
    Command(Command),
    /// Happened.
    Report(Report),
}

impl From<Command> for Input {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<Report> for Input {
    fn from(report: Report) -> Self {
        Self::Report(report)
    }
}

/// What can be asked for.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begin a session. The first input of a new machine.
    Create {
        /// Its id.
        session: SessionId,
        /// Its key, `agent:AGENT:NAME`.
        key: String,
        /// Its agent.
        agent: String,
        /// Its first branch.
        branch: BranchId,
    },
    /// Take a message.
    Message {
        /// Its id, made by the sender.
        message: MessageId,
        /// Its text.
        content: Content,
        /// How to route it; none = as its session says, else as `queue` says.
        mode: Option<QueueMode>,
        /// How messages are queued where nothing else is said.
        queue: QueueSettings,
        /// The sender's key.
        key: Option<String>,
        /// What it asks to be different for its run.
        overrides: Overrides,
        /// Images and files that come with it.
        attachments: Vec<Attached>,
    },
    /// Take a queued message back.
    Cancel {
        /// Which.
        message: MessageId,
        /// Which leg of it; none = all that wait.
        leg: Option<Leg>,
    },
    /// Take all back that waits.
    Clear,
    /// End the run that is under way.
    Abort {
        /// Which, to be sure; none = whichever it is.
        run: Option<RunId>,
    },
    /// Hold the run at a checkpoint.
    Pause {
        /// Which, to be sure; none = whichever it is.
        run: Option<RunId>,
        /// Whether its commands are to stand still as well.
        freeze: bool,
    },
    /// Let a run stop at a place.
    Break {
        /// Which.
        run: RunId,
        /// Where; none = nowhere any more.
        at: Option<Breakpoint>,
    },
    /// Let it go on.
    Resume {
        /// Which, to be sure; none = whichever it is.
        run: Option<RunId>,
        /// End it as interrupted instead.
        drop: bool,
    },
    /// Answer a question.
    Answer {
        /// The call that asks.
        call: CallId,
        /// What the answer binds to.
        fingerprint: Hash,
        /// Whether the call may run.
        allow: bool,
        /// By whom or what; shown to the model when denied.
        by: String,
    },
    /// Shorten the history: at the next boundary of the run that is under way, else by a run of its own.
    Compact {
        /// The id of that run's message, made by the runtime.
        message: MessageId,
        /// What is to be kept above all; may be empty.
        focus: Content,
        /// How the queue is configured.
        queue: QueueSettings,
    },
    /// Say what may be spent.
    Budget {
        /// By the run that is under way, or by all runs of the session.
        scope: Scope,
        /// Of each resource that is named; [`crate::tables::budget::NO_LIMIT`] = as much as it takes.
        change: Allowance,
    },
    /// Take the last compaction back.
    Uncompact {
        /// Which, to be sure.
        compaction: EffectId,
        /// What its summary stood for, with the entries: the state before it has them.
        restored: Vec<ItemAt>,
    },
    /// Begin the conversation anew: a run that is under way is aborted, what waits stays.
    Reset,
    /// Change a setting of the session.
    Override(Override),
    /// Go back to a checkpoint. Reserved for R17: the machine refuses it as unsupported.
    Rewind,
    /// Begin another session at a checkpoint. Reserved for R17: the machine refuses it as unsupported.
    Fork,
    /// Mend a session that needs a human.
    Recover {
        /// Take the held run up again, also a poison one.
        force: bool,
    },
    /// End the session for good.
    Terminate,
    /// End it for good if nothing has happened in it since then.
    TerminateIdle {
        /// The time.
        before: Timestamp,
    },
}

/// A setting of a session, in place of the agent's; none = as the agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Override {
    /// The model of its next runs, `PROVIDER/MODEL`.
    Model(Option<String>),
    /// How much they think.
    Thinking(Option<Thinking>),
    /// Whether what they do is shown in detail.
    Verbose(Option<bool>),
    /// How its messages are routed that do not say.
    QueueMode(Option<QueueMode>),
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A part of a call: id and name come with its first part, arguments are what is added.
    Call {
        /// The call's place in the answer, from 0.
        index: u32,
        /// The provider's id.
        provider_id: Option<String>,
        /// The tool's name.
        name: Option<String>,
        /// What is added to its arguments.
        arguments: String,
    },
    /// The provider's signature of a block: of the last one of its kind, or of one that holds nothing else.
    Signature {
        /// The kind of the block.
        block: BlockOf,
        /// The provider's own text, in the adapter's form.
        signature: String,
    },
    /// An image, whole.
    Image(Attached),
}

/// What a call gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Done or Failed; Unended from an `end_call` that gave up.
    pub outcome: CallOutcome,
    /// What the model is told.
    pub output: Content,
    /// All that it gave back, when that is more.
    pub whole: Option<Content>,
    /// Images and files that the model is shown.
    pub attachments: Vec<Attached>,
    /// The call is done, and its command goes on in the background: the session is to hold it.
    pub in_background: bool,
}

impl ToolResult {
    /// An output that is told whole.
    pub fn new(outcome: CallOutcome, output: Content) -> Self {
        Self { outcome, output, whole: None, attachments: vec![], in_background: false }
    }
}

/// What a compaction made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionResult {
    /// A summary of the items before the cut.
    Summary {
        /// Its text.
        text: Content,
        /// The model that wrote it, `PROVIDER/MODEL`; none = it is an extract.
        by: Option<String>,
        /// What it cost.
        usage: Usage,
    },
    /// Long results, each as it is told from now on.
    Results(Vec<(CallId, Content)>),
}

/// What can happen. A report about an effect names it, and is dropped and counted when it is not wanted.
#[derive(Debug, Clone)]
pub enum Report {
    /// An owner took the session up. The first input after recovery.
    Opened {
        /// Its number.
        epoch: Epoch,
        /// The candidates of its run that the ledger says are to be left alone.
        cooling: Vec<CooldownSet>,
    },
    /// What the ledger says has changed since the run was last told: these of its candidates are to be left alone.
    CooldownSet {
        /// All of them.
        cooling: Vec<CooldownSet>,
    },
    /// A user has said of these of its candidates that they may be asked again: a run that only waits for one goes on.
    CooldownLifted {
        /// All of them, also of those that it does not leave alone.
        cleared: Vec<CooldownLifted>,
    },
    /// An owner took the session up, and its run waits for its place in the lane: what is asked for is decided on, and
    /// nothing goes on by itself. `Opened` follows when it has its place, or needs none any more.
    OpenedToWait {
        /// Its number.
        epoch: Epoch,
    },
    /// The owner is leaving in order.
    Closing,
    /// An armed time has come.
    Due,
    /// The head of the queue has its place in the lane.
    LaneEntered {
        /// The `lane` effect.
        effect: EffectId,
        /// What its run is decided by.
        settings: Arc<Settings>,
        /// The candidates that the ledger says are to be left alone.
        cooling: Vec<CooldownSet>,
    },
    /// The head of the queue cannot run (its model does not exist, say).
    LaneRefused {
        /// The `lane` effect.
        effect: EffectId,
        /// Settings to end the run under; only its failure matters.
        settings: Arc<Settings>,
        /// Why.
        failure: Failure,
    },
    /// A request may be sent: what it is taken to cost is set aside among all who spend.
    Reserved {
        /// The `reserve` effect.
        effect: EffectId,
        /// A limit that is near.
        near: Option<Limit>,
    },
    /// It may not be sent yet. `Reserved` follows when it may.
    Denied {
        /// The `reserve` effect.
        effect: EffectId,
        /// The limit that is reached.
        limit: Limit,
        /// When it begins anew, where that is known.
        until: Option<Timestamp>,
    },
    /// The ledger has recorded a strike.
    Reported {
        /// The `report` effect.
        effect: EffectId,
    },
    /// The workspace stands and the system prompt is made.
    Prepared {
        /// The `prepare` effect.
        effect: EffectId,
        /// The system prompt.
        prompt: Content,
    },
    /// A request's first byte came.
    RequestOpened {
        /// The `request` effect.
        effect: EffectId,
    },
    /// A piece of its answer came.
    Said {
        /// The `request` effect.
        effect: EffectId,
        /// The piece.
        part: Part,
    },
    /// Its answer is whole: the provider's own end mark came.
    RequestEnded {
        /// The `request` effect.
        effect: EffectId,
        /// What it cost.
        usage: Usage,
    },
    /// A history was made shorter.
    Compacted {
        /// The `compact` effect.
        effect: EffectId,
        /// What was made.
        made: CompactionResult,
    },
    /// It could not be, after some of its requests were answered.
    NotCompacted {
        /// The `compact` effect.
        effect: EffectId,
        /// Why.
        failure: Failure,
        /// What those requests took.
        usage: Usage,
    },
    /// It failed, or `prepare` or `compact` did.
    RequestFailed {
        /// The `request`, `prepare` or `compact` effect.
        effect: EffectId,
        /// How.
        failure: Failure,
    },
    /// A call was checked.
    CallChecked {
        /// The `check_call` effect.
        effect: EffectId,
        /// What the policy says. Deny also stands for arguments that do not fit, or no such tool.
        decision: Policy,
        /// The hash of tool, arguments and folder.
        fingerprint: Hash,
        /// What is needed to look it up after a crash.
        evidence: Option<String>,
        /// Why it is asked or denied.
        reason: Option<String>,
    },
    /// A running call wrote something.
    CallOutput {
        /// The `run_call` effect.
        effect: EffectId,
        /// Bytes of its output before this.
        offset: u64,
        /// What.
        text: String,
    },
    /// A call ended.
    CallEnded {
        /// The `run_call` or `end_call` effect.
        effect: EffectId,
        /// What it gave back.
        given: ToolResult,
    },
    /// What was found of a call that a crash cut off.
    CallFound {
        /// The `find_call` effect.
        effect: EffectId,
        /// What.
        found: Found,
        /// For Ended: what it gave back. For Running: what it gives back now, since it was put into the background.
        ended: Option<ToolResult>,
    },
    /// A process has ended, or cannot be.
    ProcessEnded {
        /// The `hold_process` or `end_process` effect.
        effect: EffectId,
        /// How.
        outcome: CallOutcome,
        /// How, in words.
        how: String,
    },
    /// A reply arrived. Reserved for R46.
    Delivered {
        /// The `deliver` effect.
        effect: EffectId,
    },
    /// It did not. Reserved for R46.
    DeliveryFailed {
        /// The `deliver` effect.
        effect: EffectId,
    },
    /// A child ended. Reserved for R67.
    ChildEnded {
        /// The `child` effect.
        effect: EffectId,
    },
    /// The session cannot go on without a human (its actor failed, say).
    Escalated {
        /// What is wrong.
        failure: Failure,
    },
    /// The store has no space.
    StoreFull,
    /// It has again.
    StoreFreed,
}

/// What became of one message, for its sender.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    /// The message.
    pub message: MessageId,
    /// The mode that it was accepted with.
    pub mode: QueueMode,
    /// Its state: of one that has two legs, that of its followup.
    pub state: ReceiptState,
    /// The run that answers it.
    pub run: RunId,
    /// The other leg of one that is steered and follows up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<LegState>,
    /// Where it is in the queue, from 1; none once it has started.
    pub ahead: Option<u32>,
    /// When it was accepted: of a message that is sent again, the first time.
    pub accepted_at: Timestamp,
    /// Until when at most it waits, where that is known: the reset of the quota that its run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether what its session does is to be shown in detail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verbose: bool,
}

/// What a command that was not refused has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgement {
    /// For a message: its receipt.
    Receipt(Receipt),
    /// For anything else: it is recorded.
    Done,
}

/// Why a command was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing of that kind.
    #[error("{what}")]
    NotFound {
        /// What is not there, as a sentence.
        what: String,
    },
    /// The same key came with other content.
    #[error("key `{key}` was used for another message (run {run}); use a new key")]
    Conflict {
        /// The key.
        key: String,
        /// The run that the key stands for.
        run: RunId,
    },
    /// The state does not allow it.
    #[error("not while the session is {state}: {reason}")]
    State {
        /// The lifecycle or run state.
        state: String,
        /// Why, and the way out.
        reason: String,
    },
    /// An answer to a question that is not asked, or not so.
    #[error("that question is not open any more; `limulus runs show` has what is asked now")]
    Stale,
    /// This version cannot do it.
    #[error("{what} is not in this version")]
    Unsupported {
        /// What was asked.
        what: &'static str,
    },
    /// The record could not be written, so nothing was done.
    #[error("the journal could not be written: {reason}")]
    Unavailable {
        /// What the store said.
        reason: String,
    },
}
