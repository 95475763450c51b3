//! Inputs: commands and reports. A command may be refused; a report may only be late.

use std::sync::Arc;

use crate::approval::{Decision, UserQuestion};
use crate::body::{Attached, Content};
use crate::event::{
    Address, AnswerRefusal, Attribution, Breakpoint, CallOutcome, FileContent, Found, LeftFile, Leg, ModeSource, Modes,
    NotKept, Overrides, QueueMode, ReceiptState, StopReason, Usage,
};
use crate::failure::Failure;
use crate::ids::{BranchId, CallId, EffectId, Epoch, Hash, MessageId, RunId, SessionId, Timestamp};
use crate::ledger::{CooldownLifted, CooldownSet};
use crate::plan::PlanItem;
use crate::queue::{Interrupt, QueueSettings};
use crate::sandbox::CopyAct;
use crate::settings::{Policy, Settings, Thinking};
use crate::state::{BlockOf, ItemAt, LegState};
use crate::tables::budget::{Allowance, Limit, Scope};
use crate::tables::routing::OnlyIf;

/// Something for the machine to decide on.
#[derive(Debug, Clone)]
pub enum Input {
    /// A command, which has a caller.
    Command(Command),
    /// A report, which has no caller.
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

/// What an erasure has erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erased {
    /// The number of texts and outputs.
    pub bodies: u64,
    /// Their size as stored, in bytes.
    pub bytes: u64,
    /// The number of contents of files that were kept for an undo.
    pub files: u64,
}

/// A command of a user or a client; it may be refused.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begin a session. The first input of a new machine.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Create {
        session: SessionId,
        /// Its key, `agent:AGENT:NAME`.
        key: String,
        agent: String,
        /// The first branch of the session.
        branch: BranchId,
    },
    /// Accept a message.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Message {
        /// Its id, made by the sender.
        message: MessageId,
        content: Content,
        /// The queue mode; none = the session's, else the mode in `queue`.
        mode: Option<QueueMode>,
        /// How messages are queued by default.
        queue: QueueSettings,
        /// The idempotency key of the sender.
        key: Option<String>,
        /// The overrides for its run.
        overrides: Overrides,
        /// Images and files that come with it.
        attachments: Vec<Attached>,
        /// What its sender says about it beside its content.
        options: SenderOptions,
    },
    /// Withdraw a queued message.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Cancel {
        message: MessageId,
        /// Which leg of it; none = all waiting legs.
        leg: Option<Leg>,
    },
    /// Withdraw all waiting messages.
    Clear,
    /// End the active run.
    Abort {
        /// The expected run; none = any.
        run: Option<RunId>,
    },
    /// Pause the run at a checkpoint.
    Pause {
        /// The expected run; none = any.
        run: Option<RunId>,
        /// Whether its commands are frozen as well.
        freeze: bool,
    },
    /// Set a breakpoint of a run.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Break {
        run: RunId,
        /// Where; none = remove all breakpoints.
        at: Option<Breakpoint>,
    },
    /// Resume the paused run.
    Resume {
        /// The expected run; none = any.
        run: Option<RunId>,
        /// End it as interrupted instead.
        drop: bool,
    },
    /// Answer an approval request or a question.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Answer {
        /// The call that waits for it.
        call: CallId,
        /// The fingerprint that the answer is bound to.
        fingerprint: Hash,
        decision: Decision,
        /// Who or what answers; shown to the model when denied.
        by: String,
    },
    /// Record that an answer was refused before it came to the session.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RefuseAnswer {
        call: CallId,
        /// Who or what gave it.
        by: String,
        why: AnswerRefusal,
    },
    /// Compact the history: at the next boundary of the active run, else by a run of its own.
    Compact {
        /// The id of that run's message, made by the runtime.
        message: MessageId,
        /// What is to be kept above all; may be empty.
        focus: Content,
        /// How the queue is configured.
        queue: QueueSettings,
    },
    /// Set limits of a budget.
    Budget {
        /// For the active run, or for all runs of the session.
        scope: Scope,
        /// The limit of each named resource; [`crate::tables::budget::NO_LIMIT`] = unlimited.
        change: Allowance,
    },
    /// Take back what a run of the session changed in files. No run may be unfinished.
    Undo {
        /// The run whose changes are taken back, or made once more.
        run: RunId,
        /// Whether they are made once more.
        redo: bool,
        /// What becomes of the copy in which the run worked, if it is about that.
        copy: Option<CopyAct>,
        /// Every file with what is there and what is to be there, as JSON.
        plan: Content,
    },
    /// Undo the last compaction.
    Uncompact {
        /// The compaction to undo; it must be the last one.
        compaction: EffectId,
        /// What its summary stood for, with the entries, from the state before it.
        restored: Vec<ItemAt>,
    },
    /// Start a new conversation: an active run is aborted, and waiting messages stay.
    Reset,
    /// Change a setting of the session.
    Override(Override),
    /// Give the session a title, or show it elsewhere.
    Label {
        /// The title; an empty one = the first words of its first message; none = as before.
        title: Option<Content>,
        /// Whether it is archived; none = as before.
        archived: Option<bool>,
    },
    /// Send what did not arrive again.
    #[allow(missing_docs, reason = "the field says it itself")]
    Redeliver { delivery: EffectId },
    /// Give a delivery up.
    #[allow(missing_docs, reason = "the field says it itself")]
    DropDelivery { delivery: EffectId },
    /// Delete its conversation: nothing of it is shown any more, its content is erased, and the next message begins a new
    /// one. No run may be unfinished, no message wait, no command run in the background.
    Delete,
    /// Go back to a checkpoint. Reserved for R17: the machine refuses it as unsupported.
    Rewind,
    /// Begin another session at a checkpoint. Reserved for R17: the machine refuses it as unsupported.
    Fork,
    /// Repair a session that needs a human.
    Recover {
        /// Resume the run that needs a human, also a poison run.
        force: bool,
    },
    /// Terminate the session.
    Terminate,
    /// Terminate it only if nothing has happened in it since this time.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    TerminateIdle { before: Timestamp },
}

