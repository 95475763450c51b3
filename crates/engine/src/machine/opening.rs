//! A new owner opens the session. A crash is an input like any other: what was started under an older epoch is looked
//! up or sent again, and then the same rules decide as always.

use super::Machine;
use crate::event::{Closed, InterruptCause, Opened};
use crate::failure::{Failure, FailureClass};
use crate::ids::{Epoch, Moment};
use crate::input::RepairPolicy;
use crate::ledger::CooldownSet;
use crate::state::Session;

impl Machine {
    pub(super) fn opened(&mut self, epoch: Epoch, cooling: &[CooldownSet], moment: Moment) {
        if !self.take_over(epoch, moment) {
            return;
        }
        self.learn_cooldowns(cooling, moment);
        if self.session.as_ref().is_some_and(Session::is_active) {
            self.send_again(moment);
        }
        self.advance(moment);
    }

    /// Opened and closed again: as if its owner had shut down in order. No effect is wanted and no timer runs, and the
    /// opening that follows when its run has its slot does not count as a crash.
    pub(super) fn opened_to_wait(&mut self, epoch: Epoch, moment: Moment) {
        self.take_over(epoch, moment);
        self.emit(Closed { epoch }, moment.now);
    }

    /// What was in flight becomes what must be looked up or sent again. Returns whether the run may continue.
    fn take_over(&mut self, epoch: Epoch, moment: Moment) -> bool {
        let Some(last_activity) = self.session.as_ref().map(|session| session.account.last_activity) else {
            return false;
        };
        self.emit(Opened { epoch, last_activity }, moment.now);
        self.interrupt_stream(InterruptCause::Crash, moment);
        self.lose_calls(moment);
        self.lose_deliveries(moment);
        self.give_up_title("its owner ended before the title came", moment);
        if self.is_poison() {
            self.escalate_poison(moment);
            return false;
        }
        true
    }

    fn is_poison(&self) -> bool {
        let most = self.limits().poison_after;
        let works = |session: &&Session| session.is_active() || session.is_recovering();
        let run = self.session.as_ref().filter(works).and_then(Session::run);
        run.is_some_and(|run| most > 0 && run.counts.openings >= most)
    }

    fn escalate_poison(&mut self, moment: Moment) {
        let openings = self.session.as_ref().and_then(Session::run).map_or(0, |run| run.counts.openings);
        let message = format!("the run crashed {openings} times in a row without progress and needs a human");
        self.escalate(Failure::new(FailureClass::Unknown, message), RepairPolicy::ByHuman, moment);
    }
}
