//! The conversation: what the user has said in it, and that each call has its one result.

use std::collections::BTreeMap;

use engine::{CallId, Hash, Item, MessageId, Transcript};

use super::same;

/// What a run is told of messages that gave way, at most.
const TOLD: usize = 20;

/// A message in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct One {
    message: MessageId,
    body: Option<Hash>,
    steer: bool,
    /// The messages that gave way before it.
    told: Vec<Hash>,
}

/// What the user has said, and how far the transcript was compared with it.
#[derive(Debug, Default)]
pub(super) struct Said {
    ours: Vec<One>,
    bodies: BTreeMap<MessageId, Hash>,
    /// Messages that gave way and that nobody was told of yet.
    told: Vec<Hash>,
    resets: u32,
    /// Items of the transcript that were looked at.
    items: usize,
    /// Messages of the user among them.
    users: usize,
    /// Calls among them that have no result.
    open: Vec<CallId>,
}

impl Said {
    pub(super) fn know(&mut self, message: MessageId, body: Hash) {
        self.bodies.insert(message, body);
    }

    /// A message is in the conversation from now on.
    pub(super) fn say(&mut self, message: MessageId, steer: bool) {
        let told = if steer { vec![] } else { std::mem::take(&mut self.told) };
        self.ours.push(One { message, body: self.bodies.get(&message).copied(), steer, told });
    }

    /// A message gave way, and the next run is told of it.
    pub(super) fn tell_of(&mut self, message: MessageId) {
        self.told.extend(self.bodies.get(&message));
        while self.told.len() > TOLD {
            self.told.remove(0);
        }
    }

    /// The conversation begins anew.
    pub(super) fn reset(&mut self) {
        self.ours.clear();
        self.resets += 1;
        self.look_again();
    }

    pub(super) fn look_again(&mut self) {
        (self.items, self.users) = (0, 0);
        self.open.clear();
    }

    /// Looks at what has come since.
    pub(super) fn compare(&mut self, transcript: &Transcript) -> Result<(), String> {
        same("how often the conversation began anew", transcript.resets(), self.resets)?;
        let items = transcript.items();
        for item in items.get(self.items..).ok_or("the conversation became shorter")? {
            self.pair(item)?;
            let Item::User { message, body, steer, dropped, .. } = item else { continue };
            let told = dropped.iter().map(|body| body.hash).collect();
            let is = One { message: *message, body: Some(body.hash), steer: *steer, told };
            same("what was said by the user", Some(&is), self.ours.get(self.users))?;
            self.users += 1;
        }
        self.items = items.len();
        same("how much was said by the user", self.users, self.ours.len())
    }

    fn pair(&mut self, item: &Item) -> Result<(), String> {
        match item {
            Item::Result { call, .. } => match self.open.iter().position(|open| open == call) {
                Some(at) => drop(self.open.remove(at)),
                None => return Err(format!("a result for {call}, which has none to come")),
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

    /// Every call has its result.
    pub(super) fn paired(&self) -> Result<(), String> {
        same("calls without a result", self.open.as_slice(), &[])
    }
}
