//! What may be found after a fault, in one place.
//!
//! A journal is all batches up to some point of what was attempted, each whole: records, progress, bodies, views. The
//! least it holds is what was acknowledged; after a loss of power, what was acknowledged as synced. The most is that and
//! the one batch whose writing failed. A batch that was answered `Full` is not there at all. What may not live here: how
//! the fault was made.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use engine::{Batch, BranchId, Event, Hash, Seq};
use journal::{Error, Read, Reader, Sqlite};
use rusqlite::Connection;

use crate::workload::{self, Script, Told};

/// A session of whatever owner comes next.
const LATER: u128 = 9;

/// What a journal holds, as far as batches decide it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Holdings {
    entries: BTreeMap<BranchId, Vec<Event>>,
    progress: BTreeMap<BranchId, Vec<Event>>,
    queued: BTreeMap<BranchId, u32>,
}

impl Holdings {
    fn add(&mut self, batch: &Batch) {
        for record in &batch.records {
            let progress = self.progress.entry(batch.branch).or_default();
            if record.event.progress().is_some() {
                progress.push(record.event.clone());
                continue;
            }
            if let Some(sealed) = record.event.seals() {
                progress.retain(|event| event.progress().is_none_or(|(effect, _)| effect != sealed));
            }
            self.entries.entry(batch.branch).or_default().push(record.event.clone());
        }
        if let Some(row) = &batch.views.session {
            self.queued.insert(batch.branch, row.queued);
        }
    }

    /// What is there. Reading checks hashes and chain.
    fn of(journal: &dyn Read, branches: &BTreeSet<BranchId>) -> Result<Self, Error> {
        let mut holdings = Self::default();
        for row in journal.sessions()? {
            holdings.queued.insert(row.branch, row.queued);
        }
        for branch in branches {
            let tail = journal.tail(*branch, Seq(1))?;
            let bodies: Vec<Hash> = tail.entries.iter().flat_map(|entry| entry.event.references()).collect();
            for hash in bodies {
                journal.body(&hash)?.ok_or(Error::MissingBody { branch: *branch, hash })?;
            }
            for seq in journal.snapshots(*branch)? {
                // It is written behind the entries that it stands for; reading it checks its hash.
                if journal.snapshot(*branch, seq)?.is_none() || seq.0 > tail.entries.len() as u64 {
                    return Err(Error::DamagedSnapshot { branch: *branch, seq, detail: "nothing is at it".to_owned() });
                }
            }
            if !tail.entries.is_empty() {
                holdings.entries.insert(*branch, tail.entries.into_iter().map(|entry| entry.event).collect());
                let progress = tail.progress.into_iter().map(|record| record.event).collect();
                holdings.progress.insert(*branch, progress);
            }
        }
        Ok(holdings)
    }
}

/// What took the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The process, at most: what was written is there.
    Process,
    /// The machine: what was synced is there.
    Power,
}

/// What was found, beyond that it was as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    /// Just what was acknowledged.
    Acknowledged,
    /// That, and the batch whose writing failed.
    Doubtful,
    /// Written batches are gone from the end.
    Shorter,
}

/// Looks at a home with no faults any more: by a reader, then as its next owner, who then goes on.
pub(crate) fn check(home: &Path, told: &Told, lost: Lost) -> Result<Found, String> {
    if told.acknowledged_too_much {
        return Err(format!("something was acknowledged behind a failure: {:?}", told.failed));
    }
    if told.failed.iter().any(|error| matches!(error, Error::Fenced { .. })) {
        return Err("a process was told that it owns the home, which it does not".to_owned());
    }
    let attempted: Vec<&Batch> = told.kept.iter().chain(&told.doubtful).collect();
    let branches = attempted.iter().map(|batch| batch.branch).collect();
    let least = match lost {
        Lost::Process => told.kept.len(),
        Lost::Power => told.synced(),
    };
    let said = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let read = match Reader::open(home).and_then(|reader| Holdings::of(&reader, &branches)) {
        Err(Error::NotFound { .. }) => Holdings::default(),
        read => read.map_err(said("a reader"))?,
    };
    let owner = Sqlite::own(home).map_err(said("the next owner"))?;
    let held = Holdings::of(&owner, &branches).map_err(said("the next owner"))?;
    if held != read {
        return Err("the next owner found something else than a reader before it".to_owned());
    }
    let found = matching(&attempted, least..=attempted.len(), &held)?;
    workload::append(&owner, Script::begin(LATER)).map_err(said("the next owner's first batch"))?;
    drop(owner);
    verify_pages(home)?;
    Ok(match found {
        count if count < told.kept.len() => Found::Shorter,
        count if count == told.kept.len() => Found::Acknowledged,
        _ => Found::Doubtful,
    })
}

/// How many of the attempted batches make just what is there; the fewest, where several do.
fn matching(attempted: &[&Batch], counts: RangeInclusive<usize>, held: &Holdings) -> Result<usize, String> {
    let mut expected = Holdings::default();
    for count in 0..=attempted.len() {
        if counts.contains(&count) && expected == *held {
            return Ok(count);
        }
        if let Some(batch) = attempted.get(count) {
            expected.add(batch);
        }
    }
    let entries: usize = held.entries.values().map(Vec::len).sum();
    Err(format!("{entries} entries are there, which are not the first {counts:?} batches of what was attempted"))
}

/// Every page and index is as SQLite wants it.
fn verify_pages(home: &Path) -> Result<(), String> {
    let connection = Connection::open(home.join("journal.db")).map_err(|error| error.to_string())?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| format!("integrity_check: {error}"))?;
    if verdict == "ok" { Ok(()) } else { Err(format!("integrity_check: {verdict}")) }
}
