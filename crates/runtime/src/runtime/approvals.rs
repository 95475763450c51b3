//! How calls are approved: the approver, and the answer without one.

use std::sync::Arc;

use engine::{CallId, Command, Hash};
use tokio::sync::mpsc;

use super::Shared;

/// A client that can be asked for approval.
pub trait Approver: Send + Sync {
    /// Sends a request. Returns false if nobody can answer now; then the call is denied.
    fn ask(&self, request: ApprovalRequest) -> bool;
}

impl<T: Approver> Approver for Arc<T> {
    fn ask(&self, request: ApprovalRequest) -> bool {
        T::ask(self, request)
    }
}

impl Approver for mpsc::UnboundedSender<ApprovalRequest> {
    fn ask(&self, request: ApprovalRequest) -> bool {
        self.send(request).is_ok()
    }
}

/// How the answer begins to a request that nobody can be asked about.
pub const NOBODY_TO_ASK: &str = "it needs approval and there is no terminal to ask on";

/// A call that needs approval.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The key of the session.
    pub key: String,
    pub call: CallId,
    /// The fingerprint that the answer is bound to.
    pub fingerprint: Hash,
    /// The text of the request.
    pub text: String,
}

impl ApprovalRequest {
    /// The answer if nobody can be asked.
    pub fn denial(self) -> Command {
        let remedy = if tools::asks_about_executed_files(&self.text) {
            "--yes does not approve this: ask on a terminal, or set tools.executed_files.policy"
        } else {
            "run with --yes, or set tools.exec.policy"
        };
        let by = format!("{NOBODY_TO_ASK}; {remedy}");
        Command::Answer { call: self.call, fingerprint: self.fingerprint, allow: false, by }
    }
}

impl Shared {
    /// Sends a request to the approver; without one, returns the denial.
    pub(crate) fn ask(&self, request: ApprovalRequest) -> Option<Command> {
        match &self.approver {
            Some(approver) if approver.ask(request.clone()) => None,
            _ => Some(request.denial()),
        }
    }
}
