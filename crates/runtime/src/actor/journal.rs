//! The journal side of an actor: what it appends, and how the journal's answers reach it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Batch, Do, Epoch, Position, Session};
use journal::{Append, Journal, Unsaved};
use tokio::sync::mpsc;

use super::{Actor, Exit};
use crate::crashpoint;

/// The result of an append.
type Commit = Result<Position, Box<journal::Error>>;

/// The result of an append, and the actor that waits for it.
type CommitNotice = (mpsc::UnboundedSender<Commit>, Commit);

/// Notices that are delivered at once.
const ROUND: usize = 256;

/// Relays the journal's answers to the actors. The journal answers a whole group at once from its own thread; the relay
/// wakes this thread once, where a notice to each actor would wake it once each.
pub(crate) struct CommitRelay {
    sender: mpsc::UnboundedSender<CommitNotice>,
    /// The queue to deliver from, until the first actor starts the relay.
    notices: Mutex<Option<mpsc::UnboundedReceiver<CommitNotice>>>,
}

impl CommitRelay {
    pub(crate) fn new() -> Self {
        let (sender, notices) = mpsc::unbounded_channel();
        Self { sender, notices: Mutex::new(Some(notices)) }
    }

    /// Delivers until all senders are gone.
    pub(crate) fn start(&self) {
        let Some(mut notices) = self.notices.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        tokio::spawn(async move {
            let mut round = Vec::new();
            while notices.recv_many(&mut round, ROUND).await > 0 {
                for (actor, commit) in round.drain(..) {
                    // An actor that is gone needs no answer.
                    let _ = actor.send(commit);
                }
            }
        });
    }
}

/// The journal state of an actor.
pub(super) struct JournalSide {
    pub(super) epoch: Epoch,
    /// Whether the opening is in the journal.
    pub(super) is_opened: bool,
    /// The time of the last commit.
    pub(super) position: Position,
    pub(super) unsaved: Unsaved,
    /// How long the last append took.
    pub(super) commit_time: Duration,
    /// The beginning of the append in flight.
    appended: Instant,
    commits: (mpsc::UnboundedSender<Commit>, mpsc::UnboundedReceiver<Commit>),
}

impl JournalSide {
    pub(super) fn new(epoch: Epoch, unsaved: Unsaved) -> Self {
        Self {
            epoch,
            is_opened: false,
            position: Position(0),
            unsaved,
            commit_time: Duration::ZERO,
            appended: Instant::now(),
            commits: mpsc::unbounded_channel(),
        }
    }

    pub(super) fn append(&mut self, journal: &dyn Journal, relay: &CommitRelay, batch: Arc<Batch>) {
        self.appended = Instant::now();
        let (actor, relay) = (self.commits.0.clone(), relay.sender.clone());
        let done = move |commit: Result<_, _>| drop(relay.send((actor, commit.map_err(Box::new))));
        journal.append(Append { batch, epoch: self.epoch }, Box::new(done));
    }

    /// Takes in the result of the append in flight.
    pub(super) async fn commit(&mut self) -> Option<Commit> {
        self.commits.1.recv().await
    }

    /// Saves a snapshot when that pays off.
    pub(super) fn keep_snapshot(&mut self, journal: &dyn Journal, session: &Session) {
        if let Some(snapshot) = self.unsaved.take_due(session) {
            journal.keep_snapshot(snapshot);
        }
    }
}

impl Actor<'_> {
    pub(super) fn committed(&mut self, commit: Commit) -> Result<(), Exit> {
        match commit {
            Ok(position) => {
                self.journal.position = position;
                self.journal.commit_time = self.journal.appended.elapsed();
                if !std::mem::replace(&mut self.journal.is_opened, true) {
                    crashpoint::hit("opening");
                    self.shared.clear_disk_full(self.pump.session().map_or("", |session| &session.account.key));
                }
                crashpoint::hit("recorded");
                self.pump.committed(self.shared.clock.now());
                Ok(())
            }
            Err(error) => Err(self.failed(*error)),
        }
    }

    fn failed(&mut self, error: journal::Error) -> Exit {
        let is_full = matches!(error, journal::Error::Full { .. });
        if let Some(session) = self.pump.session().filter(|_| is_full) {
            // The subscribers are notified before the callers, so that they know the reason.
            self.shared.record_disk_full(&session.account.key, &error, self.shared.clock.now());
        }
        self.pump.failed(&error.to_string());
        while let Some(todo) = self.pump.poll() {
            if let Do::Answer(caller, answer) = todo {
                let _ = caller.send(answer);
            }
        }
        let run = self.pump.session().and_then(Session::run).map(|run| run.id);
        if is_full { Exit::Full(error, run) } else { Exit::Store(error) }
    }
}
