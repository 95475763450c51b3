//! The open part of a conversation: the requests that are not answered, and the results of the tools for them.

use std::sync::Arc;

use super::grammar::{Act, acts, asks_to_continue};
use super::lexicon::is_han;
use crate::model::Message;
use crate::rendering::Cached;

/// The mark of a message that came while the model worked.
const STEER_MARK: &str = "[STEER] ";

/// The results of calls that were not run and are requested again: a message came first, or the budget was used up.
const SKIPPED: [&str; 2] = ["Skipped due to queued user message.", "Not run: the budget is used up."];

/// The beginning of a note from limulus itself, which asks for nothing.
const NOTE: &str = "Note from limulus: ";

/// The part of a conversation since its last answer.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The requested acts, in order.
    pub(super) acts: Vec<Act>,
    /// The calls that were run for them, in order.
    pub(super) results: Vec<Output>,
    /// The text of the answer before it was interrupted.
    pub(super) partial: String,
    /// Whether the answer must report what was done, without further calls.
    pub(super) closes: bool,
    pub(super) language: Language,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) text: Arc<str>,
    pub(super) is_error: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    #[default]
    English,
    Chinese,
}

impl Turn {
    pub(super) fn of(messages: &[Cached<Message>]) -> Self {
        let mut turn = Self::default();
        for message in &messages[begin(messages)..] {
            match &**message {
                Message::User { text, .. } => turn.take_request(text),
                Message::Assistant(answer) if answer.calls().next().is_none() => turn.partial.push_str(&answer.text()),
                Message::Assistant(_) => {}
                Message::Result { text, .. } if SKIPPED.contains(&text.trim()) => {}
                Message::Result { text, is_error, .. } => {
                    turn.results.push(Output { text: text.clone(), is_error: *is_error });
                }
            }
        }
        turn
    }

    fn take_request(&mut self, text: &str) {
        if let Some(note) = text.strip_prefix(NOTE) {
            self.closes = note.contains("Call no tools");
            return;
        }
        let text = text.strip_prefix(STEER_MARK).unwrap_or(text);
        if !self.partial.is_empty() && asks_to_continue(text) {
            return;
        }
        if text.chars().any(is_han) {
            self.language = Language::Chinese;
        }
        self.acts.extend(acts(text));
    }
}

/// The part after the last answer. An answer that a person or the runtime asks to continue belongs to the turn.
fn begin(messages: &[Cached<Message>]) -> usize {
    let is_answer =
        |message: &Message| matches!(message, Message::Assistant(answer) if answer.calls().next().is_none());
    let mut end = messages.len();
    while let Some(answer) = messages[..end].iter().rposition(|message| is_answer(message)) {
        let goes_on = match messages.get(answer + 1).map(|next| &**next) {
            Some(Message::User { text, .. }) => text.starts_with(NOTE) || asks_to_continue(text),
            Some(next) => is_answer(next),
            None => false,
        };
        if !goes_on {
            return answer + 1;
        }
        end = answer;
    }
    0
}
