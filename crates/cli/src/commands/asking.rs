//! Approval requests on the terminal, one at a time. A terminal asks for the sessions that it follows, and for no other.

use std::collections::VecDeque;

use protocol::notice::{Answered, Asked};

use crate::prompt::{self, Answer};
use crate::render::Screen;

/// The approval requests of this terminal.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    open: VecDeque<Asked>,
    answer: Answer,
}

impl Asking {
    /// Queues a request.
    pub(crate) fn put(&mut self, request: Asked) {
        if !self.open.iter().any(|open| open.call == request.call) {
            self.open.push_back(request);
        }
    }

    /// Removes a request that was resolved, here or elsewhere.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let is_first = self.open.front().is_some_and(|request| closes(answered, request));
        self.open.retain(|request| !closes(answered, request));
        if is_first && screen.is_asking() {
            screen.say(&words(answered));
        }
    }

    /// Whether a request is to be shown.
    pub(crate) fn is_due(&self, screen: &Screen) -> bool {
        !self.open.is_empty() && !screen.is_asking()
    }

    /// Shows the first request, unless it is the last thing on the screen.
    pub(crate) fn show(&mut self, screen: &mut Screen) {
        let Some(request) = self.open.front() else { return };
        if !screen.is_asking() {
            screen.ask(&request.session, &request.question, || self.answer.discard());
        }
    }

    /// The answer to the request that is shown. Cancel-safe.
    pub(crate) async fn answer(&mut self, is_shown: bool) -> (Asked, bool) {
        if !is_shown || self.open.is_empty() {
            return std::future::pending().await;
        }
        // The end of the input counts as no.
        let allow = self.answer.line().await.is_some_and(|line| prompt::is_yes(&line));
        match self.open.pop_front() {
            Some(request) => (request, allow),
            None => std::future::pending().await,
        }
    }
}

/// Whether a request is resolved.
fn closes(answered: &Answered, request: &Asked) -> bool {
    answered.call == Some(request.call) || answered.run == Some(request.call.run)
}

/// The line for a resolved request.
fn words(answered: &Answered) -> String {
    match (answered.allow, &answered.by) {
        (Some(true), Some(by)) => format!("… it was allowed by {by}"),
        (Some(false), Some(by)) => format!("… it was not allowed: {by}"),
        _ => "… the request is no longer open".to_owned(),
    }
}
