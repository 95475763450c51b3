//! One payload for each kind of event: JSON on disk, no unknown fields.

use serde::{Deserialize, Serialize};

use super::vocabulary::{
    CallOutcome, CompactionCause, CutCause, CutResult, EndingCause, Found, Leg, Next, Note, Outcome, Overrides,
    PauseCause, ProcessCause, QueueMode, QueuePlace, ReceiptState, SealedCall, Usage, WaitFor,
};
use crate::body::{Attachment, Body};
use crate::failure::{Failure, FailureClass};
use crate::ids::{BranchId, CallId, EffectId, Epoch, Hash, MessageId, RunId, Seq, SessionId, Timestamp};
use crate::settings::{Policy, Thinking, ToolClass};
use crate::state::{BlockOf, ItemAt};
use crate::tables::budget::{Allowance, Scope, Spent};
use crate::tables::compaction::CompactionStep;
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};
use crate::tables::transitions::RunState;

macro_rules! payload {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

payload! {
    /// A session begins, on its first branch.
    Created {
        /// Its id.
        session: SessionId,
        /// Its key, `agent:AGENT:NAME`.
        key: String,
        /// Its agent.
        agent: String,
        /// The branch that this entry opens.
        branch: BranchId,
    }
    /// A branch begins at a checkpoint of another.
    Forked {
        /// The branch that it leaves.
        parent: BranchId,
        /// The last entry that both share.
        at: Seq,
        /// The chain of that entry.
        hash: Hash,
    }
    /// An owner took the session up.
    Opened {
        /// The owner's number.
        epoch: Epoch,
        /// The last sign of the owner before it: what passed since then is nobody's time. Recorded, because that sign
        /// may be progress, which is gone once it is sealed.
        last_activity: Timestamp,
    }
    /// The owner left in order.
    Closed {
        /// The owner's number.
        epoch: Epoch,
    }
    /// A message was taken.
    MessageAccepted {
        /// Its id.
        message: MessageId,
        /// Its text.
        body: Body,
        /// How it is to be routed.
        mode: QueueMode,
        /// The sender's key: the same key is the same message.
        key: Option<String>,
        /// What it asks to be different for its run.
        overrides: Overrides,
        /// Images and files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Where it is put.
        #[serde(default, skip_serializing_if = "is_default")]
        place: QueuePlace,
        /// Of one that is gathered: how long nothing more may come before its group is complete, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        debounce_ms: Option<u64>,
    }
    /// A message, or one leg of it, waits no more: it has come to an end, or a run takes it that it did not start.
    MessageSettled {
        /// Which.
        message: MessageId,
        /// How.
        state: ReceiptState,
        /// The run that took it, if one did.
        run: Option<RunId>,
        /// Which leg; none = all that wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leg: Option<Leg>,
        /// Of one that gave way: whether the next run is told of it in short.
        #[serde(default, skip_serializing_if = "is_default")]
        told: bool,
    }
    /// A group of gathered messages is complete: they are one run.
    Gathered {
        /// Its messages, in order.
        messages: Vec<MessageId>,
    }
    /// A run starts.
    RunStarted {
        /// Its id.
        run: RunId,
        /// The messages that it answers, in order.
        inputs: Vec<MessageId>,
        /// The hash of its settings.
        settings: Hash,
    }
    /// A step starts.
    StepBegun {
        /// Its number, from 1.
        step: u32,
        /// The system prompt that its requests carry.
        prompt: Body,
    }
    /// A request is decided; it begins when this is synced.
    RequestSent {
        /// Which.
        request: EffectId,
        /// The process that sends it.
        epoch: Epoch,
        /// The place of its candidate in the settings.
        candidate: u32,
        /// How many items of the transcript it holds.
        items: u32,
        /// About how many tokens those are, with the system prompt and the tools.
        #[serde(default, skip_serializing_if = "is_default")]
        tokens: u64,
        /// Whether it is a probe: its candidate has failed, and not answered since.
        #[serde(default, skip_serializing_if = "is_default")]
        probe: bool,
        /// What is set aside for it where anything is limited. It counts as spent unless it is known what was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// Its first byte came.
    RequestOpened {
        /// Which.
        request: EffectId,
    }
    /// Its stream was cut. What had come is kept.
    StreamCut {
        /// Which.
        request: EffectId,
        /// Why.
        cause: CutCause,
        /// The text that had come.
        text: Option<Body>,
    }
    /// The kept text of a request is not a part of the answer.
    TextStruck {
        /// Which.
        request: EffectId,
    }
    /// The model made an image; it is a part of the message that is sealed later.
    ImageMade {
        /// The request.
        request: EffectId,
        /// The image.
        image: Attachment,
    }
    /// A message of the model is finished.
    MessageSealed {
        /// The request that it answers.
        request: EffectId,
        /// Its text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        /// Its reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Body>,
        /// Its calls, in source order.
        calls: Vec<SealedCall>,
        /// What it took.
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// What it leads to.
        next: Next,
        /// Its blocks, where they do not simply follow as reasoning, text and calls, or are signed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Body>,
        /// The images that it has made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    }
    /// A call was checked against its schema and the policy.
    CallChecked {
        /// Which.
        call: CallId,
        /// What the policy says.
        decision: Policy,
        /// The hash of tool, arguments and folder: what an approval binds to.
        fingerprint: Hash,
        /// What is needed to look the call up after a crash (for a write: the hash of the file before).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        /// Why it is asked or denied, for people and the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// Leave is asked for a call.
    CallAsked {
        /// Which.
        call: CallId,
        /// What the answer binds to.
        fingerprint: Hash,
        /// What is asked, for a person.
        question: String,
    }
    /// The question was answered.
    AskAnswered {
        /// Which.
        call: CallId,
        /// Whether the call may run.
        allow: bool,
        /// By whom or what.
        by: String,
    }
    /// A call is decided; it begins when this is synced (for a read-only tool: written).
    CallStarted {
        /// Which.
        call: CallId,
        /// The effect that runs it.
        effect: EffectId,
        /// The process that starts or takes it up.
        epoch: Epoch,
        /// How it may be repeated.
        class: ToolClass,
    }
    /// A running call is to be ended.
    CallEnding {
        /// Which.
        call: CallId,
        /// Why.
        why: EndingCause,
    }
    /// A crash cut the call off; it is looked up.
    CallLost {
        /// Which.
        call: CallId,
    }
    /// What was found of it.
    CallFound {
        /// Which.
        call: CallId,
        /// What.
        found: Found,
    }
    /// A call has its one result.
    CallSettled {
        /// Which.
        call: CallId,
        /// The effect that ran it, if one did.
        effect: Option<EffectId>,
        /// How it ended.
        outcome: CallOutcome,
        /// What the model is told.
        output: Body,
        /// All that it gave back, when that is more than the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<Body>,
        /// Images and files that the model is shown with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    }
    /// The history is being shortened.
    CompactionBegun {
        /// Which try of this way, from 1.
        try_no: u32,
        /// The effect that does it.
        compaction: EffectId,
        /// Why.
        cause: CompactionCause,
        /// Which way.
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// How many items of the transcript a summary is to stand for.
        items: u32,
        /// About how many tokens the next request would hold.
        tokens: u64,
        /// What the user wants it to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
        /// What is set aside for it, where anything is limited and a model is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// The history before an entry is replaced by its summary.
    Compacted {
        /// The effect that made it.
        compaction: EffectId,
        /// The summary.
        summary: Body,
        /// The first entry whose messages are kept; the next one, if none are.
        kept_from: Seq,
        /// Messages of the user from before it that are kept all the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pinned: Vec<MessageId>,
        /// About how many tokens the history had before.
        before: u64,
        /// And has now.
        after: u64,
        /// The model that made it, `PROVIDER/MODEL`; none = it is an extract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// What it took.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// Whether the run goes on after it; false = nothing else was asked of it.
        goes_on: bool,
    }
    /// Long results of calls are cut.
    ResultsCut {
        /// The effect that did it.
        compaction: EffectId,
        /// Which.
        results: Vec<CutResult>,
        /// About how many tokens the history had before.
        before: u64,
        /// And has now.
        after: u64,
    }
    /// A compaction is taken back: what its summary stood for is in force again.
    Uncompacted {
        /// The compaction.
        compaction: EffectId,
        /// The items that its summary stood for, with their entries.
        restored: Vec<ItemAt>,
    }
    /// The run is to shorten its history before its next request.
    CompactionAsked {
        /// What the user wants it to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
    }
    /// What may be spent is another, in place of what is configured.
    BudgetSet {
        /// By the run that is under way, or by all runs of the session.
        scope: Scope,
        /// What was said so far of that scope, this with it.
        allowance: Allowance,
    }
    /// Leave is asked for a request, of which others spend as well.
    BudgetAsked {
        /// The effect that asks for it.
        reserve: EffectId,
        /// What the request is taken to cost.
        expected: Spent,
        /// Whether it is one that only says what was done: what is kept back is for it.
        #[serde(default, skip_serializing_if = "is_default")]
        closing: bool,
    }
    /// What all runs of an agent, or of the home, may spend in a day is another, in place of what is configured.
    AllowanceSet {
        /// The agent; none = the home.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// What was said so far of it, this with it.
        allowance: Allowance,
    }
    /// The model is told something that no user and no tool said.
    Noted {
        /// Of what.
        note: Note,
        /// In these words.
        body: Body,
    }
    /// The history could not be shortened; the old one stays in force.
    CompactionFailed {
        /// Why.
        failure: Failure,
        /// The way that failed; `nothing` = none was left.
        #[serde(default)]
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// What those of its requests took that were answered.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
    }
    /// A request failed.
    Failed {
        /// Which, if one was out.
        request: Option<EffectId>,
        /// How.
        failure: Failure,
        /// The text that had come.
        text: Option<Body>,
    }
    /// The run waits.
    WaitBegan {
        /// For what.
        on: WaitFor,
        /// Until when at most.
        until: Option<Timestamp>,
    }
    /// The wait is over.
    WaitEnded {
        /// What it was for.
        on: WaitFor,
    }
    /// A failed request will be tried again.
    #[derive(Default)]
    RetryScheduled {
        /// When.
        until: Timestamp,
        /// Which try that will be, from 2.
        try_no: u32,
        /// The place in the settings of the candidate that it will be with; none = the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        candidate: Option<u32>,
        /// What that one is called, `PROVIDER/MODEL (PROFILE)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The lower thinking level that it will be at; none = the same, for another candidate its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// After a history that could not be shortened: the way that is tried next; none = it is not about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "rung")]
        compaction_step: Option<CompactionStep>,
        /// And whether the next request goes out with the history as it is.
        #[serde(default, skip_serializing_if = "is_default")]
        as_it_is: bool,
    }
    /// A candidate is not tried for now.
    CandidateCooled {
        /// Its place in the settings.
        candidate: u32,
        /// What it is called, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Until when; none = not before another has answered.
        until: Option<Timestamp>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// Its request that failed, of which other sessions are to know; none = it is given up with another candidate, or the
        /// ledger said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<EffectId>,
    }
    /// A user has said that a candidate may be asked again: what the run knew of it is over, and a wait for a quota.
    CandidateCleared {
        /// Its place in the settings.
        candidate: u32,
        /// What it is called, `PROVIDER/MODEL (PROFILE)`.
        model: String,
    }
    /// The ledger has recorded what failed: it is owed no more.
    Reported {
        /// The request that failed.
        request: EffectId,
    }
    /// The home's ledger begins, on a branch of its own.
    LedgerBegun {
        /// That branch.
        branch: BranchId,
    }
    /// A profile failed: no session asks it before a time.
    ProfileCooled {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that it is left alone with; none = all of them.
        model: Option<String>,
        /// Why.
        class: FailureClass,
        /// Until when.
        until: Timestamp,
        /// How often in a row: each time it is for longer.
        strikes: u32,
        /// The request that failed: it counts once.
        request: EffectId,
    }
    /// A profile answered that was not the last that did, or was left alone.
    ProfileAnswered {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that answered.
        model: String,
        /// When it was asked: what it was left alone for since then still holds.
        since: Timestamp,
    }
    /// A profile is to be asked first.
    ProfilePreferred {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = no more than the others.
        profile: Option<String>,
    }
    /// A profile may be asked again, whatever failed.
    ProfileCleared {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
    }
    /// The run is to end so; it does when nothing of it runs any more.
    EndingSet {
        /// How.
        outcome: Outcome,
        /// Whether the session ends for good with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminate: bool,
        /// Whether the conversation begins anew after it.
        #[serde(default, skip_serializing_if = "is_default")]
        reset: bool,
    }
    /// The run has ended. The one terminal event.
    RunEnded {
        /// Which.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// Why, if it failed.
        failure: Option<Failure>,
        /// The segments that its final text is made of.
        text: Vec<Body>,
        /// What it cost.
        usage: Usage,
        /// Of one that was interrupted: its last entry before this, the checkpoint that it can be taken up from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Seq>,
        /// Whether it had nothing to do but to shorten the history.
        #[serde(default, skip_serializing_if = "is_default")]
        compacted: bool,
    }
    /// The run is held at a checkpoint.
    Paused {
        /// By what.
        #[serde(default, skip_serializing_if = "is_default")]
        cause: PauseCause,
        /// Whether its commands stand still as well.
        #[serde(default, skip_serializing_if = "is_default")]
        freeze: bool,
        /// The call that it stopped before, if a breakpoint says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The state that it stopped in, if a breakpoint says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<RunState>,
    }
    /// The run goes on.
    Resumed {}
    /// The lifecycle of the session changed.
    LifecycleChanged {
        /// From where.
        from: LifecycleKind,
        /// To where.
        to: LifecycleKind,
        /// Why.
        cause: LifecycleCause,
        /// For `error`: what is wrong.
        failure: Option<Failure>,
        /// For `error`: the command that mends it.
        remedy: Option<String>,
    }
    /// A place where the run is to stop; where none is named, it is to stop nowhere any more.
    BreakpointSet {
        /// The run.
        run: RunId,
        /// Before a call of this tool starts.
        before_tool: Option<String>,
        /// When it comes into this state.
        on_state: Option<RunState>,
    }
    /// The conversation begins anew; the session goes on.
    Reset {}
    /// A setting of the session changed: all of them as they are now.
    OverrideSet {
        /// The model that its next runs use, `PROVIDER/MODEL`; none = the agent's.
        model: Option<String>,
        /// How much they think; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// Whether what they do is shown in detail; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verbose: Option<bool>,
        /// How its messages are routed that do not say; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_mode: Option<QueueMode>,
    }
    /// A reply goes out.
    DeliveryStarted {
        /// Which.
        delivery: EffectId,
        /// The process that sends it.
        epoch: Epoch,
    }
    /// What became of it.
    DeliveryEnded {
        /// Which.
        delivery: EffectId,
        /// Whether it is known to have arrived; none = unknown.
        arrived: Option<bool>,
    }
    /// The session holds a command that its call has put into the background. The call is settled in the same batch.
    ProcessAdopted {
        /// The effect that started it; its name.
        process: EffectId,
        /// The call.
        call: CallId,
        /// When it is ended at the latest.
        until: Timestamp,
    }
    /// A process is to be ended.
    ProcessEnding {
        /// Which.
        process: EffectId,
        /// Why.
        why: ProcessCause,
    }
    /// A process has ended. It is still listed.
    ProcessEnded {
        /// Which.
        process: EffectId,
        /// How.
        outcome: CallOutcome,
        /// How, in words.
        how: String,
    }
    /// A process that has ended is not listed any more; its output is gone.
    ProcessForgotten {
        /// Which.
        process: EffectId,
    }
    /// Text streamed in.
    TextAdded {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The text.
        text: String,
    }
    /// Reasoning streamed in.
    ReasoningAdded {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The text.
        text: String,
    }
    /// A part of a call streamed in.
    CallPartAdded {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The call's place in the answer.
        index: u32,
        /// The provider's id, with the first part.
        provider_id: Option<String>,
        /// The tool's name, with the first part.
        name: Option<String>,
        /// What is added to its arguments.
        arguments: String,
    }
    /// The provider signed a block of the answer.
    BlockSigned {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The kind of the block: the last one of its kind, or one that holds nothing else.
        block: BlockOf,
        /// The provider's own text, sent back as it is, to the same model alone.
        signature: String,
    }
    /// A running call wrote something.
    OutputAdded {
        /// The call's effect.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// What, as text (what is not UTF-8 is replaced).
        text: String,
    }
}
