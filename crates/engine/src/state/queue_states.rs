//! What each message shows (R36): derived from the state, so that it cannot disagree with it.

use crate::event::{Leg, QueueMode, ReceiptState};
use crate::ids::MessageId;
use crate::state::queue::{LegState, Message};
use crate::state::run::{Phase, PrepareStage};
use crate::state::session::{Lifecycle, Session};
use crate::tables::transitions::named;
use serde::{Deserialize, Serialize};

named! {
    /// The state of a leg, in the words of its mode.
    QueueState {
        /// A steer: no boundary is near.
        Waiting = "waiting",
        /// A steer: it joins at the next boundary, or is in a request without an answer yet.
        Steering = "steering",
        /// A steer: its run is paused, or ends without it.
        Interrupted = "interrupted",
        /// A steer: the model has received it.
        Delivered = "delivered",
        /// A followup: another message or run comes first.
        Blocked = "blocked",
        /// A followup: its run is unfinished.
        Executing = "executing",
        /// A followup: its run has ended.
        Completed = "completed",
        /// A gathered message: others may join it.
        Collecting = "collecting",
        /// A gathered message: its group is complete and waits for its turn.
        Validating = "validating",
        /// A gathered message: it is a part of a run.
        Merged = "merged",
    }
}

impl Session {
    /// What a message shows; none if it was withdrawn, dropped, or does not exist.
    pub fn queue_state(&self, id: MessageId) -> Option<QueueState> {
        let message = self.account.messages.get(&id)?;
        self.leg_shows(id, message, Leg::Followup)
    }

    /// What its other leg shows, if it has two.
    pub fn steer_state(&self, id: MessageId) -> Option<QueueState> {
        let message = self.account.messages.get(&id)?;
        message.steer.and_then(|_| self.leg_shows(id, message, Leg::Steer))
    }

    fn leg_shows(&self, id: MessageId, message: &Message, leg: Leg) -> Option<QueueState> {
        let LegState { state, run } = message.leg(leg);
        let is_extra = leg == Leg::Steer;
        if is_extra && message.leg(leg).is_taken_over(id) {
            return self.leg_shows(id, message, Leg::Followup);
        }
        let waits = self.conversation.queue.iter().find(|queued| queued.message == id && queued.is_extra() == is_extra);
        let steers = message.mode == QueueMode::Steer && run != id.into() || is_extra;
        match state {
            ReceiptState::Queued => waits.map(|queued| match queued.leg {
                Leg::Steer => self.steer_waits(),
                Leg::Followup => QueueState::Blocked,
                Leg::Collect if queued.is_gathered => QueueState::Validating,
                Leg::Collect => QueueState::Collecting,
            }),
            ReceiptState::Steered => Some(QueueState::Steering),
            ReceiptState::Delivered => Some(QueueState::Delivered),
            ReceiptState::Started | ReceiptState::Merged | ReceiptState::Ended
                if message.mode == QueueMode::Collect =>
            {
                Some(QueueState::Merged)
            }
            ReceiptState::Merged | ReceiptState::Ended if steers => Some(QueueState::Delivered),
            ReceiptState::Started | ReceiptState::Merged => Some(QueueState::Executing),
            ReceiptState::Ended => Some(QueueState::Completed),
            ReceiptState::Dropped | ReceiptState::Cancelled | ReceiptState::Refused => None,
        }
    }

    /// What a steer shows that waits.
    fn steer_waits(&self) -> QueueState {
        match &self.conversation.lifecycle {
            Lifecycle::Active(run) if run.ending.is_some() => QueueState::Interrupted,
            Lifecycle::Active(run) => match &run.phase {
                Phase::Preparing { stage: PrepareStage::Gathering | PrepareStage::Reserving }
                | Phase::Streaming(_)
                | Phase::ToolExec => QueueState::Steering,
                Phase::Preparing { stage: PrepareStage::Sent(_) }
                | Phase::Awaiting { .. }
                | Phase::Compacting(_)
                | Phase::Error { .. }
                | Phase::Retry { .. } => QueueState::Waiting,
            },
            Lifecycle::Suspended(_) | Lifecycle::Error { .. } | Lifecycle::Recovering { .. } => QueueState::Interrupted,
            Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated => QueueState::Waiting,
        }
    }
}
