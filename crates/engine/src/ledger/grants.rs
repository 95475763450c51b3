//! What users have allowed once and for all, in answer to questions.

use super::Ledger;
use crate::approval::ApprovalGrant;
use crate::event::{GrantGiven, GrantRevoked};
use crate::ids::{CallId, SessionId, Timestamp};

impl Ledger {
    /// The grants, in the order of the questions that they answered.
    pub fn grants(&self) -> impl Iterator<Item = &ApprovalGrant> {
        self.grants.values()
    }

    /// The grants for the calls of this session of this agent.
    pub fn grants_for(&self, session: SessionId, agent: &str) -> impl Iterator<Item = &ApprovalGrant> {
        self.grants.values().filter(move |grant| grant.holds(session, agent))
    }

    /// Records a grant. Returns false if the question has given another one already.
    pub(super) fn grant(&mut self, grant: ApprovalGrant, now: Timestamp) -> bool {
        if let Some(before) = self.grants.get(&grant.id) {
            return *before == grant;
        }
        self.emit(GrantGiven { grant }, now);
        true
    }

    /// Records that a grant holds no longer. Returns whether there was one.
    pub(super) fn revoke(&mut self, grant: CallId, by: String, now: Timestamp) -> bool {
        let is_there = self.grants.contains_key(&grant);
        if is_there {
            self.emit(GrantRevoked { grant, by }, now);
        }
        is_there
    }
}
