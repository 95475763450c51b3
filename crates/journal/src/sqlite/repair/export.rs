//! Copies every row that can be read out of a corrupt file. A range of rows that fails is halved until only unreadable
//! single rows are left.

use std::path::Path;

use engine::Position;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::Did;
use crate::Error;
use crate::check::{Progress, Watch};
use crate::sqlite::reader::Reader;
use crate::sqlite::{failed, home, schema};

/// Tables with row numbers, in the order of their foreign keys.
const TABLES: [&str; 10] = [
    "dictionaries",
    "branches",
    "sessions",
    "entries",
    "bodies",
    "snapshots",
    "view_sessions",
    "view_runs",
    "view_receipts",
    "view_approvals",
];
/// Most ranges that are read of one table: a bound on the time for a tree whose upper part is lost.
const LOOKS: u32 = 500_000;
/// The least size of a row, bytes.
const ROW_BYTES: u64 = 8;

/// Copies into a new journal; returns what was copied and what is lost.
pub(super) fn copy(source: &Reader, new: &Path, mark: Option<Position>, watch: Watch<'_>) -> Result<Did, Error> {
    home::renew(new)?;
    let target = schema::make(new).map_err(failed(new))?;
    target.execute_batch("BEGIN").map_err(failed(new))?;
    let mut did = vec![];
    for (done, table) in TABLES.into_iter().enumerate() {
        watch(Progress { step: "rows", done: done as u64, of: TABLES.len() as u64 });
        if !is_there(source, table) {
            did.push(format!("{table}: it is missing, so nothing could be copied"));
            continue;
        }
        let known = mark.filter(|_| table == "entries").map_or(0, |mark| mark.0 as i64);
        let mut export = Export { source, target: &target, table, copied: 0, highest: known, gone: vec![], looks: 0 };
        let last = export.last_row();
        export.range(i64::MIN, last.max(known));
        did.extend(export.summary());
    }
    progress(source, &target);
    owner(source, &target).map_err(failed(new))?;
    target.execute_batch("COMMIT").map_err(failed(new))?;
    target.close().map_err(|(_, error)| failed(new)(error))?;
    Ok(did)
}

/// Whether this table exists; true also if that cannot be read.
fn is_there(source: &Reader, table: &str) -> bool {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    source.query(|connection| connection.prepare(sql)?.exists([table])).unwrap_or(true)
}

struct Export<'a> {
    source: &'a Reader,
    target: &'a Connection,
    table: &'static str,
    copied: u64,
    /// The highest row that is known to have existed.
    highest: i64,
    /// Rows that could not be read, because of the file or because of their content.
    gone: Vec<i64>,
    looks: u32,
}

impl Export<'_> {
    /// The last row; if it cannot be read, an upper bound.
    fn last_row(&self) -> i64 {
        let sql = format!("SELECT rowid FROM {} NOT INDEXED ORDER BY rowid DESC LIMIT 1", self.table);
        let last = self.source.query(|c| c.query_row(&sql, [], |row| row.get::<_, i64>(0)).optional());
        last.map_or_else(|_| (self.source.file_bytes() / ROW_BYTES) as i64, |last| last.unwrap_or(0))
    }

    /// Copies the rows of a range as far as they can be read in one go, then each half of the rest.
    fn range(&mut self, from: i64, to: i64) {
        if from > to || self.looks > LOOKS {
            return;
        }
        self.looks += 1;
        let Err(after) = self.forward(from, to) else { return };
        // No row has a number below this; the range may start lower only to find rows that should not exist.
        let from = after.map_or(from, |after| after + 1).max(1);
        if from >= to {
            if from == to {
                self.gone.push(from);
            }
            return;
        }
        let middle = from + (to - from) / 2;
        self.range(from, middle);
        self.range(middle + 1, to);
    }

    /// Copies up to the first row that fails; the error is the last row before it.
    fn forward(&mut self, from: i64, to: i64) -> Result<(), Option<i64>> {
        let sql =
            format!("SELECT rowid, * FROM {} NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid", self.table);
        let (target, table) = (self.target, self.table);
        let (mut last, mut copied, mut gone) = (None, 0, vec![]);
        let read = self.source.query(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query([from, to])?;
            while let Some(row) = rows.next()? {
                let rowid: i64 = row.get(0)?;
                let values = (1..columns).map(|column| row.get::<_, Value>(column)).collect::<Result<Vec<_>, _>>();
                let put = values.and_then(|values| insert(target, table, &values));
                if put.is_ok() {
                    copied += 1;
                } else {
                    gone.push(rowid);
                }
                last = Some(rowid);
            }
            Ok(())
        });
        self.copied += copied;
        self.highest = self.highest.max(last.unwrap_or(0));
        self.gone.extend(gone);
        read.map_err(|_| last)
    }

    fn summary(&self) -> Option<String> {
        let Self { table, copied, .. } = self;
        let gone: Vec<i64> = self.gone.iter().copied().filter(|row| *row <= self.highest).collect();
        if gone.is_empty() {
            return (*copied > 0).then(|| format!("{table}: {copied} rows copied"));
        }
        let name = if *table == "entries" { "positions" } else { "rows" };
        let ranges = ranges(&gone);
        Some(format!("{table}: {copied} rows copied; nothing could be read at {name} {ranges}"))
    }
}

/// Formats numbers as ranges; shows only the first few.
fn ranges(numbers: &[i64]) -> String {
    const MAX_RANGES: usize = 8;
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let mut ranges: Vec<(i64, i64)> = vec![];
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 >= number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text =
        |(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first} to {last}") };
    let more = if ranges.len() > MAX_RANGES {
        format!(" and {} more ranges", ranges.len() - MAX_RANGES)
    } else {
        String::new()
    };
    ranges.iter().take(MAX_RANGES).map(text).collect::<Vec<_>>().join(", ") + &more
}

fn insert(target: &Connection, table: &str, values: &[Value]) -> rusqlite::Result<usize> {
    let places = vec!["?"; values.len()].join(", ");
    let mut statement = target.prepare_cached(&format!("INSERT OR IGNORE INTO {table} VALUES ({places})"))?;
    statement.execute(params_from_iter(values))
}

/// Copies progress. It has no row numbers, so it is read from both ends. Lost progress was never sealed.
fn progress(source: &Reader, target: &Connection) {
    for order in ["", "DESC"] {
        let sql = format!("SELECT * FROM progress ORDER BY branch {order}, effect {order}, offset {order}");
        let _ = source.query(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let values = (0..columns).map(|column| row.get::<_, Value>(column)).collect::<Result<Vec<_>, _>>()?;
                insert(target, "progress", &values)?;
            }
            Ok(())
        });
    }
}

/// Sets the epoch so that the next owner's epoch is above every epoch in the entries.
fn owner(source: &Reader, target: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT coalesce(max(epoch), 0) FROM owner";
    let known = source.query(|c| c.query_row(sql, [], |row| row.get::<_, i64>(0))).unwrap_or(0);
    target.execute("UPDATE owner SET epoch = max(?1, (SELECT coalesce(max(epoch), 0) FROM entries))", [known])?;
    Ok(())
}
