//! The title that a model is asked for.

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::event::{TitleAsked, TitleEnded};
use crate::ids::{EffectId, Timestamp};
use crate::tables::budget::Spent;

/// A request for the title of the conversation that is out. It ends with its run at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct TitleRequest {
    pub effect: EffectId,
    pub since: Timestamp,
    /// The reservation for it.
    pub reserved: Option<Spent>,
}

impl Session {
    pub(super) fn title_asked(&mut self, e: &TitleAsked, at: Timestamp) {
        self.conversation.title_asks += 1;
        if let Some(run) = self.run_mut() {
            run.has_asked_title = true;
            run.title = Some(TitleRequest { effect: e.title, since: at, reserved: e.reserved });
        }
    }

    /// Charges what it used; if its outcome is unknown, at least the whole reservation.
    pub(super) fn title_ended(&mut self, e: &TitleEnded) {
        self.conversation.model_title = e.text.or(self.conversation.model_title);
        let Some(run) = self.run_mut() else { return };
        let reserved = run.title.take().and_then(|asked| asked.reserved);
        let lost = reserved.filter(|_| e.failure.as_ref().is_some_and(|failure| failure.class.is_outcome_unknown()));
        run.usage.add(&e.usage);
        run.budget.spent.add(&lost.unwrap_or_default().at_least(&Spent::on_request(&e.usage, e.cost)));
    }
}
