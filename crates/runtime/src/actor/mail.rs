//! The mailboxes of a session, and what comes in by them.

use engine::{Acknowledgement, Command, Input, Refusal, Report};
use tokio::sync::{mpsc, oneshot};

/// Who waits for an answer.
pub(crate) type Caller = oneshot::Sender<Result<Acknowledgement, Refusal>>;

/// Something offered to a session. Small: a mailbox has room for dozens from the beginning.
pub(crate) struct Offer {
    pub(crate) input: Box<Input>,
    pub(crate) caller: Option<Caller>,
}

impl Offer {
    pub(crate) fn command(command: Command, caller: Option<Caller>) -> Self {
        Self { input: Box::new(command.into()), caller }
    }

    pub(crate) fn report(report: Report) -> Self {
        Self { input: Box::new(report.into()), caller: None }
    }
}

/// The mailboxes of a session. Control is never behind data: an abort does not wait for a stream.
pub(crate) struct Mailboxes {
    pub(crate) control: mpsc::UnboundedReceiver<Offer>,
    pub(crate) data: mpsc::Receiver<Offer>,
    /// The sending end of `data`, for effects.
    pub(crate) reports: mpsc::Sender<Offer>,
}
