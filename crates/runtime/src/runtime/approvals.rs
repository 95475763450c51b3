//! How calls are approved: who is asked, and the answer where nobody can be.

use std::sync::Arc;

use engine::{CallId, Command, Hash};
use tokio::sync::mpsc;

use super::Shared;

/// Whoever can be asked for leave.
pub trait Approver: Send + Sync {
    /// Puts a question. False where nobody is there just now who could answer: then the answer is no.
    fn ask(&self, question: ApprovalRequest) -> bool;
}

impl<T: Approver> Approver for Arc<T> {
    fn ask(&self, question: ApprovalRequest) -> bool {
        T::ask(self, question)
    }
}

impl Approver for mpsc::UnboundedSender<ApprovalRequest> {
    fn ask(&self, question: ApprovalRequest) -> bool {
        self.send(question).is_ok()
    }
}

/// A call that needs leave.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The session's key.
    pub key: String,
    /// The call.
    pub call: CallId,
    /// What the answer binds to.
    pub fingerprint: Hash,
    /// What is asked.
    pub text: String,
}

impl Shared {
    /// Puts a question to the terminal; where there is none, gives the answer no.
    pub(crate) fn ask(&self, question: ApprovalRequest) -> Option<Command> {
        let ApprovalRequest { call, fingerprint, .. } = question;
        if self.questions.as_ref().is_some_and(|questions| questions.ask(question)) {
            return None;
        }
        let by =
            "it needs leave and there is no terminal to ask on; run with --yes, or set tools.exec.policy".to_owned();
        Some(Command::Answer { call, fingerprint, allow: false, by })
    }
}
