//! The queue to the writer: a thread of its own, or the calling thread itself.

use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use engine::{Epoch, Hash, Position};
use rusqlite::Connection;

use super::checkpoint::Wal;
use super::collect::Collectable;
use super::failed;
use super::group::{Quiet, WriterState};
use super::home::Owned;
use super::snapshot::Packed;
use super::space::Space;
use crate::{Append, Done, Error};

/// The callback of a job; it gets [`Error::Gone`] if this is dropped before it was called, so that nobody waits for a
/// writer that panicked.
pub(super) struct CommitReply(Option<Done>);

impl CommitReply {
    pub(super) fn new(done: Done) -> Self {
        Self(Some(done))
    }

    /// For a job that needs no reply.
    pub(super) fn to_nobody() -> Self {
        Self(None)
    }

    pub(super) fn give(mut self, answer: Result<Position, Error>) {
        if let Some(done) = self.0.take() {
            done(answer);
        }
    }
}

impl Drop for CommitReply {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Error::Gone));
        }
    }
}

impl fmt::Debug for CommitReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitReply")
    }
}

/// What the writer writes.
#[derive(Debug)]
pub(super) enum Work {
    Append(Append),
    /// A snapshot; it is queued behind the append that it covers.
    Snapshot(Packed),
}

impl Work {
    /// The bytes of its bodies, or of the snapshot.
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.batch.bodies.iter().map(|content| content.bytes.len()).sum(),
            Self::Snapshot(snapshot) => snapshot.bytes(),
        }
    }
}

/// A queued job, and whom to notify when it is written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) done: CommitReply,
}

/// Who writes the queued jobs.
#[derive(Debug)]
pub(super) enum Writer {
    /// A thread of its own.
    Thread(Queue),
    /// The thread that queues a job, before it returns; this thread also decides when there is background work.
    Caller(Box<Mutex<WriterState>>),
}

/// Which of them writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// A thread of its own.
    Thread,
    /// The thread that queues a job.
    Caller,
}

/// The queue and its thread. Dropping it writes what is queued, then ends the thread and releases the home.
#[derive(Debug)]
pub(super) struct Queue {
    jobs: Option<Sender<Job>>,
    spent: Spent,
    thread: Option<JoinHandle<()>>,
}

/// A written job with more bytes is freed at once.
const LEFT_BYTES: usize = 64 << 10;

/// Written jobs, to be freed by the threads that made them: a thread that frees what another has allocated takes that
/// one's lock in the allocator, and the two block each other all the time.
#[derive(Debug, Clone, Default)]
pub(super) struct Spent(Arc<Mutex<Vec<Work>>>);

impl Spent {
    /// Leaves jobs to the thread that queues next. Large ones are freed here: nobody may queue for days.
    pub(super) fn leave(&self, mut works: Vec<Work>) {
        works.retain(|work| work.bytes() <= LEFT_BYTES);
        self.lock().append(&mut works);
    }

    fn free(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    pub(super) fn start(mut connection: Connection, home: Owned, start: Start) -> Result<Self, Error> {
        let path = home.database();
        let wal = Wal::watch(&mut connection).map_err(failed(&path))?;
        let pace = start.pace;
        let mut state = WriterState::new(connection, home, wal, start);
        if pace == Pace::Caller {
            return Ok(Self::Caller(Box::new(Mutex::new(state))));
        }
        let (jobs, queued) = channel();
        let spent = Spent::default();
        let left = spent.clone();
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || state.run(&queued, &left));
        let thread = thread.map_err(|error| Error::Failed { path, detail: error.to_string() })?;
        Ok(Self::Thread(Queue { jobs: Some(jobs), spent, thread: Some(thread) }))
    }

    pub(super) fn queue(&self, job: Job) {
        match self {
            Self::Thread(Queue { jobs: Some(jobs), spent, .. }) => {
                spent.free();
                // If the writer is gone, the job comes back; dropping it notifies its caller.
                drop(jobs.send(job));
            }
            Self::Thread(Queue { jobs: None, .. }) => {}
            Self::Caller(state) => drop(lock(state).group().serve(vec![job])),
        }
    }

    /// Does background work if there is no thread that does it.
    pub(super) fn background_work(&self) {
        if let Self::Caller(state) = self {
            lock(state).group().background_work();
        }
    }
}

fn lock(state: &Mutex<WriterState>) -> MutexGuard<'_, WriterState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A callback may hold the last handle: then this is the writer thread itself, which ends by itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = thread {
            // The panic hook has reported a panic, and each caller has its reply.
            let _ = thread.join();
        }
    }
}

/// The initial state of a writer.
pub(super) struct Start {
    pub(super) epoch: Epoch,
    /// The last position, and the chain value of the entry there.
    pub(super) last: (Position, Hash),
    pub(super) space: Space,
    pub(super) quiet: Quiet,
    pub(super) collectable: Collectable,
    pub(super) pace: Pace,
}
