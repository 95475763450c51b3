//! What a test may find after a fault, in one place.
//!
//! A journal consists of all attempted batches up to some point, each complete: records, progress, bodies, views. The
//! least it holds is what was acknowledged; after a loss of power, what was acknowledged as synced. The most is that
//! and the one batch whose writing failed. A batch that got `Full` is not in the journal at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use engine::{Batch, BranchId, Event, Hash, Seq};
use journal::{Error, Read, Reader, Sqlite};
use rusqlite::Connection;

use crate::workload::{self, Replies, Script};

/// A session of the next owner.
const LATER: u128 = 9;

/// The content of a journal, as far as batches determine it.
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

    /// Reads the content. Reading verifies hashes and chain.
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
                // A snapshot is written behind the entries that it covers; reading it verifies its hash.
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

/// What the fault destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// At most the process: everything written survives.
    Process,
    /// The machine: everything synced survives.
    Power,
}

/// Which of the expected results was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    /// Exactly what was acknowledged.
    Acknowledged,
    /// That, and the batch whose writing failed.
    Doubtful,
    /// Written batches are missing at the end.
    Truncated,
}

/// Checks a home without faults: with a reader, then as its next owner, which then appends.
pub(crate) fn check(home: &Path, replies: &Replies, lost: Lost) -> Result<Found, String> {
    if replies.acknowledged_too_much {
        return Err(format!("something was acknowledged behind a failure: {:?}", replies.failed));
    }
    if replies.failed.iter().any(|error| matches!(error, Error::Fenced { .. })) {
        return Err("a process was confirmed that it owns the home, which it does not".to_owned());
    }
    let attempted: Vec<&Batch> = replies.kept.iter().chain(&replies.doubtful).collect();
    let branches = attempted.iter().map(|batch| batch.branch).collect();
    let least = match lost {
        Lost::Process => replies.kept.len(),
        Lost::Power => replies.synced(),
    };
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let read = match Reader::open(home).and_then(|reader| Holdings::of(&reader, &branches)) {
        Err(Error::NotFound { .. }) => Holdings::default(),
        read => read.map_err(failed("a reader"))?,
    };
    let owner = Sqlite::own(home).map_err(failed("the next owner"))?;
    let holdings = Holdings::of(&owner, &branches).map_err(failed("the next owner"))?;
    if holdings != read {
        return Err("the next owner found something else than a reader before it".to_owned());
    }
    let found = matching(&attempted, least..=attempted.len(), &holdings)?;
    workload::append(&owner, Script::begin(LATER)).map_err(failed("the next owner's first batch"))?;
    drop(owner);
    verify_pages(home)?;
    Ok(match found {
        count if count < replies.kept.len() => Found::Truncated,
        count if count == replies.kept.len() => Found::Acknowledged,
        _ => Found::Doubtful,
    })
}

/// How many of the attempted batches make exactly this content; the fewest, if several do.
fn matching(attempted: &[&Batch], counts: RangeInclusive<usize>, holdings: &Holdings) -> Result<usize, String> {
    let mut expected = Holdings::default();
    for count in 0..=attempted.len() {
        if counts.contains(&count) && expected == *holdings {
            return Ok(count);
        }
        if let Some(batch) = attempted.get(count) {
            expected.add(batch);
        }
    }
    let entries: usize = holdings.entries.values().map(Vec::len).sum();
    Err(format!("{entries} entries are there, which are not the first {counts:?} batches of what was attempted"))
}

/// Checks that SQLite finds every page and index good.
fn verify_pages(home: &Path) -> Result<(), String> {
    let connection = Connection::open(home.join("journal.db")).map_err(|error| error.to_string())?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| format!("integrity_check: {error}"))?;
    if verdict == "ok" { Ok(()) } else { Err(format!("integrity_check: {verdict}")) }
}
