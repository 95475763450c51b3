//! The account of a session: who it is, and everything that happened to the world because of it. It is never rewound.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::erasure::Erasure;
use super::is_zero;
use super::outbox::Outbox;
use super::process::Process;
use super::queue::Message;
use super::undo::Undo;
use crate::event::{Created, QueueMode, Visibility};
use crate::ids::{BranchId, Epoch, MessageId, Seq, SessionId, Timestamp};
use crate::ledger::FailureReport;
use crate::queue::Interrupt;
use crate::settings::Thinking;
use crate::tables::budget::{Allowance, Spent};

/// The half of a session that only goes forward. What was spent stays spent, a message that was accepted stays accepted
/// under its key, a process runs on, a file that was changed can be taken back, whatever becomes of the conversation.
///
/// - Identity (`id`, `key`, `agent`) and times never change or only grow.
/// - `branch` and `head` say where the journal continues: a conversation that goes back does so on another branch.
/// - `epoch` and `closed` belong to the owner of the session.
/// - `visibility` and the overrides (`model`, `thinking`, `verbose`, `queue_mode`, `interrupt`) are what its user has set for
///   the session by a command, not what was said in it: they outlast a reset and a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct SessionAccount {
    pub id: SessionId,
    /// Its key, `agent:AGENT:NAME`.
    pub key: String,
    pub agent: String,
    pub branch: BranchId,
    /// The last entry of the current branch.
    pub head: Seq,
    pub created_at: Timestamp,
    /// The time of the last event; the opening and closing of an idle session do not count.
    pub last_activity: Timestamp,
    /// Every message ever accepted.
    pub messages: BTreeMap<MessageId, Message>,
    /// The idempotency keys of the senders.
    pub keys: BTreeMap<String, MessageId>,
    /// Failure reports that the ledger has not confirmed yet, in order.
    #[serde(rename = "owed")]
    pub pending_reports: Vec<FailureReport>,
    /// Commands in the background, oldest first.
    pub processes: Vec<Process>,
    /// What is to go out to routes.
    #[serde(default, skip_serializing_if = "Outbox::is_default")]
    pub outbox: Outbox,
    /// The undo that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// How many there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undos: u32,
    /// The erasure that is owed after its last conversation was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
    /// How many conversations were to be erased.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub erasures: u32,
    /// How many refused answers were recorded since its last run began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_answers: u32,
    /// Where it is shown.
    #[serde(default, skip_serializing_if = "Visibility::is_listed")]
    pub visibility: Visibility,
    /// The model for its next runs, `PROVIDER/MODEL`; none = the agent's.
    pub model: Option<String>,
    /// The thinking level of its next runs; none = the agent's.
    pub thinking: Option<Thinking>,
    /// Whether its runs are shown in detail; none = the agent's setting.
    pub verbose: Option<bool>,
    /// The queue mode of messages without one; none = the agent's.
    pub queue_mode: Option<QueueMode>,
    /// What an interrupt does with the active run; none = as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Interrupt>,
    /// What its ended runs have spent, with the bytes that belong to no run.
    pub spent: Spent,
    /// The limits that were set for all of its runs together, in place of the configured ones.
    pub allowance: Allowance,
    /// The owner that last opened it.
    pub epoch: Epoch,
    /// Whether that owner shut down in order.
    pub closed: bool,
}

impl SessionAccount {
    /// The account that `Created` opens.
    pub(super) fn created(event: &Created, at: Timestamp) -> Self {
        Self {
            id: event.session,
            key: event.key.clone(),
            agent: event.agent.clone(),
            branch: event.branch,
            head: Seq(1),
            created_at: at,
            last_activity: at,
            messages: [].into(),
            keys: [].into(),
            pending_reports: vec![],
            processes: vec![],
            outbox: Outbox::default(),
            undo: None,
            undos: 0,
            erasure: None,
            erasures: 0,
            refused_answers: 0,
            visibility: Visibility::default(),
            model: None,
            thinking: None,
            verbose: None,
            queue_mode: None,
            interrupt: None,
            spent: Spent::default(),
            allowance: Allowance::default(),
            epoch: Epoch(0),
            closed: true,
        }
    }
}
