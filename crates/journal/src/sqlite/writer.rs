//! Group commit: the one thread that writes. What may not live here: what an append writes (`member`).
//!
//! A group is what is queued, without waiting for more. Its strength is its strongest member's, set before `BEGIN`, since
//! `synchronous` cannot change inside a transaction.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use engine::{Durability, Epoch, Hash, Position};
use rusqlite::Connection;

use super::encode::Encoded;
use super::failed;
use super::home::Owned;
use super::member::{self, Ends, Fault};
use crate::{Done, Error};

/// Members of one group at most, so that the first is not kept waiting by those who queue behind it.
const GROUP: usize = 4096;

/// Whom to tell; told [`Error::Gone`] if it is dropped untold, so that nobody waits for a writer that panicked.
pub(super) struct Answer(Option<Done>);

impl Answer {
    pub(super) fn new(done: Done) -> Self {
        Self(Some(done))
    }

    pub(super) fn give(mut self, answer: Result<Position, Error>) {
        if let Some(done) = self.0.take() {
            done(answer);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Error::Gone));
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// An append on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) encoded: Encoded,
    pub(super) done: Answer,
}

/// The queue and the thread behind it. Dropping it writes what is queued, then ends the thread and gives up the home.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        home: Owned,
        epoch: Epoch,
        last: (Position, Hash),
    ) -> Result<Self, Error> {
        let path = home.database();
        let (queue, jobs) = channel();
        let mut group = Group { connection, home, epoch, ends: Ends::new(last), strength: None, poisoned: None };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || group.run(&jobs));
        let thread = thread.map_err(|error| Error::Failed { path, detail: error.to_string() })?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn queue(&self, job: Job) {
        if let Some(queue) = &self.queue {
            // A writer that is gone gives the job back; dropping it tells its caller.
            drop(queue.send(job));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // An answer may hold the last handle: then this is the thread itself, which ends by itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = thread {
            // Of a panic its hook has told, and each caller has been told by its answer.
            let _ = thread.join();
        }
    }
}

/// What the thread holds. The connection closes before the home is given up.
struct Group {
    connection: Connection,
    home: Owned,
    epoch: Epoch,
    ends: Ends,
    /// What `synchronous` is set to.
    strength: Option<Durability>,
    /// Why nothing more is acknowledged.
    poisoned: Option<String>,
}

impl Group {
    fn run(&mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let group: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect();
            let (encoded, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|job| (job.encoded, job.done)).unzip();
            let results = self.commit(&encoded);
            for (answer, result) in answers.into_iter().zip(results) {
                answer.give(result);
            }
        }
    }

    /// What became of each member.
    fn commit(&mut self, members: &[Encoded]) -> Vec<Result<Position, Error>> {
        if let Some(cause) = &self.poisoned {
            return members.iter().map(|_| Err(Error::Poisoned { cause: cause.clone() })).collect();
        }
        let strength = members.iter().map(|m| m.append.batch.durability()).max().unwrap_or(Durability::Written);
        match self.transaction(members, strength) {
            Ok(results) => {
                self.ends.keep();
                results
            }
            Err(error) => {
                self.ends.back_to(0);
                if !self.connection.is_autocommit() {
                    // Nothing of it may be committed by a later group; there is none, whatever this says.
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                self.poisoned = Some(error.to_string());
                members.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// An error here is the whole group's.
    fn transaction(
        &mut self,
        members: &[Encoded],
        strength: Durability,
    ) -> Result<Vec<Result<Position, Error>>, Error> {
        self.set_strength(strength)?;
        self.execute("BEGIN IMMEDIATE")?;
        self.check_owner()?;
        let results = members.iter().map(|member| self.member(member)).collect::<Result<Vec<_>, Error>>()?;
        self.execute("COMMIT")?;
        if strength == Durability::Synced {
            let (position, chain) = self.ends.last;
            self.home.set_mark(position, chain)?;
        }
        Ok(results)
    }

    /// One member in its savepoint: the outer error is the group's, the inner one its own.
    fn member(&mut self, encoded: &Encoded) -> Result<Result<Position, Error>, Error> {
        let epoch = encoded.append.epoch;
        if epoch != self.epoch {
            return Ok(Err(Error::Fenced { epoch, owner: self.epoch }));
        }
        let mark = self.ends.mark();
        self.execute("SAVEPOINT member")?;
        let error = match member::write(&self.connection, &mut self.ends, encoded) {
            Ok(position) => {
                self.execute("RELEASE member")?;
                return Ok(Ok(position));
            }
            Err(Fault::Rule(error)) => error,
            Err(Fault::Sqlite(error)) => failed(&self.home.database())(error),
        };
        // A full disk, an I/O error or no memory may have rolled back the whole transaction.
        if !error.is_refusal() || self.connection.is_autocommit() {
            return Err(error);
        }
        self.execute("ROLLBACK TO member")?;
        self.execute("RELEASE member")?;
        self.ends.back_to(mark);
        Ok(Err(error))
    }

    fn check_owner(&self) -> Result<(), Error> {
        let epoch = self
            .connection
            .prepare_cached("SELECT epoch FROM owner")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
            .map_err(failed(&self.home.database()))?;
        let owner = Epoch(epoch as u64);
        if owner == self.epoch { Ok(()) } else { Err(Error::Fenced { epoch: self.epoch, owner }) }
    }

    fn set_strength(&mut self, strength: Durability) -> Result<(), Error> {
        if self.strength == Some(strength) {
            return Ok(());
        }
        let sql = match strength {
            Durability::Written => "PRAGMA synchronous = NORMAL",
            Durability::Synced => "PRAGMA synchronous = FULL",
        };
        self.connection.execute_batch(sql).map_err(failed(&self.home.database()))?;
        self.strength = Some(strength);
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), Error> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(|_| ()).map_err(failed(&self.home.database()))
    }
}
