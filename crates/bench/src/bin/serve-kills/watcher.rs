//! A reader of the events of all sessions, each by itself or as the whole home; it resumes from its last position.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::method::{EventsSubscribe, SubscribeParams};
use protocol::{Client, Event, Events};

use super::connector::{Connector, ask_again};
use super::seen::Seen;

/// What it has read, shared with the code that waits for it.
pub(super) type Shared = Arc<Mutex<Seen>>;

/// A client that reads events.
pub(super) struct Watcher {
    pub(super) connector: Connector,
    pub(super) seen: Shared,
    /// Each session, with the cursor of its last line; only [`HOME`] for all of them at once.
    pub(super) sessions: BTreeMap<String, Option<String>>,
}

/// Stands for the whole home.
pub(super) const HOME: &str = "";

impl Watcher {
    /// Reads until it is dropped.
    pub(super) async fn work(mut self) {
        loop {
            let (client, events) = self.connector.connect().await;
            match self.subscribe(&client).await {
                Ok(true) => self.read(events).await,
                Ok(false) => {}
                Err(violation) => return self.violate(violation),
            }
        }
    }

    /// Subscribes to every session. Returns false if the owner went away meanwhile.
    async fn subscribe(&self, client: &Client) -> Result<bool, String> {
        for (session, cursor) in &self.sessions {
            let params = SubscribeParams {
                session: (session != HOME).then(|| session.clone()),
                run: None,
                from: cursor.clone(),
                whole: cursor.is_none(),
                chat: false,
            };
            if let Err(error) = client.call::<EventsSubscribe>(params).await {
                ask_again(&error)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn read(&mut self, mut events: Events) {
        while let Some(frame) = events.recv().await {
            if frame.event != protocol::event::AGENT_EVENT {
                continue;
            }
            let event: Event = match serde_json::from_value(frame.payload) {
                Ok(event) => event,
                Err(error) => return self.violate(format!("an event does not read: {error}")),
            };
            let subscription = if self.sessions.contains_key(HOME) { HOME } else { &event.session };
            self.sessions.insert(subscription.to_owned(), Some(event.cursor.clone()));
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.take((subscription, frame.seq.unwrap_or_default()), &event);
        }
    }

    fn violate(&self, violation: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).violations.push(violation);
    }
}
