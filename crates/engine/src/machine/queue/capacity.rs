//! Capacity: how many messages may wait, and which are dropped.

use crate::event::{MessageSettled, QueueMode, ReceiptState};
use crate::ids::{MessageId, Moment};
use crate::input::Refusal;
use crate::machine::Machine;
use crate::machine::commands::state_refusal;
use crate::queue::{DropPolicy, QueueSettings};
use crate::state::Session;
use crate::tables::limits::QUEUED_MESSAGES;

impl Machine {
    /// Makes space for one more message, or refuses it.
    pub(super) fn ensure_capacity(&mut self, queue: &QueueSettings, moment: Moment) -> Result<(), Refusal> {
        let most = (queue.cap as usize).clamp(1, QUEUED_MESSAGES);
        while let Some(session) = self.session.as_ref().filter(|session| waiting(session) >= most) {
            let reported = match queue.drop {
                DropPolicy::New => {
                    let reason = format!("{most} messages wait already; wait for them or abort the run");
                    return Err(state_refusal(session, &reason));
                }
                DropPolicy::Old => false,
                DropPolicy::Summarize => true,
            };
            let Some(message) = oldest(session) else { return Ok(()) };
            let settled =
                MessageSettled { message, state: ReceiptState::Dropped, run: None, leg: None, in_next_run: reported };
            self.emit(settled, moment.now);
            if self.fault.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The waiting messages, each once.
fn waiting(session: &Session) -> usize {
    session.conversation.queue.iter().filter(|queued| !queued.is_extra()).count()
}

/// The message that has waited longest; an interrupt is dropped last.
fn oldest(session: &Session) -> Option<MessageId> {
    let waits = || session.conversation.queue.iter().filter(|queued| !queued.is_extra());
    let oldest = waits().find(|queued| queued.mode != QueueMode::Interrupt).or_else(|| waits().next());
    oldest.map(|queued| queued.message)
}
