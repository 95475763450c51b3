//! What the machine hands to the journal: all that one round of decisions recorded, to be kept whole or not at all.

use serde::{Deserialize, Serialize};

use crate::body::{Body, Content};
use crate::event::{Durability, Event, Outcome, QueueMode, ReceiptState, Usage};
use crate::ids::{BranchId, CallId, Hash, MessageId, RunId, Seq, SessionId, Timestamp};
use crate::state::LegState;
use crate::tables::budget::Spent;
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

/// One recorded event.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its place in the branch; none for progress.
    pub seq: Option<Seq>,
    /// When it was decided.
    pub at: Timestamp,
    /// What.
    pub event: Event,
}

/// All that one round of decisions recorded.
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

/// Rows for the views: what lists and a restart need to know without folding any branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Views {
    /// The session's row.
    pub session: Option<SessionRow>,
    /// Rows of runs, in order. One that only went from state to state is not among them: see [`RunRow::within`].
    pub runs: Vec<RunRow>,
    /// Rows of messages, in order.
    pub receipts: Vec<ReceiptRow>,
    /// Questions: open ones with their text, answered ones without.
    pub approvals: Vec<ApprovalRow>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub session: SessionId,
    /// Its key.
    pub key: String,
    /// Its agent.
    pub agent: String,
    /// Its current branch.
    pub branch: BranchId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub last_activity: Timestamp,
    /// Its lifecycle.
    pub lifecycle: LifecycleKind,
    /// The state of its run.
    pub run_state: RunState,
    /// The run that is under way or held.
    pub run: Option<RunId>,
    /// Messages that wait.
    pub queued: u32,
    /// Whether someone must take it up: a run under way, a message that waits, a process that is being ended.
    pub unfinished: bool,
    /// What is wrong, and the command that mends it.
    pub trouble: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its id.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// Its branch.
    pub branch: BranchId,
    /// Its state.
    pub state: RunState,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The settings that it is decided by.
    pub settings: Hash,
    /// `PROVIDER/MODEL` that it runs on.
    pub model: String,
    /// What it took so far, as the providers say.
    pub usage: Usage,
    /// What that costs, micro-dollars; what is not known, or not yet, counts as what was set aside for it.
    #[serde(default)]
    pub cost: u64,
    /// Tokens that count against its budget: also those set aside for what is not known.
    #[serde(default)]
    pub tokens: u64,
    /// Calls that it started. Of a run under way this and its time are as they were at its last answer.
    #[serde(default)]
    pub calls: u64,
    /// Milliseconds that it was at work.
    #[serde(default)]
    pub wall_ms: u64,
    /// The seq of its `run_started`.
    pub first_seq: Seq,
    /// Why it failed.
    pub error: Option<String>,
}

impl RunRow {
    /// What of it counts against what others spend as well. An older row knows only of tokens that were told.
    pub fn spent(&self) -> Spent {
        let Self { tokens, calls, wall_ms, .. } = *self;
        Spent { tokens, calls, wall_ms, ..Spent::default() }.at_least(&Spent::on_request(&self.usage, self.cost))
    }

    /// The row as it stands. The state of a run that is under way is recorded with its session, not a second time here.
    #[must_use]
    pub fn within(self, session: Option<&SessionRow>) -> Self {
        let session = session.filter(|session| self.outcome.is_none() && session.run == Some(self.run));
        Self { state: session.map_or(self.state, |session| session.run_state), ..self }
    }
}

/// A message in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiptRow {
    /// The message.
    pub message: MessageId,
    /// Its session.
    pub session: SessionId,
    /// The sender's key.
    pub key: Option<String>,
    /// Its text.
    pub body: Body,
    /// The mode that it was accepted with.
    #[serde(default)]
    pub mode: QueueMode,
    /// What became of it.
    pub state: ReceiptState,
    /// The run that answers it.
    pub run: RunId,
    /// What became of its other leg, where it is steered and follows up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<LegState>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// A question in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// The call that asks.
    pub call: CallId,
    /// Its session.
    pub session: SessionId,
    /// What is asked.
    pub question: String,
    /// When.
    pub asked_at: Timestamp,
    /// Whether it was answered, and how.
    pub allowed: Option<bool>,
}
