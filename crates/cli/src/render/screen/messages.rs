//! Messages of other clients: each is shown where a run takes it.

use std::collections::{BTreeMap, BTreeSet};

use engine::MessageId;
use protocol::Event;
use protocol::event::{QueueLine, Stream};

use super::Screen;
use crate::show::human::excerpt;

/// Messages of other clients that are remembered until a run takes them; the oldest go first.
const REMEMBERED: usize = 64;
/// Characters that are shown of a message.
const MESSAGE_CHARS: usize = 300;

/// The messages of the followed sessions that wait.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The keys of those that this process sends.
    own: BTreeSet<String>,
    /// The beginning of each of the others.
    others: BTreeMap<MessageId, String>,
}

impl Messages {
    fn accepted(&mut self, message: MessageId, text: &str) {
        if self.others.len() >= REMEMBERED {
            self.others.pop_first();
        }
        self.others.insert(message, text.to_owned());
    }
}

impl Screen {
    /// This process sends a message with this key: it is not shown as one of somebody else.
    pub(crate) fn sends(&mut self, key: &str) {
        self.messages.own.insert(key.to_owned());
    }

    /// How many messages of other clients are not settled.
    pub(crate) fn unsettled_messages(&self) -> usize {
        self.messages.others.len()
    }

    /// Takes a line of the queue in, and shows a message of another client where a run takes it.
    pub(super) fn see_message(&mut self, event: &Event) {
        let Stream::Queue(line) = &event.what else { return };
        match line {
            QueueLine::Accepted { message, key, text: Some(text) } => {
                if key.as_ref().is_none_or(|key| !self.messages.own.contains(key)) {
                    self.messages.accepted(*message, text);
                }
            }
            QueueLine::Settled { message, taken_by, .. } => {
                let text = self.messages.others.remove(message);
                if let Some(text) = text.filter(|_| taken_by.is_some()) {
                    self.note(event, &format!("› you, from another terminal: {}", excerpt(&text, MESSAGE_CHARS)));
                }
            }
            QueueLine::Accepted { .. } | QueueLine::Shows | QueueLine::Waiting { .. } | QueueLine::Entered { .. } => {}
        }
    }
}
