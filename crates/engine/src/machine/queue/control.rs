//! The commands on the queue.

use crate::event::{Leg, MessageSettled, ReceiptState};
use crate::ids::{MessageId, Moment};
use crate::input::{Acknowledgement, Refusal};
use crate::machine::Machine;

impl Machine {
    /// Withdraws a message, or one leg of it.
    pub(in crate::machine) fn cancel(
        &mut self,
        message: MessageId,
        leg: Option<Leg>,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let waits = self.session.as_ref().is_some_and(|session| {
            session
                .conversation
                .queue
                .iter()
                .any(|queued| queued.message == message && leg.is_none_or(|leg| leg == queued.leg))
        });
        if !waits {
            return Err(Refusal::NotFound {
                what: format!("message {message} does not wait; `limulus receipt {message}` shows its outcome"),
            });
        }
        self.emit(
            MessageSettled { message, state: ReceiptState::Cancelled, run: None, leg, in_next_run: false },
            moment.now,
        );
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    /// Withdraws all waiting messages.
    pub(in crate::machine) fn clear(&mut self, moment: Moment) {
        while let Some(queued) = self.session.as_ref().and_then(|session| session.conversation.queue.front()) {
            let message = queued.message;
            let settled =
                MessageSettled { message, state: ReceiptState::Cancelled, run: None, leg: None, in_next_run: false };
            self.emit(settled, moment.now);
            if self.fault.is_some() {
                break;
            }
        }
    }
}
