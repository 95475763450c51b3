//! A new owner takes the session up. A crash is an input like any other: what was started under an older epoch becomes
//! what must be looked up or sent again, and then the state leads on as always.

use super::Machine;
use crate::event::{Closed, CutCause, LifecycleChanged, Opened};
use crate::failure::{Failure, FailureClass};
use crate::ids::{Epoch, Moment};
use crate::ledger::CooldownSet;
use crate::state::Session;
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

impl Machine {
    pub(super) fn opened(&mut self, epoch: Epoch, cooling: &[CooldownSet], moment: Moment) {
        if !self.take_over(epoch, moment) {
            return;
        }
        self.leave_alone(cooling, moment);
        if self.session.as_ref().is_some_and(Session::is_active) {
            self.send_again(moment);
        }
        self.advance(moment);
    }

    /// Taken up and laid down again: as it is now, its owner left in order, so that nothing of it is wanted, no time runs, and
    /// the opening that follows when its run has its place counts as none that was cut off.
    pub(super) fn opened_to_wait(&mut self, epoch: Epoch, moment: Moment) {
        self.take_over(epoch, moment);
        self.emit(Closed { epoch }, moment.now);
    }

    /// What was under way becomes what must be looked up or sent again. Says whether it may go on.
    fn take_over(&mut self, epoch: Epoch, moment: Moment) -> bool {
        let Some(last_activity) = self.session.as_ref().map(|session| session.last_activity) else { return false };
        self.emit(Opened { epoch, last_activity }, moment.now);
        self.cut_stream(CutCause::Crash, moment);
        self.lose_calls(moment);
        if self.is_poison() {
            self.hold_poison(moment);
            return false;
        }
        true
    }

    fn is_poison(&self) -> bool {
        let most = self.limits().poison_after;
        let run = self.session.as_ref().filter(|session| session.is_active()).and_then(Session::run);
        run.is_some_and(|run| most > 0 && run.openings >= most)
    }

    fn hold_poison(&mut self, moment: Moment) {
        let openings = self.session.as_ref().and_then(Session::run).map_or(0, |run| run.openings);
        let message = format!("its run was cut off {openings} times in a row without getting any further; it is held");
        self.escalate(Failure::new(FailureClass::Unknown, message), moment);
    }

    /// Only a human can help: the run is held. A session without a run has nothing that could be in danger.
    pub(super) fn escalate(&mut self, failure: Failure, moment: Moment) {
        let Some(session) = self.session.as_ref().filter(|session| session.is_active()) else { return };
        let remedy = format!("limulus resume {} --force", session.key);
        self.cut_stream(CutCause::Crash, moment);
        let escalated = LifecycleChanged {
            from: LifecycleKind::Active,
            to: LifecycleKind::Error,
            cause: LifecycleCause::Escalated,
            failure: Some(failure),
            remedy: Some(remedy),
        };
        self.emit(escalated, moment.now);
    }
}
