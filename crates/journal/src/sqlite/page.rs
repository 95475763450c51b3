//! The entries after a position over all sessions, read by the primary key, and open progress of the same moment.

use std::collections::BTreeMap;

use engine::{BranchId, Epoch, Position, Record, Seq};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::reader::Reader;
use super::stored::{StoredEntry, StoredProgress};
use crate::chain::Head;
use crate::{Entry, Error, HomeEntry, Open, Page};

/// Rows of one page, read in one transaction.
struct Rows {
    entries: Vec<(BranchId, StoredEntry)>,
    /// `None` when more entries may follow.
    open: Option<Vec<StoredOpen>>,
}

/// The progress of a branch, and the last entry of the branch.
struct StoredOpen {
    branch: BranchId,
    head: (Seq, Epoch),
    progress: Vec<StoredProgress>,
}

/// The first entries after a position.
pub(super) fn page(reader: &Reader, behind: Position, limit: usize) -> Result<Page, Error> {
    let Rows { entries, open } = reader.query(|connection| {
        let moment = connection.unchecked_transaction()?;
        let entries = entries(&moment, behind, limit)?;
        let open = if entries.len() < limit { Some(open(&moment)?) } else { None };
        Ok(Rows { entries, open })
    })?;
    let mut heads = BTreeMap::new();
    let placed = |(branch, row): &(BranchId, StoredEntry)| {
        let entry = checked(reader, &mut heads, *branch, row);
        HomeEntry { position: row.position, epoch: row.epoch, branch: *branch, entry }
    };
    let entries = entries.iter().map(placed).collect();
    let open = open.map(|open| open.into_iter().map(|row| row.open(reader)).collect()).transpose()?;
    Ok(Page { entries, open })
}

/// Verifies that an entry continues the chain of its branch. The entry before it is read for that.
fn checked(
    reader: &Reader,
    heads: &mut BTreeMap<BranchId, Head>,
    branch: BranchId,
    row: &StoredEntry,
) -> Result<Entry, Error> {
    let head = match heads.get(&branch) {
        Some(head) => Some(*head),
        None => reader.head_before(branch, row.seq)?,
    };
    let missing = || reader.damaged(format!("the entry before {branch}@{} is missing", row.seq));
    let entry = head.ok_or_else(missing).and_then(|head| row.entry(branch, head, reader));
    // After a damaged entry the check continues from the stored chain value.
    match row.chain.whole().or(entry.as_ref().ok().map(|entry| entry.chain)) {
        Some(chain) => heads.insert(branch, Head { seq: row.seq, chain }),
        None => heads.remove(&branch),
    };
    entry
}

fn entries(connection: &Connection, behind: Position, limit: usize) -> rusqlite::Result<Vec<(BranchId, StoredEntry)>> {
    let columns = StoredEntry::COLUMNS;
    let sql = format!(
        "SELECT {columns}, b.uuid FROM entries e JOIN branches b ON b.id = e.branch \
         WHERE e.position > ?1 AND b.kind = 'session' ORDER BY e.position LIMIT ?2"
    );
    let row = |row: &Row<'_>| Ok((BranchId(Uuid::from_bytes(row.get("uuid")?)), StoredEntry::of(row)?));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection.prepare_cached(&sql)?.query_map((behind.0 as i64, limit), row)?.collect()
}

fn open(connection: &Connection) -> rusqlite::Result<Vec<StoredOpen>> {
    let sql = "SELECT p.effect, p.offset, p.at, p.kind, p.bytes, b.uuid, b.id FROM progress p \
               JOIN branches b ON b.id = p.branch WHERE b.kind = 'session' ORDER BY b.id";
    let head = "SELECT seq, epoch FROM entries WHERE branch = ?1 ORDER BY seq DESC LIMIT 1";
    let head = |id: i64| {
        let columns = |row: &Row<'_>| Ok((Seq(row.get::<_, i64>(0)? as u64), Epoch(row.get::<_, i64>(1)? as u64)));
        connection.prepare_cached(head)?.query_row([id], columns)
    };
    let mut all: Vec<StoredOpen> = vec![];
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (branch, progress) = (BranchId(Uuid::from_bytes(row.get(5)?)), StoredProgress::of(row)?);
        match all.last_mut() {
            Some(open) if open.branch == branch => open.progress.push(progress),
            _ => all.push(StoredOpen { branch, head: head(row.get(6)?)?, progress: vec![progress] }),
        }
    }
    Ok(all)
}

impl StoredOpen {
    fn open(&self, reader: &Reader) -> Result<Open, Error> {
        let records: Result<Vec<Record>, Error> = self.progress.iter().map(|row| row.record(reader.path())).collect();
        let mut progress = records?;
        // The text of an effect does not sort as its numbers do.
        progress.sort_by_key(|record| record.event.progress());
        Ok(Open { branch: self.branch, head: self.head, progress })
    }
}
