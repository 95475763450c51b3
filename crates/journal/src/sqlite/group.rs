//! Group commit. What may not live here: what an append writes (`member`), and who calls (`writer`).
//!
//! A group is what is queued, without waiting for more. Its strength is its strongest member's, set before `BEGIN`, since
//! `synchronous` cannot change inside a transaction.

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
use super::space::Space;
use super::statements::Statements;
use super::writer::{Job, Spent, Start, Work};
use crate::Error;

/// Members of one group at most, so that the first is not kept waiting by those who queue behind it.
const GROUP: usize = 4096;

/// How long nothing must have been asked before a quiet moment is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quiet {
    /// For what costs little.
    pub(super) soon: Duration,
    /// For what costs more.
    pub(super) later: Duration,
    /// For what reads all there is, once in the life of an owner.
    pub(super) long: Duration,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { soon: Duration::from_millis(200), later: Duration::from_secs(5), long: Duration::from_mins(10) }
    }
}

/// What quiet moments are still for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The WAL goes into the database.
    Checkpoint,
    /// The WAL is emptied.
    Empty,
    /// What nothing names is collected, if that was not done yet.
    Collect,
    /// Nothing: the thread sleeps until there is work.
    Done,
}

/// What is written with. The connection closes before the home is given up.
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
            rest: Rest::Done,
            collectable: Some(collectable),
            collection: None,
            strength: None,
            poisoned: None,
        };
        Self { connection, state }
    }

    /// Writes what is queued until there will be no more.
    pub(super) fn run(&mut self, jobs: &Receiver<Job>, spent: &Spent) {
        let Self { connection, state } = self;
        Group { statements: Statements::keep(connection), state }.run(jobs, spent);
    }

    /// For one group: the statements stay with the connection.
    pub(super) fn group(&mut self) -> Group<'_> {
        Group { statements: Statements::lend(&self.connection), state: &mut self.state }
    }
}

/// What is known between two groups.
#[derive(Debug)]
struct State {
    home: Owned,
    epoch: Epoch,
    ends: Ends,
    space: Space,
    wal: Wal,
    quiet: Quiet,
    rest: Rest,
    /// Until it was collected.
    collectable: Option<Collectable>,
    collection: Option<Collection>,
    /// What `synchronous` is set to.
    strength: Option<Durability>,
    /// Why nothing more is acknowledged.
    poisoned: Option<String>,
}

/// Writes a group after another.
pub(super) struct Group<'a> {
    statements: Statements<'a>,
    state: &'a mut State,
}

