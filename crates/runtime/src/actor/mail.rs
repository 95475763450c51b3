//! The mailboxes of a session, and their messages.

use engine::{Acknowledgement, Command, Input, Refusal, Report};
use tokio::sync::{mpsc, oneshot};

/// The sender of an answer to a waiting caller.
pub(crate) type Caller = oneshot::Sender<Result<Acknowledgement, Refusal>>;

/// Something offered to a session. It is small, because a mailbox allocates space for dozens at once.
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

/// The mailboxes of a session. Control never waits behind data, so an abort does not wait for a stream.
pub(crate) struct Mailboxes {
    pub(crate) control: mpsc::UnboundedReceiver<Offer>,
    pub(crate) data: mpsc::Receiver<Offer>,
    /// The sending end of `data`, for effects.
    pub(crate) reports: mpsc::Sender<Offer>,
}
