//! The conversation: the messages of the user, and one result for each call.

use std::collections::BTreeMap;

use engine::{CallId, Hash, Item, MessageId, Transcript};

use super::same;

/// The most dropped messages that a run is notified of.
const MOST_DROPPED: usize = 20;

/// A message in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct One {
    message: MessageId,
    body: Option<Hash>,
    steer: bool,
    /// The messages that were dropped before it.
    dropped: Vec<Hash>,
}

/// The messages of the user, and how far the transcript was compared with them.
#[derive(Debug, Default)]
pub(super) struct Said {
    ours: Vec<One>,
    bodies: BTreeMap<MessageId, Hash>,
    /// Dropped messages that no run was notified of yet.
    dropped: Vec<Hash>,
    resets: u32,
    /// Items of the transcript that were compared.
    items: usize,
    /// How many of these are messages of the user.
    users: usize,
    /// Calls among them that have no result.
    open: Vec<CallId>,
}

impl Said {
    pub(super) fn know(&mut self, message: MessageId, body: Hash) {
        self.bodies.insert(message, body);
    }

    /// Adds a message to the conversation.
    pub(super) fn say(&mut self, message: MessageId, steer: bool) {
        let dropped = if steer { vec![] } else { std::mem::take(&mut self.dropped) };
        self.ours.push(One { message, body: self.bodies.get(&message).copied(), steer, dropped });
    }

    /// Notes a dropped message, of which the next run is notified.
    pub(super) fn notify_of(&mut self, message: MessageId) {
        self.dropped.extend(self.bodies.get(&message));
        while self.dropped.len() > MOST_DROPPED {
            self.dropped.remove(0);
        }
    }

    /// Resets the conversation.
    pub(super) fn reset(&mut self) {
        self.ours.clear();
        self.resets += 1;
        self.look_again();
    }

    pub(super) fn look_again(&mut self) {
        (self.items, self.users) = (0, 0);
        self.open.clear();
    }

    /// Compares the new items.
    pub(super) fn compare(&mut self, transcript: &Transcript) -> Result<(), String> {
        same("the number of resets", transcript.resets(), self.resets)?;
        let items = transcript.items();
        for item in items.get(self.items..).ok_or("the conversation became shorter")? {
            self.pair(item)?;
            let Item::User { message, body, steer, dropped, .. } = item else { continue };
            let dropped = dropped.iter().map(|body| body.hash).collect();
            let is = One { message: *message, body: Some(body.hash), steer: *steer, dropped };
            same("the message of the user", Some(&is), self.ours.get(self.users))?;
            self.users += 1;
        }
        self.items = items.len();
        same("the number of messages of the user", self.users, self.ours.len())
    }

    fn pair(&mut self, item: &Item) -> Result<(), String> {
        match item {
            Item::Result { call, .. } => match self.open.iter().position(|open| open == call) {
                Some(at) => drop(self.open.remove(at)),
                None => return Err(format!("a result for {call}, which expects none")),
            },
            Item::User { .. } | Item::Summary { .. } | Item::Note { .. } | Item::Assistant { .. } => {
                self.paired()?;
                if let Item::Assistant { calls, .. } = item {
                    self.open.extend(calls.iter().map(|call| call.id));
                }
            }
        }
        Ok(())
    }

    /// Checks that every call has its result.
    pub(super) fn paired(&self) -> Result<(), String> {
        same("calls without a result", self.open.as_slice(), &[])
    }
}
