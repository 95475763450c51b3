//! A new owner takes the session up. A crash is an input like any other: what was started under an older epoch becomes
//! what must be looked up or sent again, and then the state leads on as always.

use super::Machine;
use crate::event::{CutCause, LifecycleChanged, Opened};
use crate::failure::{Failure, FailureClass};
use crate::ids::{Epoch, Moment};
use crate::state::{Lifecycle, Session};
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

impl Machine {
    pub(super) fn opened(&mut self, epoch: Epoch, moment: Moment) {
        let Some(last_activity) = self.session.as_ref().map(|session| session.last_activity) else { return };
        self.emit(Opened { epoch, last_activity }, moment.now);
        self.cut_stream(CutCause::Crash, moment);
        self.lose_calls(moment);
        if self.is_poison() {
            return self.hold_poison(moment);
        }
        if self.session.as_ref().is_some_and(Session::is_active) {
            self.send_again(moment);
        }
        self.advance(moment);
    }

    fn is_poison(&self) -> bool {
        let most = self.limits().poison_after;
        match self.session.as_ref().map(|session| &session.lifecycle) {
            Some(Lifecycle::Active(run)) => most > 0 && run.openings >= most,
            _ => false,
        }
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
