//! The outcome of each leg according to the oracle: a leg ends once.

use std::collections::BTreeMap;

use engine::{Message, MessageId, ReceiptState, RunId};

/// A leg: its message, and whether it is the steer of a message with two legs.
pub(super) type Key = (MessageId, bool);

/// Every leg that was ever accepted.
#[derive(Debug, Default)]
pub(super) struct Legs(pub(super) BTreeMap<Key, (ReceiptState, RunId)>);

impl Legs {
    pub(super) fn begin(&mut self, key: Key) {
        self.0.insert(key, (ReceiptState::Queued, key.0.into()));
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// The leg of a message that is in this run.
    pub(super) fn in_run(&self, message: MessageId, run: RunId) -> Key {
        if self.has((message, true)) && run != RunId::from(message) { (message, true) } else { (message, false) }
    }

    pub(super) fn state(&self, key: Key) -> Option<ReceiptState> {
        self.0.get(&key).map(|(state, _)| *state)
    }

    pub(super) fn set(&mut self, key: Key, state: ReceiptState, run: RunId) -> Result<(), String> {
        let over = |state| {
            matches!(
                state,
                ReceiptState::Ended | ReceiptState::Cancelled | ReceiptState::Dropped | ReceiptState::Refused
            )
        };
        let Some(leg) = self.0.get_mut(&key) else { return Err(format!("nobody accepted {key:?}")) };
        if over(leg.0) {
            return Err(format!("{key:?} was {:?} and is {state:?} now: a leg ends once", leg.0));
        }
        *leg = (state, run);
        // A steer that went together with the followup of its own message ends with it.
        let own = (key.0, true);
        if !key.1 && over(state) && self.0.get(&own) == Some(&(ReceiptState::Merged, key.0.into())) {
            self.0.insert(own, (state, run));
        }
        Ok(())
    }

    /// Compares the outcome of each leg with the session's receipts.
    pub(super) fn compare(&self, messages: &BTreeMap<MessageId, Message>) -> Result<(), String> {
        let legs = |(id, message): (&MessageId, &Message)| {
            let steer = message.steer.map(|steer| ((*id, true), (steer.state, steer.run)));
            std::iter::once(((*id, false), (message.state, message.run))).chain(steer)
        };
        let theirs = messages.iter().flat_map(legs);
        let ours = self.0.iter().map(|(key, leg)| (*key, *leg));
        if theirs.clone().eq(ours.clone()) {
            return Ok(());
        }
        let (is, expected): (Vec<_>, Vec<_>) = (theirs.collect(), ours.collect());
        let at = is.iter().zip(&expected).position(|(is, expected)| is != expected).unwrap_or_default();
        Err(format!("the receipts: is {:?}, should be {:?}", is.get(at), expected.get(at)))
    }

    /// The legs that have no outcome yet.
    pub(super) fn open(&self) -> Vec<Key> {
        let over = [ReceiptState::Ended, ReceiptState::Cancelled, ReceiptState::Dropped];
        self.0.iter().filter(|(_, (state, _))| !over.contains(state)).map(|(key, _)| *key).collect()
    }
}
