//! The plan of a conversation: a call sets it, and the model receives it again when it would not see that call any more.

use super::{Machine, model_notices};
use crate::body::{BodyKind, Content};
use crate::event::{Note, Noted, PlanSet};
use crate::ids::{CallId, Moment};
use crate::plan::{self, PlanItem};

impl Machine {
    /// Records the plan that a call has set. What the model may need of it later is stored with it: the engine holds no content.
    pub(super) fn set_plan(&mut self, call: CallId, items: &[PlanItem], moment: Moment) {
        let open = items.iter().filter(|item| item.is_open()).count();
        let reminder = (open > 0).then(|| self.keep(Content::text(BodyKind::Message, &model_notices::plan(items))));
        let (steps, done) = (items.len() as u32, (items.len() - open) as u32);
        let items = self.keep(plan::content(items));
        self.emit(PlanSet { call, items, steps, done, reminder }, moment.now);
    }

    /// Gives the model its plan again, if steps of it are open and the next request has neither the call that set it nor an
    /// earlier reminder: a summary replaced that part, or the request leaves out turns that are so old. A reminder that would
    /// itself cause a compaction waits until after it.
    pub(super) fn remind_of_plan(&mut self, candidate: u32, moment: Moment) {
        let Some((session, settings)) = self.session.as_ref().zip(self.settings.as_ref()) else { return };
        let Some(plan) = session.conversation.plan else { return };
        let Some((body, window)) = plan.reminder.zip(self.window(candidate)) else { return };
        let is_seen = session.conversation.transcript.sends(settings, |item| plan.is_in(item));
        let fits = self.request_tokens(candidate) + body.tokens <= window.threshold;
        if !is_seen && fits && !self.has_part() {
            self.emit(Noted { note: Note::Plan, body }, moment.now);
        }
    }
}
