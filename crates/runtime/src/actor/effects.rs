//! The running effects of a session.

use std::collections::BTreeMap;

use engine::{Effect, EffectId, EffectKind};

use super::Actor;
use crate::conversation::Conversation;
use crate::perform::{self, Job, Underway};

/// The running effects, and the conversation that their requests carry.
#[derive(Default)]
pub(super) struct Effects {
    underway: BTreeMap<EffectId, Underway>,
    pub(super) conversation: Conversation,
}

impl Drop for Effects {
    /// When the actor ends, also by a panic, all effects stop except what a supervisor looks after.
    fn drop(&mut self) {
        self.underway.values().for_each(Underway::leave);
    }
}

impl Actor<'_> {
    pub(super) fn start(&mut self, effect: &Effect) -> Result<(), journal::Error> {
        if self.pump.is_open() {
            self.effects.conversation.keep(self.pump.machine().open_bodies());
        }
        let Some(session) = self.pump.session() else { return Ok(()) };
        // A check that is stopped takes what began with it along, so only a call that follows it at once gets it.
        let id = effect.id();
        let checked = EffectId { kind: EffectKind::CheckCall, ..id };
        let checked = (id.kind == EffectKind::RunCall).then(|| self.effects.underway.get(&checked)).flatten();
        let mut job = Job {
            shared: self.shared,
            session,
            settings: self.pump.machine().settings(),
            conversation: &mut self.effects.conversation,
            data: &self.mail.reports,
            ticket: self.lane.ticket_of(id),
            ahead: checked.and_then(Underway::take_ahead),
        };
        let underway = perform::start(effect, &mut job)?;
        self.effects.underway.insert(id, underway);
        Ok(())
    }

    pub(super) fn stop(&mut self, id: EffectId) {
        if let Some(underway) = self.effects.underway.remove(&id) {
            underway.stop();
        }
        self.give_up_lane(id);
    }
}
