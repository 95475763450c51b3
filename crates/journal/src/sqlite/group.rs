//! Group commit: `member` writes one append, `writer` calls this module.
//!
//! A group is everything that is queued, without waiting for more. Its durability is that of its strictest member; it
//! is set before `BEGIN`, because `synchronous` cannot change inside a transaction.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use engine::mutant;
use engine::{Durability, Epoch, Position};
use rusqlite::Connection;

use super::checkpoint::{CheckpointMode, Wal};
use super::collect::{Collectable, Collection};
use super::encode::Encoded;
use super::failed;
use super::home::Owned;
use super::member::{self, Ends, Fault};
use super::snapshot::Packed;
use super::space::Space;
use super::statements::Statements;
use super::writer::{Job, Spent, Start, Work};
use crate::Error;

/// Most members of a group, so that the first does not wait for everyone who queues behind it.
const GROUP: usize = 4096;

/// How long the queue must be empty before the writer does background work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quiet {
    pub(super) soon: Duration,
    /// Before more expensive work.
    pub(super) later: Duration,
    /// Before work that reads everything, once per owner.
    pub(super) long: Duration,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { soon: Duration::from_millis(200), later: Duration::from_secs(5), long: Duration::from_mins(10) }
    }
}

/// A member of a group, ready to be bound.
#[derive(Debug)]
enum Member {
    Append(Encoded),
    Snapshot(Packed),
}

impl Member {
    fn of(work: Work) -> Self {
        match work {
            Work::Append(append) => Self::Append(Encoded::new(append)),
            Work::Snapshot(packed) => Self::Snapshot(packed),
        }
    }

    /// What another thread has allocated.
    fn into_work(self) -> Work {
        match self {
            Self::Append(encoded) => Work::Append(encoded.append),
            Self::Snapshot(packed) => Work::Snapshot(packed),
        }
    }

    fn strength(&self) -> Durability {
        match self {
            Self::Append(encoded) => encoded.append.batch.durability(),
            Self::Snapshot(_) => Durability::Written,
        }
    }
}

/// The background work that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Background {
    /// Checkpoint the WAL into the database.
    Checkpoint,
    /// Truncate the WAL to zero bytes.
    Empty,
    /// Collect what nothing names, if this owner has not done that yet.
    Collect,
    /// Nothing: the thread sleeps until a job comes.
    Done,
}

/// The state of the writer. The connection closes before the home is released.
#[derive(Debug)]
pub(super) struct WriterState {
    connection: Connection,
    state: State,
}

impl WriterState {
    pub(super) fn new(connection: Connection, home: Owned, wal: Wal, start: Start) -> Self {
        let Start { epoch, last, space, quiet, collectable, pace: _ } = start;
        let state = State {
            home,
            epoch,
            ends: Ends::new(last),
            space,
            wal,
            quiet,
            background: Background::Done,
            collectable: Some(collectable),
            collection: None,
            strength: None,
            poisoned: None,
        };
        Self { connection, state }
    }

    /// Writes what is queued until the queue is closed.
    pub(super) fn run(&mut self, jobs: &Receiver<Job>, spent: &Spent) {
        let Self { connection, state } = self;
        Group { statements: Statements::keep(connection), state }.run(jobs, spent);
    }

    /// Prepares one group: the statements stay with the connection.
    pub(super) fn group(&mut self) -> Group<'_> {
        Group { statements: Statements::lend(&self.connection), state: &mut self.state }
    }
}

/// The state that is kept between two groups.
#[derive(Debug)]
struct State {
    home: Owned,
    epoch: Epoch,
    ends: Ends,
    space: Space,
    wal: Wal,
    quiet: Quiet,
    background: Background,
    /// What may be collected; `None` once that is done.
    collectable: Option<Collectable>,
    collection: Option<Collection>,
    /// The current value of `synchronous`.
    strength: Option<Durability>,
    /// Why nothing more is acknowledged; `None` while the journal is healthy.
    poisoned: Option<String>,
}

/// Writes one group after another.
pub(super) struct Group<'a> {
    statements: Statements<'a>,
    state: &'a mut State,
}

