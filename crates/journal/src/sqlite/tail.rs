//! The tail of one branch: its entries from one on, and open progress of the same moment.

use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;

use engine::{BranchId, Record, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::reader::Reader;
use super::stored::{self, StoredEntry, StoredProgress};
use crate::chain::Head;
use crate::lineage::drop_sealed;
use crate::{Entry, Error, LAST, Segment, Tail};

/// Rows that are read before a second thread starts to check them, and rows per message to it.
const CHUNK: usize = 256;
/// Most chunks that wait to be checked.
const AHEAD: usize = 4;

/// Entries and open progress that are consistent. `between` is for tests: it runs between one statement and the next,
/// and what it writes must not be seen.
pub(super) fn tail(reader: &Reader, branch: BranchId, from: Seq, between: impl FnOnce()) -> Result<Tail, Error> {
    let (progress, entries) = reader.query(|connection| {
        let moment = connection.unchecked_transaction()?;
        let progress = progress(&moment, branch)?;
        between();
        Ok((progress, entries(reader, &moment, branch, from..=LAST)?))
    })?;
    let mut progress = records(reader, &progress)?;
    let segments = [Segment { branch, entries: entries? }];
    // A seal is recorded before its progress is removed.
    drop_sealed(&mut progress, &segments);
    let [Segment { entries, .. }] = segments;
    Ok(Tail { entries, progress })
}

/// Stored progress of a branch.
pub(super) fn progress(connection: &Connection, branch: BranchId) -> rusqlite::Result<Vec<StoredProgress>> {
    let sql = "SELECT p.effect, p.offset, p.at, p.kind, p.bytes FROM progress p JOIN branches b ON b.id = p.branch \
               WHERE b.uuid = ?1";
    connection.prepare_cached(sql)?.query_map([branch.0.as_bytes()], StoredProgress::of)?.collect()
}

/// Decodes progress and sorts it.
pub(super) fn records(reader: &Reader, stored: &[StoredProgress]) -> Result<Vec<Record>, Error> {
    let mut records = stored.iter().map(|row| row.record(reader.path())).collect::<Result<Vec<_>, _>>()?;
    // The text of an effect does not sort as its numbers do.
    records.sort_by_key(|record| record.event.progress());
    Ok(records)
}

/// The chain value of a branch before the entry `from`; `None` when there is no entry before it.
pub(super) fn head_before(connection: &Connection, branch: BranchId, from: Seq) -> rusqlite::Result<Option<Head>> {
    let Some(seq) = from.0.checked_sub(1).filter(|seq| *seq > 0) else { return Ok(Some(Head::EMPTY)) };
    let sql = "SELECT id FROM branches WHERE uuid = ?1";
    let id = connection.prepare_cached(sql)?.query_row([branch.0.as_bytes()], |row| row.get(0)).optional()?;
    id.map_or(Ok(None), |id| stored::head_at(connection, id, Seq(seq)))
}

/// These entries of a branch, if they continue its chain. A second thread checks them while more are read, if there are
/// many.
pub(super) fn entries(
    reader: &Reader,
    connection: &Connection,
    branch: BranchId,
    range: RangeInclusive<Seq>,
) -> rusqlite::Result<Result<Vec<Entry>, Error>> {
    let (from, until) = (*range.start(), *range.end());
    let columns = StoredEntry::COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM entries e JOIN branches b ON b.id = e.branch \
         WHERE b.uuid = ?1 AND e.seq >= ?2 AND e.seq <= ?3 ORDER BY e.seq"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_map((branch.0.as_bytes(), from.0 as i64, until.0 as i64), StoredEntry::of)?;
    let mut chunk = move || rows.by_ref().take(CHUNK).collect::<rusqlite::Result<Vec<StoredEntry>>>();
    let first = chunk()?;
    if first.is_empty() {
        return Ok(Ok(vec![]));
    }
    let Some(head) = head_before(connection, branch, from)? else {
        return Ok(Err(reader.damaged(format!("the entry before {branch}@{from} is missing"))));
    };
    let mut checked = Checked { branch, reader, head, entries: vec![] };
    if first.len() < CHUNK {
        return Ok(checked.add(first).map(|()| checked.entries));
    }
    thread::scope(|scope| {
        let (read, to_check) = mpsc::sync_channel(AHEAD);
        let checking = scope.spawn(move || {
            to_check.into_iter().try_for_each(|chunk| checked.add(chunk))?;
            Ok(checked.entries)
        });
        let mut next = first;
        // The checking thread stops at the first bad entry.
        while !next.is_empty() && read.send(next).is_ok() {
            next = chunk()?;
        }
        drop(read);
        Ok(checking.join().unwrap_or_else(|panicked| resume_unwind(panicked)))
    })
}

/// Checks that entries continue the chain of their branch.
struct Checked<'a> {
    branch: BranchId,
    reader: &'a Reader,
    /// The chain value after the last of them.
    head: Head,
    entries: Vec<Entry>,
}

impl Checked<'_> {
    fn add(&mut self, rows: Vec<StoredEntry>) -> Result<(), Error> {
        for row in rows {
            let entry = row.entry(self.branch, self.head, self.reader)?;
            self.head = Head { seq: entry.seq, chain: entry.chain };
            self.entries.push(entry);
        }
        Ok(())
    }
}
