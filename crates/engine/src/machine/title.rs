//! The title of a conversation by a model. It is asked for beside the first answer of a run, so that nothing waits for it: a
//! run that ends first ends it, and the next run asks once more.

use super::Machine;
use crate::body::Content;
use crate::event::{TitleAsked, TitleEnded, Usage};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectKind, Moment};
use crate::settings::{Candidate, Sampling};
use crate::state::{Run, Session};
use crate::tables::budget::Spent;
use crate::tables::limits::{TITLE_ASKS, TITLE_INPUT, TITLE_TOKENS};

/// The estimated tokens of the instructions for a title.
const INSTRUCTIONS: u64 = 120;

impl Machine {
    /// Asks a model for the title of a conversation that has none, if that is configured and the budgets allow it. The
    /// provider has just answered the run, so the request is not the first that finds it out of order.
    pub(super) fn ask_title(&mut self, moment: Moment) {
        let Some((session, run)) = self.session.as_ref().and_then(|session| Some((session, session.run()?))) else {
            return;
        };
        let (conversation, candidate) = (&session.conversation, run.counts.candidates.candidate);
        let is_named = conversation.title.or(conversation.model_title).is_some();
        if is_named
            || conversation.title_asks >= TITLE_ASKS
            || run.has_asked_title
            || run.counts.candidates.compaction.alone
            || run.ending.is_some()
        {
            return;
        }
        let Some(asked) = self.titled_by(candidate) else { return };
        let message = run.inputs.first().and_then(|input| session.account.messages.get(input));
        let Some(message) = message.map(|message| message.body).filter(|body| body.bytes > 0) else { return };
        let expected = Spent::expected(&asked, message.tokens.min(TITLE_INPUT as u64) + INSTRUCTIONS);
        let title = run.effect(EffectKind::Title, 1, 1);
        if self.is_ample(&expected, candidate, moment) {
            let reserved = self.is_limited(candidate, moment).then_some(expected);
            self.emit(TitleAsked { title, reserved }, moment.now);
        }
    }

    /// The candidate that is asked for a title; none if none is.
    fn titled_by(&self, candidate: u32) -> Option<Candidate> {
        let settings = self.settings.as_ref()?;
        let by = settings.titles.as_ref()?.by.as_ref().or_else(|| settings.candidate(candidate))?;
        Some(by.for_title())
    }

    /// The model has answered, or has not.
    pub(super) fn titled(&mut self, title: Result<Content, Failure>, by: String, usage: Usage, moment: Moment) {
        let Some(asked) = self.session.as_ref().and_then(Session::run).and_then(|run| run.title) else { return };
        let cost = self.cost_by(&by, &usage);
        let (text, failure) = match title {
            Ok(text) => (Some(self.keep(text)), None),
            Err(failure) => (None, Some(failure)),
        };
        self.emit(TitleEnded { title: asked.effect, text, by: Some(by), usage, cost, failure }, moment.now);
    }

    /// Waits for the title no longer; it may have been made all the same.
    pub(super) fn give_up_title(&mut self, why: &str, moment: Moment) {
        let out = |run: &Run| run.title;
        let Some(asked) = self.session.as_ref().and_then(Session::run).and_then(out) else { return };
        let failure = Some(Failure::new(FailureClass::Timeout, why));
        let ended = TitleEnded { title: asked.effect, text: None, by: None, usage: Usage::default(), cost: 0, failure };
        self.emit(ended, moment.now);
    }
}

impl Candidate {
    /// The candidate as it is asked for a title: one line, and no thinking about it.
    #[must_use]
    pub fn for_title(&self) -> Self {
        Self {
            max_output: self.max_output.min(TITLE_TOKENS),
            thinking: None,
            levels: vec![],
            sampling: Sampling::default(),
            ..self.clone()
        }
    }
}
