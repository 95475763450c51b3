//! Between runs: collected messages become a group, and a steer without a run joins its followup.

use super::steer::missed;
use crate::event::{Gathered, MessageSettled};
use crate::ids::{MessageId, Moment};
use crate::machine::Machine;
use crate::state::{Lifecycle, Session};

impl Machine {
    /// Advances the queue while no run is active. Returns whether anything changed.
    pub(in crate::machine) fn advance_queue(&mut self, moment: Moment) {
        self.complete_group(moment);
        self.cancel_orphans(moment);
    }

    /// The group at the head is complete after the quiet time, or when something else waits behind it.
    fn complete_group(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        if session.gathering_until().is_some_and(|until| until <= moment.now) {
            let messages = session.group();
            self.emit(Gathered { messages }, moment.now);
        }
    }

    /// The messages that the head's run starts with. Its own steer, if it has one, is merged into it.
    pub(in crate::machine) fn take_starting(&mut self, moment: Moment) -> Vec<MessageId> {
        let Some(session) = &self.session else { return vec![] };
        let head = session.head().map(|head| head.message);
        let own = session.steers().find(|queued| queued.is_extra() && Some(queued.message) == head);
        let own = own.map(|queued| missed(session, queued.message));
        if let Some(settled) = own {
            self.emit(settled, moment.now);
        }
        self.session.as_ref().map(Session::starting).unwrap_or_default()
    }

    /// Steers that wait for a run that no message can start.
    fn cancel_orphans(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        let rests = matches!(session.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle);
        if !rests || session.head().is_some() {
            return;
        }
        let orphans: Vec<MessageSettled> = session.steers().map(|queued| missed(session, queued.message)).collect();
        for settled in orphans {
            self.emit(settled, moment.now);
        }
    }
}