/// What the sender of a message says about it beside its content. All of it is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SenderOptions {
    /// The state that the session must be in; else the message is refused and nothing is recorded.
    pub only_if: Option<OnlyIf>,
    /// Where the message came from.
    pub origin: Option<Box<Address>>,
    /// Where its answer goes, if not to its origin.
    pub reply_to: Option<Box<Address>>,
    /// How many secrets were masked in it, which the runtime counts.
    pub masked: u32,
}

impl SenderOptions {
    /// Checks the addresses. The error names the wrong part.
    pub fn check(&self) -> Result<(), String> {
        for (name, address) in [("origin", &self.origin), ("reply_to", &self.reply_to)] {
            let checked = address.as_ref().map_or(Ok(()), |address| address.check());
            checked.map_err(|what| format!("the address `{name}` is wrong: {what}"))?;
        }
        Ok(())
    }
}

/// A setting of a session, in place of the agent's; none = the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Override {
    /// The model of its next runs, `PROVIDER/MODEL`.
    Model(Option<String>),
    /// The thinking level of its next runs.
    Thinking(Option<Thinking>),
    /// Whether its runs are shown in detail.
    Verbose(Option<bool>),
    /// The queue mode of messages without one.
    QueueMode(Option<QueueMode>),
    /// What an interrupt does with the active run.
    Interrupt(Option<Interrupt>),
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A piece of text.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A part of a call: id and name come with its first part, arguments are what is added.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Call {
        /// The call's place in the answer, from 0.
        index: u32,
        provider_id: Option<String>,
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
    /// A complete image.
    Image(Attached),
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Done or Failed; Unended from an `end_call` that gave up.
    pub outcome: CallOutcome,
    /// What the model receives.
    pub output: Content,
    /// The whole output, if that is more.
    pub whole: Option<Content>,
    /// Images and files that the model receives.
    pub attachments: Vec<Attached>,
    /// The call is done and its command continues in the background: the session is to hold it.
    pub in_background: bool,
    /// What it changed in files.
    pub changes: Vec<ChangedFile>,
    /// The plan of the conversation from now on, if it sets one; empty if it clears it.
    pub plan: Option<Vec<PlanItem>>,
    /// The message that it sends.
    pub sends: Option<Outgoing>,
}

