//! How calls are approved: the approver, and the answer without one.

use std::sync::Arc;

use engine::{CallId, Command, Hash};
use tokio::sync::mpsc;

use super::Shared;

/// A client that can be asked for approval.
pub trait Approver: Send + Sync {
    /// Sends a request. Returns false if nobody can answer now; then the answer is no.
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

/// A call that needs approval.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The session's key.
    pub key: String,
    /// The call.
    pub call: CallId,
    /// The fingerprint that the answer is bound to.
    pub fingerprint: Hash,
    /// The text of the request.
    pub text: String,
}

impl Shared {
    /// Sends a request to the terminal; without one, answers no.
    pub(crate) fn ask(&self, question: ApprovalRequest) -> Option<Command> {
        let ApprovalRequest { call, fingerprint, .. } = question;
        if self.questions.as_ref().is_some_and(|questions| questions.ask(question)) {
            return None;
        }
        let by =
            "it needs approval and there is no terminal to ask on; run with --yes, or set tools.exec.policy".to_owned();
        Some(Command::Answer { call, fingerprint, allow: false, by })
    }
}
