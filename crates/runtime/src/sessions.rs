//! The sessions that have an actor, and the way to each actor. Senders and ending actors take the same lock, so that
//! nothing is lost between an actor that ends and its successor.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{Command, Input, Report};
use tokio::sync::{mpsc, watch};

use crate::actor::{Mailboxes, Offer};
use crate::runtime::Error;

/// Reports that may wait in a session's mailbox before their senders wait.
const MAILBOX: usize = 256;

/// The phases of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The runtime is not shutting down.
    No,
    /// A session with a running request may finish it; the others are closed.
    Draining,
}

/// The sessions that have an actor.
#[derive(Debug)]
pub(crate) struct Sessions {
    open: Mutex<Open>,
    count: watch::Sender<usize>,
    leaving: watch::Sender<Leaving>,
}

#[derive(Debug, Default)]
struct Open {
    slots: BTreeMap<String, Slot>,
    last: u64,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    control: mpsc::UnboundedSender<Offer>,
    reading: Reading,
}

/// Whether a session was read from its journal, once that is known.
pub(crate) type Reading = watch::Receiver<Option<Result<(), Error>>>;

/// An actor's slot in the table. Dropping it frees the slot, whatever ended the actor.
pub(crate) struct Present<'a> {
    sessions: &'a Sessions,
    key: &'a str,
    number: u64,
}

/// The start values of a new actor.
pub(crate) struct New {
    pub(crate) number: u64,
    pub(crate) mail: Mailboxes,
    pub(crate) read: watch::Sender<Option<Result<(), Error>>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { open: Mutex::default(), count: watch::Sender::new(0), leaving: watch::Sender::new(Leaving::No) }
    }
}

impl Sessions {
    /// Sends these to the session's actor. Without an actor, they are put into the mailboxes of a new one.
    pub(crate) fn send(&self, key: &str, offers: Vec<Offer>) -> Result<(Reading, Option<New>), Error> {
        let mut open = self.lock();
        let leaving = *self.leaving.borrow() != Leaving::No;
        if leaving && (!open.slots.contains_key(key) || !offers.iter().all(|offer| is_let_through(&offer.input))) {
            return Err(Error::Leaving);
        }
        if let Some(slot) = open.slots.get(key) {
            for offer in offers {
                // If the actor ended meanwhile, it drops the caller, which is notified by that.
                let _ = slot.control.send(offer);
            }
            return Ok((slot.reading.clone(), None));
        }
        open.last += 1;
        let number = open.last;
        let (control, control_in) = mpsc::unbounded_channel();
        let (data, data_in) = mpsc::channel(MAILBOX);
        let (read, reading) = watch::channel(None);
        for offer in offers {
            let _ = control.send(offer);
        }
        open.slots.insert(key.to_owned(), Slot { number, control, reading: reading.clone() });
        self.count.send_replace(open.slots.len());
        let mail = Mailboxes { control: control_in, data: data_in, reports: data };
        Ok((reading, Some(New { number, mail, read })))
    }

    /// The slot of an actor that runs now.
    pub(crate) fn present<'a>(&'a self, key: &'a str, number: u64) -> Present<'a> {
        Present { sessions: self, key, number }
    }

    /// The number of sessions with an actor.
    pub(crate) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// The current phase of the shutdown.
    pub(crate) fn leaving(&self) -> watch::Receiver<Leaving> {
        self.leaving.subscribe()
    }

    /// Opens no further session and accepts nothing new in open ones. They close as soon as no request of theirs is
    /// running.
    pub(crate) fn drain(&self) {
        let _open = self.lock();
        self.leaving.send_replace(Leaving::Draining);
    }

    /// Closes the remaining sessions.
    pub(crate) fn close(&self) {
        for slot in self.lock().slots.values() {
            let _ = slot.control.send(Offer::report(Report::Closing));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present<'_> {
    /// The key of its session.
    pub(crate) fn key(&self) -> &str {
        self.key
    }

    /// Frees the slot if nothing was sent that the actor has not taken.
    pub(crate) fn leave(&self, control: &mpsc::UnboundedReceiver<Offer>) -> bool {
        let mut open = self.sessions.lock();
        let leaves = control.is_empty();
        if leaves {
            self.remove(&mut open);
        }
        leaves
    }

    fn remove(&self, open: &mut Open) {
        if open.slots.get(self.key).is_some_and(|slot| slot.number == self.number) {
            open.slots.remove(self.key);
            self.sessions.count.send_replace(open.slots.len());
        }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.remove(&mut self.sessions.lock());
    }
}

/// The commands that still reach a session during a shutdown: those that end something, and answers to open requests.
fn is_let_through(input: &Input) -> bool {
    matches!(
        input,
        Input::Command(
            Command::Abort { .. }
                | Command::Cancel { .. }
                | Command::Answer { .. }
                | Command::RefuseAnswer { .. }
                | Command::Pause { .. }
        ) | Input::Report(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abort() -> Vec<Offer> {
        vec![Offer::command(Command::Abort { run: None }, None)]
    }

    #[test]
    fn r20_no_actor_ends_with_a_full_mailbox_and_nothing_is_sent_to_an_ended_one() {
        let sessions = Sessions::default();
        let (_, first) = sessions.send("a", abort()).unwrap();
        let mut first = first.expect("there was no actor");
        let present = sessions.present("a", first.number);
        assert!(!present.leave(&first.mail.control), "the first command is not taken yet");
        assert!(first.mail.control.try_recv().is_ok());
        assert!(sessions.send("a", abort()).unwrap().1.is_none(), "it is still there");
        assert!(!present.leave(&first.mail.control));
        assert!(first.mail.control.try_recv().is_ok());
        assert!(present.leave(&first.mail.control));
        let second = sessions.send("a", abort()).unwrap().1.expect("the first has left");
        drop(present);
        assert_eq!(*sessions.count().borrow(), 1, "the slot belongs to the second one");
        assert_eq!((first.mail.control.len(), second.mail.control.len()), (0, 1));
        drop(sessions.present("a", second.number));
        assert_eq!(*sessions.count().borrow(), 0);
    }

    #[test]
    fn r15_a_closing_session_accepts_only_what_ends_something() {
        let sessions = Sessions::default();
        let there = sessions.send("a", vec![]).unwrap();
        sessions.drain();
        let compact = || vec![Offer::command(Command::Rewind, None)];
        assert!(matches!(sessions.send("a", compact()), Err(Error::Leaving)));
        assert!(matches!(sessions.send("b", abort()), Err(Error::Leaving)));
        assert!(sessions.send("a", abort()).is_ok());
        drop(there);
    }
}