/// A file, link or folder that a call changed. The fields are those of [`crate::FilesChanged`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ChangedFile {
    pub path: String,
    pub before: Option<FileContent>,
    pub after: Option<FileContent>,
    pub mode: Modes,
    pub not_kept: Option<NotKept>,
    pub attribution: Attribution,
    pub diff: Option<ChangedLines>,
    pub linked: Option<String>,
}

/// What changed in the lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedLines {
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The beginning of the unified diff.
    pub text: Content,
}

impl ToolResult {
    /// An output that the model receives whole.
    pub fn new(outcome: CallOutcome, output: Content) -> Self {
        Self {
            outcome,
            output,
            whole: None,
            attachments: vec![],
            in_background: false,
            changes: vec![],
            plan: None,
            sends: None,
        }
    }
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionResult {
    /// A summary of the items before the split.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Summary {
        text: Content,
        /// The model that wrote it, `PROVIDER/MODEL`; none = it is an extract.
        by: Option<String>,
        /// The tokens that it used.
        usage: Usage,
    },
    /// Long results, each as the model receives it from now on.
    Results(Vec<(CallId, Content)>),
}

/// The reports. A report about an effect names it, and is dropped and counted if the effect is not wanted.
#[derive(Debug, Clone)]
pub enum Report {
    /// An owner opened the session. The first input after recovery.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Opened {
        epoch: Epoch,
        /// The candidates of its run that are in cooldown according to the ledger.
        cooling: Vec<CooldownSet>,
    },
    /// The ledger has changed since the run last received its state: these candidates are in cooldown.
    CooldownSet {
        /// All candidates in cooldown.
        cooling: Vec<CooldownSet>,
    },
    /// A user has cleared the cooldowns of these candidates: a run that only waits for one continues.
    CooldownLifted {
        /// All cleared candidates, also those that are not in cooldown for the run.
        cleared: Vec<CooldownLifted>,
    },
    /// An owner opened the session, and its run waits for its slot of the lane: commands are decided on, and nothing
    /// continues by itself. `Opened` follows when it has its slot or needs none any more.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    OpenedToWait { epoch: Epoch },
    /// The owner is shutting down in order.
    Closing,
    /// An armed time has come.
    Due,
    /// Whether the active run has a slot of its lane if one of the next inputs ends its wait. Comes before every input
    /// that may do that.
    #[allow(missing_docs, reason = "the field says it itself")]
    LaneChecked { is_free: bool },
    /// A user has set a limit that sessions share, maybe after the run began: it asks the pool before its requests.
    BudgetShared,
    /// The head of the queue, or a run whose wait is over, has its slot of the lane.
    LaneEntered {
        /// The `lane` effect.
        effect: EffectId,
        /// The settings of its run.
        settings: Arc<Settings>,
        /// The candidates that are in cooldown according to the ledger.
        cooling: Vec<CooldownSet>,
    },
    /// The head of the queue cannot run, for example because its model does not exist.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    LaneRefused {
        /// The `lane` effect.
        effect: EffectId,
        /// Settings to end the run under; only its failure matters.
        settings: Arc<Settings>,
        failure: Failure,
    },
    /// A request may be sent: its estimated cost is reserved in the shared budgets.
    Reserved {
        /// The `reserve` effect.
        effect: EffectId,
        /// A limit that is nearly reached.
        near: Option<Limit>,
    },
    /// The request may not be sent yet. `Reserved` follows when it may.
    Denied {
        /// The `reserve` effect.
        effect: EffectId,
        /// The limit that is reached.
        limit: Limit,
        /// When its period starts anew, if that is known.
        until: Option<Timestamp>,
    },
    /// The ledger has recorded a failure report.
    Reported {
        /// The `report` effect.
        effect: EffectId,
    },
    /// The workspace exists and the system prompt is made.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Prepared {
        /// The `prepare` effect.
        effect: EffectId,
        prompt: Content,
    },
    /// A request's first byte came.
    RequestOpened {
        /// The `request` effect.
        effect: EffectId,
    },
    /// A piece of its answer came.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Streamed {
        /// The `request` effect.
        effect: EffectId,
        part: Part,
    },
    /// The response is complete: the provider's own end mark came.
    RequestEnded {
        /// The `request` effect.
        effect: EffectId,
        /// The tokens that it used.
        usage: Usage,
        /// Why it ended early; none = the model was done.
        stop_reason: Option<StopReason>,
        /// Why the answer does not fit the schema of the run; none = it does, or there is no schema.
        schema_mismatch: Option<String>,
    },
    /// A compaction is complete.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Compacted {
        /// The `compact` effect.
        effect: EffectId,
        made: CompactionResult,
    },
    /// A compaction failed after some of its requests were answered.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    NotCompacted {
        /// The `compact` effect.
        effect: EffectId,
        failure: Failure,
        /// The tokens that those requests used.
        usage: Usage,
    },
    /// A model was asked for the title of the conversation.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Titled {
        /// The `title` effect.
        effect: EffectId,
        /// The title, or why there is none.
        title: Result<Content, Failure>,
        /// The model that was asked, `PROVIDER/MODEL`.
        by: String,
        /// The tokens that it used.
        usage: Usage,
    },
    /// A request, a preparation or a compaction failed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RequestFailed {
        /// The `request`, `prepare` or `compact` effect.
        effect: EffectId,
        failure: Failure,
    },
    /// A call was checked.
    CallChecked {
        /// The `check_call` effect.
        effect: EffectId,
        /// The decision of the policy. Deny also stands for arguments that do not fit, or for an unknown tool.
        decision: Policy,
        /// The hash of tool, arguments and folder.
        fingerprint: Hash,
        /// What is needed to look it up after a crash.
        evidence: Option<String>,
        /// Why it needs approval or is denied.
        reason: Option<String>,
        /// The limit that it asks for itself, milliseconds.
        timeout_ms: Option<u64>,
        /// The grant without which it would need approval.
        grant: Option<CallId>,
        /// The question that it is; it is answered instead of run.
        question: Option<UserQuestion>,
    },
    /// A running call wrote something.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallOutput {
        /// The `run_call` effect.
        effect: EffectId,
        /// Bytes of its output before this.
        offset: u64,
        text: String,
    },
    /// A call ended.
    CallEnded {
        /// The `run_call` or `end_call` effect.
        effect: EffectId,
        /// What it gave back.
        given: ToolResult,
    },
    /// The result of looking up a call that a crash interrupted.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallFound {
        /// The `find_call` effect.
        effect: EffectId,
        found: Found,
        /// For Ended: its result. For Running: the result so far, if it was put into the background.
        ended: Option<ToolResult>,
    },
    /// A process has ended, or could not be ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProcessEnded {
        /// The `hold_process` or `end_process` effect.
        effect: EffectId,
        outcome: CallOutcome,
        /// How, as a sentence.
        how: String,
        /// What it changed in files since it was started.
        changes: Vec<ChangedFile>,
    },
    /// The files are in the state that the plan names, except these.
    Undone {
        /// The `undo` effect.
        effect: EffectId,
        /// The files that stayed as they were.
        left: Vec<LeftFile>,
    },
    /// What a deleted conversation said is erased, or could not be.
    Erased {
        /// The `erase` effect.
        effect: EffectId,
        /// What was erased, or why it failed.
        result: Result<Erased, String>,
    },
    /// A delivery arrived.
    Delivered {
        /// The `deliver` effect.
        effect: EffectId,
    },
    /// It did not, or that is unknown.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryFailed {
        /// The `deliver` effect.
        effect: EffectId,
        /// The reason, for people.
        why: String,
        fault: DeliveryFault,
    },
    /// A child ended. Reserved for R67.
    ChildEnded {
        /// The `child` effect.
        effect: EffectId,
    },
    /// The session cannot continue, for example because its actor failed: its run is held.
    Escalated {
        /// Why the run is held.
        failure: Failure,
        /// Who may let it continue.
        repair: RepairPolicy,
    },
    /// The store has no disk space. Reserved (R10): today the runtime waits for space by itself, and no report is sent.
    StoreFull,
    /// The store has disk space again. Reserved (R10).
    StoreFreed,
}

