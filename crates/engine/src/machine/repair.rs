//! Repairs a held session: what its run had started is looked up first, then the run continues. A human asks for it, or
//! the session tries by itself (`runs.recover`).

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::event::{InterruptCause, LifecycleChanged};
use crate::failure::Failure;
use crate::ids::Moment;
use crate::input::{Acknowledgement, Refusal, RepairPolicy};
use crate::settings::Recover;
use crate::state::{Lifecycle, RecoveryAttempt, Session, Stage};
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};
use crate::tables::limits::RECOVERIES_MS;

impl Machine {
    pub(super) fn recover_lifecycle(&mut self, force: bool, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        match &session.conversation.lifecycle {
            // The repair is under way already.
            Lifecycle::Recovering { .. } if force => Ok(Acknowledgement::Done),
            Lifecycle::Error { .. } if force => {
                self.begin_recovery(None, moment);
                Ok(Acknowledgement::Done)
            }
            Lifecycle::Error { remedy, .. } => Err(state_refusal(session, &format!("repair it with `{remedy}`"))),
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Active(_)
            | Lifecycle::Idle
            | Lifecycle::Suspended(_)
            | Lifecycle::Recovering { .. }
            | Lifecycle::Terminated => Err(state_refusal(session, "there is nothing to repair")),
        }
    }

    /// The time of an attempt without a human has come.
    pub(super) fn recover_by_itself(&mut self, moment: Moment) {
        if let Some(next) = self.session.as_ref().and_then(Session::next_recovery) {
            self.begin_recovery(Some(next.no), moment);
        }
    }

    /// Nobody supervised the calls of the run meanwhile: they are looked up, and nothing else happens until then.
    fn begin_recovery(&mut self, attempt: Option<u32>, moment: Moment) {
        let (from, to) = (LifecycleKind::Error, LifecycleKind::Recovering);
        self.emit(LifecycleChanged { attempt, ..LifecycleChanged::by(LifecycleCause::Recover, from, to) }, moment.now);
        self.lose_calls(moment);
        self.advance(moment);
    }

    /// The run continues as soon as nothing of it has an unknown outcome. Returns whether it does.
    pub(super) fn advance_recovery(&mut self, moment: Moment) -> bool {
        let calls = self.session.as_ref().and_then(Session::run).map(|run| &run.step.calls);
        let is_over = calls.is_none_or(|calls| calls.iter().all(|call| call.stage != Stage::Lost));
        if is_over {
            let by_itself = self.session.as_ref().is_some_and(Session::recovers_by_itself);
            self.end_recovery(moment);
            self.queue_for_lane(by_itself, moment.now);
            self.send_again(moment);
        }
        is_over
    }

    /// The session is repaired, and its run is active again.
    pub(super) fn end_recovery(&mut self, moment: Moment) {
        let has_run = self.session.as_ref().is_some_and(|session| session.run().is_some());
        self.change_lifecycle(LifecycleKind::Ready, LifecycleCause::Recovered, moment);
        if has_run {
            self.change_lifecycle(LifecycleKind::Active, LifecycleCause::Task, moment);
        }
    }

    /// The run cannot continue and is held. A session without a run is not affected.
    pub(super) fn escalate(&mut self, failure: Failure, repair: RepairPolicy, moment: Moment) {
        let Some(session) = &self.session else { return };
        match session.conversation.lifecycle {
            Lifecycle::Active(_) => {}
            // A run is held from `active` only: there it is again, with nothing done.
            Lifecycle::Recovering { .. } => self.end_recovery(moment),
            // From now on only a human may let it continue: its next attempt is withdrawn in the same way. Or the attempt
            // itself broke before it was recorded: it counts, or it would be made again at once for ever.
            Lifecycle::Error { next: Some(next), .. } if repair == RepairPolicy::ByHuman || next.at <= moment.now => {
                self.change_lifecycle(LifecycleKind::Recovering, LifecycleCause::Recover, moment);
                self.end_recovery(moment);
            }
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Suspended(_)
            | Lifecycle::Error { .. }
            | Lifecycle::Terminated => return,
        }
        let Some(session) = self.session.as_ref().filter(|session| session.is_active()) else { return };
        let remedy = format!("limulus resume {} --force", session.account.key);
        self.interrupt_stream(InterruptCause::Crash, moment);
        let next = self.next_attempt(repair, moment);
        let (from, to) = (LifecycleKind::Active, LifecycleKind::Error);
        let escalated = LifecycleChanged {
            failure: Some(failure),
            remedy: Some(remedy),
            attempt: next.map(|next| next.no),
            retry_at: next.map(|next| next.at),
            ..LifecycleChanged::by(LifecycleCause::Escalated, from, to)
        };
        self.emit(escalated, moment.now);
    }

    fn next_attempt(&self, repair: RepairPolicy, moment: Moment) -> Option<RecoveryAttempt> {
        let settings = self.settings.as_ref()?;
        if (repair, settings.recover) != (RepairPolicy::AsConfigured, Recover::Auto) {
            return None;
        }
        let made = self.session.as_ref()?.run()?.counts.recoveries;
        let pause = RECOVERIES_MS.get(made as usize)?;
        Some(RecoveryAttempt { no: made + 1, at: moment.now.plus(*pause) })
    }
}