impl Group<'_> {
    fn run(&mut self, jobs: &Receiver<Job>, spent: &Spent) {
        while let Some(first) = self.next(jobs) {
            // A thread that is about to queue and waits for this processor goes first: a larger group costs hardly
            // more.
            thread::yield_now();
            spent.leave(self.serve(std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect()));
        }
    }

    /// Writes a group, notifies its callers, and checkpoints the WAL if it is long; returns what was written.
    pub(super) fn serve(&mut self, group: Vec<Job>) -> Vec<Work> {
        let (members, answers): (Vec<_>, Vec<_>) =
            group.into_iter().map(|job| (Member::of(job.work), job.done)).unzip();
        let results = self.commit(&members);
        for (answer, result) in answers.into_iter().zip(results) {
            answer.give(result);
        }
        self.state.background = Background::Checkpoint;
        if self.state.wal.is_long() {
            self.checkpoint(CheckpointMode::Passive);
        }
        members.into_iter().map(Member::into_work).collect()
    }

    /// Waits for a job and does background work meanwhile. `None` once the queue is closed.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        loop {
            let quiet = match self.state.background {
                Background::Checkpoint => self.state.quiet.soon,
                Background::Empty => self.state.quiet.later,
                Background::Collect if self.state.collection.is_some() => Duration::ZERO,
                Background::Collect => self.state.quiet.long,
                Background::Done => return jobs.recv().ok(),
            };
            match jobs.recv_timeout(quiet) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.background_work(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    pub(super) fn background_work(&mut self) {
        self.state.background = match self.state.background {
            Background::Checkpoint => {
                if self.state.wal.is_worth() {
                    self.checkpoint(CheckpointMode::Passive);
                }
                Background::Empty
            }
            Background::Empty => {
                self.checkpoint(CheckpointMode::Empty);
                if self.state.collectable.is_some() || self.state.collection.is_some() {
                    Background::Collect
                } else {
                    Background::Done
                }
            }
            Background::Collect => self.collect(),
            Background::Done => Background::Done,
        };
    }

    /// Does the next piece of the collection. Jobs that come meanwhile go first.
    fn collect(&mut self) -> Background {
        if let Some(collectable) = self.state.collectable.take().filter(|_| self.state.poisoned.is_none()) {
            self.state.collection = Some(Collection::new(&collectable));
        }
        let Some(collection) = &mut self.state.collection else { return Background::Done };
        match collection.step(self.statements.connection(), &self.state.home.database()) {
            Ok(None) => return Background::Collect,
            // If something cannot be read or there is no space, nothing is collected; whoever needs that data gets the
            // error.
            Ok(Some(_)) | Err(Error::Full { .. } | Error::Damaged { .. }) => {}
            Err(error) => self.state.poisoned = Some(error.to_string()),
        }
        self.state.collection = None;
        Background::Checkpoint
    }

    /// A failed checkpoint ends all acknowledging, even if it loses nothing; only after a lack of space everything
    /// stays in the WAL.
    fn checkpoint(&mut self, mode: CheckpointMode) {
        if self.state.poisoned.is_some() {
            return;
        }
        let done =
            self.state.wal.checkpoint(self.statements.connection(), mode).map_err(failed(&self.state.home.database()));
        if let Err(error) = done
            && !matches!(error, Error::Full { .. })
        {
            self.state.poisoned = Some(error.to_string());
        }
    }

    /// Commits a group and returns the result of each member.
    fn commit(&mut self, members: &[Member]) -> Vec<Result<Position, Error>> {
        if let Some(cause) = &self.state.poisoned {
            return members.iter().map(|_| Err(Error::Poisoned { cause: cause.clone() })).collect();
        }
        self.state.space.look();
        let strength = members.iter().map(Member::strength).max().unwrap_or(Durability::Written);
        match self.transaction(members, strength) {
            Ok(results) => {
                self.state.ends.keep();
                results
            }
            Err(error) => {
                self.give_back(&error);
                members.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// Rolls back a group that failed as a whole. A lack of space is the one failure after which the journal stays
    /// usable.
    fn give_back(&mut self, error: &Error) {
        if mutant!(DiskEndsKept) {
            self.state.ends.keep();
        }
        self.state.ends.back_to(0);
        // No later group may commit any part of it.
        let undone = self.statements.connection().is_autocommit()
            || self.statements.connection().execute_batch("ROLLBACK").is_ok();
        if undone && matches!(error, Error::Full { .. }) {
            self.state.space.give_up();
            // After a checkpoint the WAL reuses the blocks that it has.
            self.checkpoint(CheckpointMode::Passive);
        } else if !mutant!(DiskPoisonIgnored) {
            self.state.poisoned = Some(error.to_string());
        }
    }

    /// Writes a group in one transaction. The outer error is that of the whole group.
    fn transaction(&mut self, members: &[Member], strength: Durability) -> Result<Vec<Result<Position, Error>>, Error> {
        self.set_strength(strength)?;
        self.begin()?;
        let results = match self.together(members)? {
            Some(results) => results,
            None => self.apart(members)?,
        };
        if mutant!(DiskMarkLeads) {
            let (position, chain) = self.state.ends.last;
            self.state.home.set_mark(position, chain)?;
        }
        self.execute("COMMIT")?;
        if strength == Durability::Synced {
            let (position, chain) = self.state.ends.last;
            // The group is committed, so an error of the mark must not count as one that can be rolled back.
            self.state.home.set_mark(position, chain)?;
        }
        Ok(results)
    }

    fn begin(&self) -> Result<(), Error> {
        self.execute("BEGIN IMMEDIATE")?;
        self.check_owner()
    }

    /// Writes all members without savepoints, because each savepoint would keep a second copy of every page that it
    /// changes. `None` if a member is refused after it began to write, which is rare.
    fn together(&mut self, members: &[Member]) -> Result<Option<Vec<Result<Position, Error>>>, Error> {
        let mut results = Vec::with_capacity(members.len());
        for member in members {
            results.push(match self.admit(member) {
                Ok(()) => match self.write(member)? {
                    Ok(position) => Ok(position),
                    Err(_) => return Ok(None),
                },
                Err(refused) => Err(refused),
            });
        }
        Ok(Some(results))
    }

    /// Writes the group again from the beginning, each member in a savepoint, so that a refused member can be rolled
    /// back alone.
    fn apart(&mut self, members: &[Member]) -> Result<Vec<Result<Position, Error>>, Error> {
        self.execute("ROLLBACK")?;
        self.state.ends.back_to(0);
        self.begin()?;
        members.iter().map(|member| self.member(member)).collect()
    }

    /// Writes one member in its savepoint: the outer error is the group's, the inner one is its own.
    fn member(&mut self, member: &Member) -> Result<Result<Position, Error>, Error> {
        if let Err(refused) = self.admit(member) {
            return Ok(Err(refused));
        }
        let mark = self.state.ends.mark();
        self.execute("SAVEPOINT member")?;
        let result = self.write(member)?;
        if result.is_err() {
            self.execute("ROLLBACK TO member")?;
            self.state.ends.back_to(mark);
        }
        self.execute("RELEASE member")?;
        Ok(result)
    }

    /// Checks whether a member may begin to write.
    fn admit(&self, member: &Member) -> Result<(), Error> {
        if let Member::Append(Encoded { append, .. }) = member
            && append.epoch != self.state.epoch
        {
            return Err(Error::Fenced { epoch: append.epoch, owner: self.state.epoch });
        }
        let admitted = match member {
            Member::Append(encoded) => self.state.space.admits(&encoded.append.batch),
            Member::Snapshot(_) => !self.state.space.is_tight(),
        };
        if admitted { Ok(()) } else { Err(Error::Full { path: self.state.home.database() }) }
    }

    /// Writes a member; the inner error is its own, and then the transaction is still open.
    fn write(&mut self, member: &Member) -> Result<Result<Position, Error>, Error> {
        let written = match member {
            Member::Append(encoded) => member::write(&self.statements, &mut self.state.ends, encoded),
            Member::Snapshot(packed) => {
                packed.write(&self.statements).map(|()| self.state.ends.last.0).map_err(Fault::Sqlite)
            }
        };
        let error = match written {
            Ok(position) => return Ok(Ok(position)),
            Err(Fault::Rule(error)) => error,
            Err(Fault::Sqlite(error)) => failed(&self.state.home.database())(error),
        };
        // A full disk, an I/O error or a lack of memory may have rolled back the whole transaction.
        if !error.is_refusal() || self.statements.connection().is_autocommit() { Err(error) } else { Ok(Err(error)) }
    }

    fn check_owner(&self) -> Result<(), Error> {
        let epoch = self
            .statements
            .with("SELECT epoch FROM owner", |statement| statement.query_row([], |row| row.get::<_, i64>(0)));
        let epoch = epoch.map_err(failed(&self.state.home.database()))?;
        let owner = Epoch(epoch as u64);
        if owner == self.state.epoch { Ok(()) } else { Err(Error::Fenced { epoch: self.state.epoch, owner }) }
    }

    fn set_strength(&mut self, strength: Durability) -> Result<(), Error> {
        if self.state.strength == Some(strength) {
            return Ok(());
        }
        let sql = match strength {
            _ if mutant!(DiskGroupNotSynced) => "PRAGMA synchronous = NORMAL",
            Durability::Written => "PRAGMA synchronous = NORMAL",
            Durability::Synced => "PRAGMA synchronous = FULL",
        };
        self.statements.connection().execute_batch(sql).map_err(failed(&self.state.home.database()))?;
        self.state.strength = Some(strength);
        Ok(())
    }

    fn execute(&self, sql: &'static str) -> Result<(), Error> {
        self.statements.execute(sql, []).map(|_| ()).map_err(failed(&self.state.home.database()))
    }
}