/// What is known of a delivery that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFault {
    /// It did not arrive, and would not the next time.
    Refused,
    /// It did not arrive, and may the next time.
    Temporary {
        /// Milliseconds after which the other end wants to be asked again, if it said so.
        after_ms: Option<u64>,
    },
    /// It may have arrived.
    Unknown,
}

/// A message that a call sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The name of its route; none = to whoever follows the session.
    pub route: Option<String>,
    /// Its text.
    pub text: Content,
}

/// Who may let a held run continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairPolicy {
    /// Whom the settings of the run name.
    AsConfigured,
    /// Only a human: to continue may do harm, for example because the journal has lost what the run did.
    ByHuman,
}

/// The receipt of one message, for its sender.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Receipt {
    pub message: MessageId,
    /// The mode that it was accepted with.
    pub mode: QueueMode,
    /// What decided its mode; none for a message of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_by: Option<ModeSource>,
    /// Its state: if it has two legs, that of its followup.
    pub state: ReceiptState,
    /// The run that answers it.
    pub run: RunId,
    /// The run that ends as interrupted for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<RunId>,
    /// The other leg, if it is both steered and a followup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<LegState>,
    /// Where it is in the queue, from 1; none once it has started.
    pub ahead: Option<u32>,
    /// When it was accepted: for a message that is sent again, the first time.
    pub accepted_at: Timestamp,
    /// The latest time until which it waits, if that is known: the reset of the quota that its run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether its session shows its runs in detail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verbose: bool,
}

