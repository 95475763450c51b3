//! The bounded queue of events that a client received and has not read. If the program reads no events, the client
//! stops reading from the connection, so that the owner detects a slow client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Deserialize as _;
use tokio::sync::{Notify, mpsc};

use crate::error::ErrorShape;
use crate::frame::EventFrame;
use crate::limits::UNREAD_BYTES;
use crate::notice::Notice;

/// The incoming events of a connection. Ends with the connection.
#[derive(Debug)]
pub struct Events {
    frames: mpsc::UnboundedReceiver<(EventFrame, usize)>,
    unread: Arc<Unread>,
}

/// The sending end of the queue.
pub(super) struct Sender {
    frames: mpsc::UnboundedSender<(EventFrame, usize)>,
    unread: Arc<Unread>,
}

/// Accounts for the events that were sent and not read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    bytes: AtomicUsize,
    /// The number of calls that wait for a response. The response may come after events that nobody reads before it
    /// arrives.
    calls: AtomicUsize,
    /// Whether the receiver was dropped.
    closed: AtomicBool,
    changed: Notify,
}

pub(super) fn channel() -> (Sender, Events) {
    let (frames_out, frames) = mpsc::unbounded_channel();
    let unread = Arc::new(Unread::default());
    (Sender { frames: frames_out, unread: Arc::clone(&unread) }, Events { frames, unread })
}

impl Events {
    /// Waits for the next event; none when the connection has ended. Cancel-safe: a dropped future loses no event.
    pub async fn recv(&mut self) -> Option<EventFrame> {
        let (event, bytes) = self.frames.recv().await?;
        Some(self.taken(event, bytes))
    }

    /// The next event, if one has arrived.
    pub fn try_recv(&mut self) -> Result<EventFrame, mpsc::error::TryRecvError> {
        let (event, bytes) = self.frames.try_recv()?;
        Ok(self.taken(event, bytes))
    }

    /// Why the connection was closed, if the first event says so.
    pub(super) fn closed(&mut self) -> Option<ErrorShape> {
        let event = self.try_recv().ok().filter(|event| event.event == <ErrorShape as Notice>::NAME)?;
        ErrorShape::deserialize(event.payload).ok()
    }

    fn taken(&self, event: EventFrame, bytes: usize) -> EventFrame {
        self.unread.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.unread.changed.notify_one();
        event
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.unread.closed.store(true, Ordering::Release);
        self.unread.changed.notify_one();
    }
}

impl Sender {
    pub(super) fn unread(&self) -> Arc<Unread> {
        Arc::clone(&self.unread)
    }

    /// Adds an event, then waits until the unread events are within the bound.
    pub(super) async fn send(&self, event: EventFrame, bytes: usize) {
        self.unread.bytes.fetch_add(bytes, Ordering::AcqRel);
        // A client that reads no events has dropped the receiver.
        let _ = self.frames.send((event, bytes));
        while self.unread.is_too_much() {
            self.unread.changed.notified().await;
        }
    }
}

impl Unread {
    fn is_too_much(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > UNREAD_BYTES
            && self.calls.load(Ordering::Acquire) == 0
            && !self.closed.load(Ordering::Acquire)
    }
}

/// A call that waits for its response; counted in [`Unread::calls`] while it exists.
pub(super) struct Calling<'a>(&'a Unread);

impl<'a> Calling<'a> {
    pub(super) fn new(unread: &'a Unread) -> Self {
        unread.calls.fetch_add(1, Ordering::AcqRel);
        unread.changed.notify_one();
        Self(unread)
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `count` events, each with a quarter of the bytes that may be unread.
    async fn put(sender: &Arc<Sender>, count: usize) -> tokio::task::JoinHandle<()> {
        let sender = Arc::clone(sender);
        let putting = tokio::spawn(async move {
            for seq in 0..count {
                let event = EventFrame {
                    event: "agent".to_owned(),
                    payload: serde_json::Value::Null,
                    seq: Some(seq as u64),
                    subscription: None,
                };
                sender.send(event, UNREAD_BYTES / 4).await;
            }
        });
        // There is one thread, so the task has now sent all that fits.
        tokio::task::yield_now().await;
        putting
    }

    #[tokio::test]
    async fn r43_a_client_that_reads_no_events_stops_reading_the_connection_and_still_gets_responses() {
        let (sender, mut events) = channel();
        let (sender, unread) = (Arc::new(sender), Arc::clone(&events.unread));
        let putting = put(&sender, 20).await;
        assert_eq!(unread.bytes.load(Ordering::Acquire), UNREAD_BYTES / 4 * 5, "it stops behind the bound");
        // A response may come after all of them.
        let calling = Calling::new(&unread);
        tokio::task::yield_now().await;
        assert!(putting.is_finished());
        drop(calling);
        for seq in 0..20 {
            assert_eq!(events.recv().await.and_then(|event| event.seq), Some(seq));
        }
        assert_eq!(unread.bytes.load(Ordering::Acquire), 0);
        let putting = put(&sender, 20).await;
        assert!(!putting.is_finished());
        drop(events);
        putting.await.unwrap();
    }
}