impl Group<'_> {
    fn run(&mut self, jobs: &Receiver<Job>, spent: &Spent) {
        while let Some(first) = self.next(jobs) {
            // Who is about to queue goes first, if it waits for this processor: a group of more costs hardly more.
            thread::yield_now();
            spent.leave(self.serve(std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect()));
        }
    }

    /// Writes a group, tells its callers, and sees to the WAL; gives back what was written.
    pub(super) fn serve(&mut self, group: Vec<Job>) -> Vec<Work> {
        let (works, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|job| (job.work, job.done)).unzip();
        let results = self.commit(&works);
        for (answer, result) in answers.into_iter().zip(results) {
            answer.give(result);
        }
        self.state.rest = Rest::Checkpoint;
        if self.state.wal.is_long() {
            self.checkpoint(CheckpointMode::Passive);
        }
        works
    }

    /// Waits for work; what is quiet meanwhile is used. None when there will be no more.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        loop {
            let quiet = match self.state.rest {
                Rest::Checkpoint => self.state.quiet.soon,
                Rest::Empty => self.state.quiet.later,
                Rest::Collect if self.state.collection.is_some() => Duration::ZERO,
                Rest::Collect => self.state.quiet.long,
                Rest::Done => return jobs.recv().ok(),
            };
            match jobs.recv_timeout(quiet) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    pub(super) fn rest(&mut self) {
        self.state.rest = match self.state.rest {
            Rest::Checkpoint => {
                if self.state.wal.is_worth() {
                    self.checkpoint(CheckpointMode::Passive);
                }
                Rest::Empty
            }
            Rest::Empty => {
                self.checkpoint(CheckpointMode::Empty);
                if self.state.collectable.is_some() || self.state.collection.is_some() {
                    Rest::Collect
                } else {
                    Rest::Done
                }
            }
            Rest::Collect => self.collect(),
            Rest::Done => Rest::Done,
        };
    }

    /// The next piece of the collection. What comes in between goes first.
    fn collect(&mut self) -> Rest {
        if let Some(collectable) = self.state.collectable.take().filter(|_| self.state.poisoned.is_none()) {
            self.state.collection = Some(Collection::new(&collectable));
        }
        let Some(collection) = &mut self.state.collection else { return Rest::Done };
        match collection.step(self.statements.connection(), &self.state.home.database()) {
            Ok(None) => return Rest::Collect,
            // What cannot be read, or has no space, is not collected; whoever needs it says so.
            Ok(Some(_)) | Err(Error::Full { .. } | Error::Damaged { .. }) => {}
            Err(error) => self.state.poisoned = Some(error.to_string()),
        }
        self.state.collection = None;
        Rest::Checkpoint
    }

    /// A failed write is one also where it loses nothing, but for space: then all stays in the WAL.
    fn checkpoint(&mut self, reach: CheckpointMode) {
        if self.state.poisoned.is_some() {
            return;
        }
        let done =
            self.state.wal.checkpoint(self.statements.connection(), reach).map_err(failed(&self.state.home.database()));
        if let Err(error) = done
            && !matches!(error, Error::Full { .. })
        {
            self.state.poisoned = Some(error.to_string());
        }
    }

    /// What became of each member.
    fn commit(&mut self, members: &[Work]) -> Vec<Result<Position, Error>> {
        if let Some(cause) = &self.state.poisoned {
            return members.iter().map(|_| Err(Error::Poisoned { cause: cause.clone() })).collect();
        }
        self.state.space.look();
        let strength = members.iter().map(Work::strength).max().unwrap_or(Durability::Written);
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

    /// Takes a group back that failed as a whole. No space is the one failure that all goes on after.
    fn give_back(&mut self, error: &Error) {
        if mutant!(DiskEndsKept) {
            self.state.ends.keep();
        }
        self.state.ends.back_to(0);
        // Nothing of it may be committed by a later group.
        let undone = self.statements.connection().is_autocommit()
            || self.statements.connection().execute_batch("ROLLBACK").is_ok();
        if undone && matches!(error, Error::Full { .. }) {
            self.state.space.give_up();
            // The blocks that the WAL has serve again once it begins anew.
            self.checkpoint(CheckpointMode::Passive);
        } else if !mutant!(DiskPoisonIgnored) {
            self.state.poisoned = Some(error.to_string());
        }
    }

    /// An error here is the whole group's.
    fn transaction(&mut self, members: &[Work], strength: Durability) -> Result<Vec<Result<Position, Error>>, Error> {
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
            // The group is committed, so that no error of the mark may pass for one that can be taken back.
            self.state.home.set_mark(position, chain)?;
        }
        Ok(results)
    }

    fn begin(&self) -> Result<(), Error> {
        self.execute("BEGIN IMMEDIATE")?;
        self.check_owner()
    }

    /// All members without savepoints, of which each would keep every page that it changes a second time. None if one is
    /// refused once it has begun to write: hardly ever.
    fn together(&mut self, members: &[Work]) -> Result<Option<Vec<Result<Position, Error>>>, Error> {
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

    /// From the beginning, each member in a savepoint, so that what a refused one has written can be taken back alone.
    fn apart(&mut self, members: &[Work]) -> Result<Vec<Result<Position, Error>>, Error> {
        self.execute("ROLLBACK")?;
        self.state.ends.back_to(0);
        self.begin()?;
        members.iter().map(|member| self.member(member)).collect()
    }

    /// One member in its savepoint: the outer error is the group's, the inner one its own.
    fn member(&mut self, work: &Work) -> Result<Result<Position, Error>, Error> {
        if let Err(refused) = self.admit(work) {
            return Ok(Err(refused));
        }
        let mark = self.state.ends.mark();
        self.execute("SAVEPOINT member")?;
        let result = self.write(work)?;
        if result.is_err() {
            self.execute("ROLLBACK TO member")?;
            self.state.ends.back_to(mark);
        }
        self.execute("RELEASE member")?;
        Ok(result)
    }

    /// Whether a member may begin to write.
    fn admit(&self, work: &Work) -> Result<(), Error> {
        if let Work::Append(Encoded { append, .. }) = work
            && append.epoch != self.state.epoch
        {
            return Err(Error::Fenced { epoch: append.epoch, owner: self.state.epoch });
        }
        let admitted = match work {
            Work::Append(encoded) => self.state.space.admits(&encoded.append.batch),
            Work::Snapshot(_) => !self.state.space.is_tight(),
        };
        if admitted { Ok(()) } else { Err(Error::Full { path: self.state.home.database() }) }
    }

    /// Writes a member; the inner error is its own, and then the transaction still stands.
    fn write(&mut self, work: &Work) -> Result<Result<Position, Error>, Error> {
        let written = match work {
            Work::Append(encoded) => member::write(&self.statements, &mut self.state.ends, encoded),
            Work::Snapshot(packed) => {
                packed.write(&self.statements).map(|()| self.state.ends.last.0).map_err(Fault::Sqlite)
            }
        };
        let error = match written {
            Ok(position) => return Ok(Ok(position)),
            Err(Fault::Rule(error)) => error,
            Err(Fault::Sqlite(error)) => failed(&self.state.home.database())(error),
        };
        // A full disk, an I/O error or no memory may have rolled back the whole transaction.
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