/// The result of an accepted command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgement {
    /// For a message: its receipt.
    Receipt(Receipt),
    /// For anything else: it is recorded.
    Done,
}

/// Why a command was refused. It changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The named run, message or other object does not exist.
    #[error("{what}")]
    NotFound {
        /// What does not exist, as a sentence.
        what: String,
    },
    /// The same key came with other content.
    #[error("key `{key}` was used for another message (run {run}); use a new key")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Conflict {
        key: String,
        /// The run that the key stands for.
        run: RunId,
    },
    /// The state does not allow it.
    #[error("not while the session is {state}: {reason}")]
    State {
        /// The lifecycle or run state.
        state: String,
        /// Why, and how to proceed.
        reason: String,
    },
    /// A message to a session whose run needs a human.
    #[error("{key} needs a human, so the message was refused and not recorded")]
    NeedsHuman {
        /// The key of the session.
        key: String,
    },
    /// An answer to an approval request that is not open, or not in this form.
    #[error("that approval request is no longer open; `limulus runs show` shows the open ones")]
    Stale,
    /// This version cannot do it.
    #[error("{what} is not in this version")]
    Unsupported {
        /// The name of the command.
        what: &'static str,
    },
    /// The record could not be written, so nothing was done.
    #[error("the journal could not be written: {reason}")]
    Unavailable {
        /// The error of the store.
        reason: String,
    },
}
