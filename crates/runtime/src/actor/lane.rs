//! The lane side of an actor: the tickets that it has requested before its session decides.

use engine::tables::lifecycle::LifecycleKind;
use engine::{Command, EffectId, EffectKind, Input, LifecycleChanged, Moment, Report, RunId, Session};

use super::Actor;
use crate::lanes::{LaneAdmission, LaneTicket};
use crate::perform::home::{self, SettingsRequest};

/// The lane state of an actor.
pub(super) struct LaneSide<'a> {
    /// What its resumed run waits for: until then the actor accepts only commands.
    pub(super) admission: &'a mut Option<LaneAdmission>,
    /// The ticket of the next message, requested before the session was opened.
    pub(super) ticket: Option<LaneTicket>,
    /// The run that holds a slot of the lane before its message is decided on.
    granted: Option<RunId>,
}

impl<'a> LaneSide<'a> {
    pub(super) fn new(admission: &'a mut Option<LaneAdmission>, ticket: Option<LaneTicket>) -> Self {
        Self { admission, ticket, granted: None }
    }

    /// Returns the ticket that was already requested, if this is the effect that would request it.
    pub(super) fn ticket_of(&mut self, effect: EffectId) -> Option<LaneTicket> {
        self.ticket.take_if(|ticket| effect.kind == EffectKind::Lane && effect.run == ticket.run())
    }

    /// Completes when the run has the slot that it waits for; never if it waits for none.
    pub(super) async fn admitted(&mut self) {
        match self.admission {
            Some(admission) => admission.await,
            None => std::future::pending().await,
        }
    }
}

impl Actor<'_> {
    /// The lane's answer for a message that can start at once because a slot is free.
    pub(super) fn enter_free_lane(&mut self, input: &Input) -> Option<Report> {
        let Input::Command(Command::Message { message, overrides, .. }) = input else { return None };
        let session = self.pump.session();
        if self.lane.granted.is_some() || !session.is_none_or(Session::is_idle) {
            return None;
        }
        let agent = session.map_or(self.agent, |session| &session.account.agent).to_owned();
        let model = session.and_then(|session| session.account.model.clone());
        let thinking = session.and_then(|session| session.account.thinking);
        let session = self.present.key().to_owned();
        let request = SettingsRequest { session, agent, model, thinking, overrides: overrides.clone() };
        let report = home::enter_free(self.shared, request, *message)?;
        self.lane.granted = Some(RunId::from(*message));
        Some(report)
    }

    /// Frees a slot that was taken for a message which did not start.
    pub(super) fn settle_granted(&mut self) {
        if let Some(run) = self.lane.granted.take().filter(|run| !self.has_run(*run)) {
            self.shared.lanes.leave(run);
        }
    }

    /// Frees a slot whose message was withdrawn.
    pub(super) fn give_up_lane(&self, id: EffectId) {
        if id.kind == EffectKind::Lane && !self.has_run(id.run) {
            self.shared.lanes.leave(id.run);
        }
    }

    fn has_run(&self, run: RunId) -> bool {
        self.pump.session().and_then(Session::run).is_some_and(|known| known.id == run)
    }

    /// Comes before every input that may end the wait of the run. The run has a slot again if one is free that nobody
    /// waits for; if not, it queues for its lane when its wait ends.
    pub(super) fn look_for_slot(&mut self, moment: Moment) {
        let Some(session) = self.pump.session().filter(|session| session.is_outside_lane()) else { return };
        let Some(run) = session.run().map(|run| run.id) else { return };
        let is_free = self.shared.enter_free_lane(run, session.into());
        self.pump.offer(Report::LaneChecked { is_free }, moment, None);
    }

    /// Frees the slot of a run that waits for something outside, or whose session is to repair itself, once no input is undecided that may end its wait.
    pub(super) fn free_waiting_slot(&self) {
        let Some(session) = self.pump.session().filter(|session| session.is_outside_lane()) else { return };
        if let Some(run) = session.run().filter(|_| self.pump.is_quiet()) {
            self.shared.lanes.leave(run.id);
        }
    }

    /// Whether its run waits for a slot that it no longer needs: the run is to end, is paused, or waits for more.
    pub(super) fn needs_no_slot(&self) -> bool {
        let needs = |session: &Session| session.goes_on() && !session.waits_outside() && !session.waits_for_lane();
        !self.closing && self.lane.admission.is_some() && !self.pump.session().is_some_and(needs)
    }

    /// A run that is paused or waits for a human blocks no other run; a resumed run counts again.
    pub(super) fn move_in_lane(&mut self, changed: &LifecycleChanged) {
        let Some(session) = self.pump.session() else { return };
        match (session.run(), changed.to) {
            (Some(run), LifecycleKind::Error | LifecycleKind::Suspended) => self.shared.lanes.leave(run.id),
            (Some(_), LifecycleKind::Active) if session.waits_outside() => {}
            // It repaired itself while its lane was full, and queues.
            (Some(_), LifecycleKind::Active) if changed.from == LifecycleKind::Ready && session.waits_for_lane() => {}
            (Some(run), LifecycleKind::Active) => {
                if let Some(admission) = self.lane.admission {
                    // It was paused and resumed before it had the slot that it waited for, so that wait is over.
                    *admission = Box::pin(std::future::ready(()));
                }
                self.shared.keep_lane(run.id, session.into());
            }
            _ => {}
        }
    }
}
