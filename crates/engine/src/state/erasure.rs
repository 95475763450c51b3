//! The erasure of a deleted conversation. It is owed from the entry that deletes the conversation until its end is recorded:
//! what must be done follows from the state, whoever owns the session then.

use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::session::{Lifecycle, Session};
use crate::event::{ErasureEnded, SessionLabelled, Visibility};
use crate::ids::{BranchId, EffectId, Epoch, Seq, Timestamp};
use crate::tables::limits::TITLE_ASKS;

/// The erasure of what a deleted conversation said, which has not been done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Erasure {
    pub effect: EffectId,
    pub branch: BranchId,
    /// The entry that deleted the conversation: what only this entry and earlier ones name is erased.
    pub until: Seq,
    /// The last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedErasure>,
}

/// An attempt to erase a conversation that failed. The next owner makes another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct FailedErasure {
    /// The owner that made it.
    pub epoch: Epoch,
    pub why: String,
}

impl Session {
    /// The erasure that this owner is to carry out: it waits for no other attempt.
    pub fn due_erasure(&self) -> Option<&Erasure> {
        let failed_here =
            |erasure: &Erasure| erasure.failed.as_ref().is_some_and(|failed| failed.epoch == self.account.epoch);
        self.account.erasure.as_ref().filter(|erasure| !failed_here(erasure))
    }

    /// Why the last attempt of this owner to erase a deleted conversation failed.
    pub fn failed_erasure(&self) -> Option<&str> {
        let failed = self.account.erasure.as_ref()?.failed.as_ref()?;
        (failed.epoch == self.account.epoch).then_some(failed.why.as_str())
    }

    /// Another conversation takes the place of the one that is deleted; the account goes on.
    fn begin_conversation(&mut self, at: Timestamp) {
        let next = Conversation::new(Lifecycle::Initializing);
        let deleted = std::mem::replace(&mut self.conversation, next);
        self.conversation = deleted.after_deletion(at);
    }

    /// Of a deleted conversation nothing is left that names its content but receipts and the entries themselves.
    pub(super) fn session_labelled(&mut self, e: &SessionLabelled, at: Timestamp) {
        if let Some(title) = e.title {
            self.conversation.title = Some(title).filter(|title| title.bytes > 0);
            (self.conversation.model_title, self.conversation.title_asks) = (None, TITLE_ASKS);
        }
        self.account.visibility = e.visibility.unwrap_or(self.account.visibility);
        if e.visibility == Some(Visibility::Deleted) {
            self.account.outbox.deliveries.clear();
            self.begin_conversation(at);
        }
        // An earlier erasure that failed is a part of this one.
        if let Some(effect) = e.erasure {
            self.account.erasures = self.account.erasures.max(effect.ordinal);
            self.account.erasure =
                Some(Erasure { effect, branch: self.account.branch, until: self.account.head, failed: None });
        }
    }

    pub(super) fn erasure_ended(&mut self, e: &ErasureEnded) {
        let epoch = self.account.epoch;
        match (&mut self.account.erasure, &e.failure) {
            (Some(erasure), Some(why)) if erasure.effect == e.erasure => {
                erasure.failed = Some(FailedErasure { epoch, why: why.clone() });
            }
            (Some(erasure), None) if erasure.effect == e.erasure => self.account.erasure = None,
            (Some(_) | None, _) => {}
        }
    }
}
