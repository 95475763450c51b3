//! What one branch holds from an entry on: its entries and open progress as they stood at the same moment. What may not live
//! here: what the home holds over all branches.

use engine::{BranchId, Hash, Record, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::reader::Reader;
use super::stored::{StoredEntry, StoredProgress};
use crate::chain::Head;
use crate::line::leave_out_sealed;
use crate::{Entry, Error, LAST, Segment, Tail};

/// Rows of a branch.
pub(super) struct Rows {
    branch: BranchId,
    /// What the chain is before the first of these; none where the entry before it is not there.
    head: Option<Head>,
    entries: Vec<StoredEntry>,
}

/// Entries and open progress that fit together. `between` is for tests: what is written there, between one statement and
/// the next, is not seen.
pub(super) fn tail(reader: &Reader, branch: BranchId, from: Seq, between: impl FnOnce()) -> Result<Tail, Error> {
    let (progress, rows) = reader.query(|connection| {
        let moment = connection.unchecked_transaction()?;
        let progress = progress(&moment, branch)?;
        between();
        Ok((progress, Rows::read(&moment, branch, from, LAST)?))
    })?;
    let mut progress = records(reader, &progress)?;
    let segments = [Segment { branch, entries: rows.entries(reader, from)? }];
    // A seal is recorded before its progress is removed.
    leave_out_sealed(&mut progress, &segments);
    let [Segment { entries, .. }] = segments;
    Ok(Tail { entries, progress })
}

/// Progress of a branch as it lies there.
pub(super) fn progress(connection: &Connection, branch: BranchId) -> rusqlite::Result<Vec<StoredProgress>> {
    let sql = "SELECT p.effect, p.offset, p.at, p.kind, p.bytes FROM progress p JOIN branches b ON b.id = p.branch \
               WHERE b.uuid = ?1";
    connection.prepare_cached(sql)?.query_map([branch.0.as_bytes()], StoredProgress::of)?.collect()
}

/// The same as it was recorded, in order.
pub(super) fn records(reader: &Reader, stored: &[StoredProgress]) -> Result<Vec<Record>, Error> {
    let mut records = stored.iter().map(|row| row.record(reader.path())).collect::<Result<Vec<_>, _>>()?;
    // The text of an effect does not sort as its numbers do.
    records.sort_by_key(|record| record.event.progress());
    Ok(records)
}

/// What the chain of a branch is before the entry `from`; none when there is no entry before it.
pub(super) fn head_before(connection: &Connection, branch: BranchId, from: Seq) -> rusqlite::Result<Option<Head>> {
    let Some(seq) = from.0.checked_sub(1).filter(|seq| *seq > 0) else { return Ok(Some(Head::EMPTY)) };
    let sql = "SELECT e.chain FROM entries e JOIN branches b ON b.id = e.branch WHERE b.uuid = ?1 AND e.seq = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let chain = statement.query_row((branch.0.as_bytes(), seq as i64), |row| row.get(0)).optional()?;
    Ok(chain.map(|chain| Head { seq: Seq(seq), chain: Hash(chain) }))
}

impl Rows {
    /// The entries of a branch from `from` to `until`.
    pub(super) fn read(connection: &Connection, branch: BranchId, from: Seq, until: Seq) -> rusqlite::Result<Self> {
        let sql = "SELECT e.seq, e.position, e.epoch, e.at, e.kind, e.version, e.payload, e.payload_hash, e.chain \
                   FROM entries e JOIN branches b ON b.id = e.branch \
                   WHERE b.uuid = ?1 AND e.seq >= ?2 AND e.seq <= ?3 ORDER BY e.seq";
        let mut statement = connection.prepare_cached(sql)?;
        let entries = statement.query_map((branch.0.as_bytes(), from.0 as i64, until.0 as i64), StoredEntry::of)?;
        let entries: Vec<StoredEntry> = entries.collect::<Result<_, _>>()?;
        let head = if entries.is_empty() { None } else { head_before(connection, branch, from)? };
        Ok(Self { branch, head, entries })
    }

    /// The entries, if they continue the chain of their branch.
    pub(super) fn entries(&self, reader: &Reader, from: Seq) -> Result<Vec<Entry>, Error> {
        let Self { branch, head, entries: stored } = self;
        if stored.is_empty() {
            return Ok(Vec::new());
        }
        let mut head = head.ok_or_else(|| reader.damaged(format!("the entry before {branch}@{from} is missing")))?;
        let mut entries = Vec::with_capacity(stored.len());
        for row in stored {
            let entry = row.entry(*branch, head, reader.path())?;
            head = Head { seq: entry.seq, chain: entry.chain };
            entries.push(entry);
        }
        Ok(entries)
    }
}
