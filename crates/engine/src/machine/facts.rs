//! What changes from day to day: the model receives it beside the message with which it changed, so that all that it received
//! before stays as it was.

use super::{Machine, model_notices};
use crate::body::{BodyKind, Content};
use crate::event::{Note, Noted};
use crate::ids::{MessageId, Moment};
use crate::state::{Item, Session};

impl Machine {
    /// Records the facts before the messages with which a run begins, unless the model has them from an earlier run.
    pub(super) fn state_facts(&mut self, inputs: &[MessageId], moment: Moment) {
        let Some(session) = &self.session else { return };
        let asks = |input: &MessageId| session.account.messages.get(input).is_some_and(|message| !message.compacts);
        if inputs.iter().any(asks) {
            self.note_facts(|_| true, moment);
        }
    }

    /// Gives the model the facts again, if a summary replaced that part of the conversation or the request leaves out turns that
    /// are so old. What would itself cause a compaction waits until after it.
    pub(super) fn remind_of_facts(&mut self, candidate: u32, moment: Moment) {
        let leaves_out = self.settings.as_ref().is_some_and(|settings| settings.history_turns.is_some());
        let may_lack = |session: &Session| leaves_out || session.conversation.transcript.compaction().is_some();
        if self.has_part() || !self.session.as_ref().is_some_and(may_lack) {
            return;
        }
        let Some(window) = self.window(candidate) else { return };
        let tokens = self.request_tokens(candidate);
        self.note_facts(|note| tokens + note.body.tokens <= window.threshold, moment);
    }

    /// Records the facts, unless the next request has them.
    fn note_facts(&mut self, fits: impl Fn(&Content) -> bool, moment: Moment) {
        let Some((session, settings)) = self.session.as_ref().zip(self.settings.as_ref()) else { return };
        if settings.facts.is_empty() {
            return;
        }
        let note = Content::text(BodyKind::Message, &model_notices::facts(&settings.facts));
        let is_it = |item: &Item| matches!(item, Item::Note { body } if body.hash == note.body.hash);
        let conversation = &session.conversation;
        let is_known = conversation.facts == Some(note.body.hash) && conversation.transcript.sends(settings, is_it);
        if fits(&note) && !is_known {
            let body = self.keep(note);
            self.emit(Noted { note: Note::Facts, body }, moment.now);
        }
    }
}
