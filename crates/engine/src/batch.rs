//! The batch that the machine hands to the journal: everything that one round of decisions recorded, to be stored whole
//! or not at all.

use serde::{Deserialize, Serialize};

use crate::approval::AnswerForm;
use crate::body::{Body, Content};
use crate::event::{Durability, Event, Outcome, QueueMode, ReceiptState, StopReason, Usage, Visibility};
use crate::ids::{BranchId, CallId, Hash, MessageId, RunId, Seq, SessionId, Timestamp};
use crate::state::LegState;
use crate::tables::budget::{Allowance, Spent};
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

/// An event with its time and, unless it is progress, its position in the branch.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its position in the branch; `None` for progress.
    pub seq: Option<Seq>,
    /// When it was decided.
    pub at: Timestamp,
    /// The event that was decided.
    pub event: Event,
}

/// Everything that one round of decisions recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The session that it belongs to.
    pub session: SessionId,
    /// The branch that it is appended to.
    pub branch: BranchId,
    /// The events in order. Adjoining progress of one effect is one record.
    pub records: Vec<Record>,
    /// Content that these events name for the first time.
    pub bodies: Vec<Content>,
    /// The rows of the views that these events change.
    pub views: Views,
}

impl Batch {
    /// The strongest durability of its events.
    pub fn durability(&self) -> Durability {
        self.records.iter().map(|r| r.event.durability()).max().unwrap_or(Durability::Written)
    }
}

/// Rows for the views: what lists and a restart need without folding a branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Views {
    /// The row of the session; none if it did not change.
    pub session: Option<SessionRow>,
    /// Rows of runs, in order. A run that only changed its state is not among them: see [`RunRow::within`].
    pub runs: Vec<RunRow>,
    /// Rows of messages, in order.
    pub receipts: Vec<ReceiptRow>,
    /// Approval requests, open and closed, and calls that a grant has allowed.
    pub approvals: Vec<ApprovalRow>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct SessionRow {
    pub session: SessionId,
    pub key: String,
    pub agent: String,
    pub branch: BranchId,
    pub created_at: Timestamp,
    /// The time of its last event.
    pub last_activity: Timestamp,
    pub lifecycle: LifecycleKind,
    /// The state of its unfinished run.
    pub run_state: RunState,
    /// The unfinished run: active, paused, or waiting for a repair.
    pub run: Option<RunId>,
    /// The number of waiting messages.
    pub queued: u32,
    /// Whether an owner must resume it: a run is active, a message waits, a report is pending, or a process is being
    /// ended.
    pub unfinished: bool,
    /// Why a human is needed, and the command that repairs it.
    pub trouble: Option<String>,
    /// What its ended runs have spent, and the limits that were set for it; none in a row of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<SessionTotals>,
    /// The title that somebody gave it; none = the first words of its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Body>,
    /// The title that a model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_title: Option<Body>,
    #[serde(default, skip_serializing_if = "Visibility::is_listed")]
    pub visibility: Visibility,
    /// When an earlier conversation of it was deleted: what came before belongs to no conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Timestamp>,
}

/// What the ended runs of a session have spent, with the bytes that belong to no run, and the limits that were set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct SessionTotals {
    pub spent: Spent,
    pub allowance: Allowance,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct RunRow {
    pub run: RunId,
    pub session: SessionId,
    pub branch: BranchId,
    pub state: RunState,
    /// The outcome; none while it is unfinished.
    pub outcome: Option<Outcome>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The settings of the run.
    pub settings: Hash,
    /// The `PROVIDER/MODEL` that it runs on.
    pub model: String,
    /// The tokens used so far, as the providers report them.
    pub usage: Usage,
    /// The cost in micro-dollars; an unknown or pending cost counts as its reservation.
    #[serde(default)]
    pub cost: u64,
    /// Tokens that count against its budget, including the reservation for unknown usage.
    #[serde(default)]
    pub tokens: u64,
    /// Calls that it started. For an active run, this and its time are as of its last response.
    #[serde(default)]
    pub calls: u64,
    /// Milliseconds that it was executing.
    #[serde(default)]
    pub wall_ms: u64,
    /// The seq of its `run_started`.
    pub first_seq: Seq,
    /// The reason, if it failed.
    pub error: Option<String>,
    /// Why the answer of a completed run is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The checkpoint of an interrupted run, an entry of its branch; none in a row of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Seq>,
}

impl RunRow {
    /// The name of its checkpoint, `BRANCH@SEQ`.
    pub fn checkpoint(&self) -> Option<String> {
        self.checkpoint.map(|seq| format!("{}@{seq}", self.branch))
    }

    /// What counts against shared budgets. An older row knows only the tokens that were reported.
    pub fn spent(&self) -> Spent {
        let Self { tokens, calls, wall_ms, .. } = *self;
        Spent { tokens, calls, wall_ms, ..Spent::default() }.at_least(&Spent::on_request(&self.usage, self.cost))
    }

    /// The row with the current state. The state of an active run is recorded with its session, not a second time here.
    #[must_use]
    pub fn within(self, session: Option<&SessionRow>) -> Self {
        let session = session.filter(|session| self.outcome.is_none() && session.run == Some(self.run));
        Self { state: session.map_or(self.state, |session| session.run_state), ..self }
    }
}

/// A message in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ReceiptRow {
    pub message: MessageId,
    pub session: SessionId,
    /// The idempotency key of the sender.
    pub key: Option<String>,
    pub body: Body,
    /// The mode that it was accepted with.
    #[serde(default)]
    pub mode: QueueMode,
    /// The state of the message.
    pub state: ReceiptState,
    /// The run that answers it.
    pub run: RunId,
    /// The state of its other leg, if it is both steered and a followup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<LegState>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// An approval request or a question of the model in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ApprovalRow {
    /// The call that asks.
    pub call: CallId,
    pub session: SessionId,
    /// The text of an open request; empty once it is closed.
    pub question: String,
    /// When it was requested.
    pub asked_at: Timestamp,
    /// Whether it was answered, and how.
    pub allowed: Option<bool>,
    /// What the model takes as the answer to its question; none = approval is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<AnswerForm>,
    /// What the answer is bound to; none in a row of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Hash>,
    /// The tool, as the model wrote it; none in a row of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments; none in a row of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Body>,
    /// Until when it waits; none = for ever, or it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Who or what answered; none if it was closed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was answered or closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The grant without which it would have been asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<CallId>,
}

impl ApprovalRow {
    /// A request that waits for its answer.
    pub fn open(call: CallId, session: SessionId, question: String, asked_at: Timestamp) -> Self {
        Self {
            call,
            session,
            question,
            asked_at,
            allowed: None,
            takes: None,
            fingerprint: None,
            tool: None,
            arguments: None,
            expires_at: None,
            by: None,
            closed_at: None,
            grant: None,
        }
    }

    /// The same with its answer. It keeps no text: that of its arguments is erased with its conversation.
    #[must_use]
    pub fn closed(self, allowed: bool, at: Timestamp) -> Self {
        let question = String::new();
        Self { question, allowed: Some(allowed), closed_at: Some(at), expires_at: None, ..self }
    }
}
