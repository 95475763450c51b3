//! Reports what SQLite itself finds (malformed pages, indexes that miss rows), and whether the journal ends where it
//! should.

use engine::{Position, Timestamp};
use rusqlite::OptionalExtension as _;

use super::files::Mark;
use super::finding::{Consequence, Finding, Repair, What, Where};
use super::view::View;
use super::{Check, Progress, Watch};

/// How many lines of SQLite's report are read.
const LINES: usize = 100;
/// How many tables a finding names.
const NAMED: usize = 6;

impl Check {
    pub(super) fn pages(&mut self, view: &View, watch: Watch<'_>) {
        watch(Progress { step: "pages", done: 0, of: 0 });
        let answer = view.reader.query(|connection| {
            let mut statement = connection.prepare(&format!("PRAGMA integrity_check({LINES})"))?;
            let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
            lines.collect::<Result<Vec<_>, _>>()
        });
        let lines = match answer {
            Ok(lines) if lines == ["ok"] => return,
            Ok(lines) => lines,
            Err(error) => vec![error.cause()],
        };
        let mut tables = tables(view, &lines);
        if tables.is_empty() {
            tables = unread(view);
        }
        let first = lines.first().map(|line| line.replace('\n', "; ")).unwrap_or_default();
        let where_to = if tables.is_empty() { String::new() } else { format!(" in {}", tables.join(", ")) };
        self.find(Finding {
            what: What::Pages,
            place: Where::file("journal.db"),
            detail: format!("SQLite reports{where_to}: {first}"),
            effect: Consequence::ReadOnly,
            repair: Some(Repair::Export),
        });
    }

    /// Checks that the journal ends at the acknowledged position, or after it.
    pub(super) fn ends(&mut self, view: &View, mark: Mark) {
        let Some((head, _)) = view.head() else { return };
        self.report.counts.head = head.0;
        let Some((position, chain)) = mark else {
            let is_reported = self.report.findings.iter().any(|finding| finding.what == What::Mark);
            if head.0 > 0 && !is_reported {
                self.note(
                    "journal.mark is missing or empty: what was acknowledged last is not known, so nobody can say \
                     whether entries are missing at the end; the next owner writes it again",
                );
            }
            return;
        };
        if view.holds((position, chain)) {
            return;
        }
        let is_short = head < position;
        let last = last_time(view, head).map(|at| format!(" (decided {})", rfc3339(at))).unwrap_or_default();
        let wal = self.report.counts.wal_bytes == 0;
        let hint = if wal { ". There is no journal.db-wal: was it deleted?" } else { "" };
        let detail = if is_short {
            let missing = position.0 - head.0;
            format!(
                "the journal ends at position {head}{last}, and {position} was acknowledged: {missing} are missing{hint}"
            )
        } else {
            format!("the entry at position {position} is not the one that was acknowledged; the last is {head}{last}")
        };
        self.find(Finding {
            what: if is_short { What::Lost } else { What::Replaced },
            place: Where { position: Some(position), ..Where::file("journal.mark") },
            detail,
            effect: Consequence::ReadOnly,
            repair: Some(Repair::Loss),
        });
    }
}

fn last_time(view: &View, head: Position) -> Option<Timestamp> {
    let sql = "SELECT at FROM entries WHERE position = ?1";
    let at = view.reader.query(|c| c.query_row(sql, [head.0 as i64], |row| row.get(0)).optional());
    at.ok().flatten().map(Timestamp)
}

/// A time as RFC 3339 UTC with milliseconds.
pub(in crate::sqlite) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// The tables that cannot be read completely.
fn unread(view: &View) -> Vec<String> {
    let names = view.reader.query(|connection| {
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        names.collect::<Result<Vec<_>, _>>()
    });
    let is_unread = |name: &String| {
        let sql = format!("SELECT count(*) FROM \"{name}\" NOT INDEXED");
        view.reader.query(|connection| connection.query_row(&sql, [], |row| row.get::<_, i64>(0))).is_err()
    };
    names.unwrap_or_default().into_iter().filter(is_unread).take(NAMED).collect()
}

/// The tables that SQLite's report mentions: by name, or by the root page of their tree.
fn tables(view: &View, lines: &[String]) -> Vec<String> {
    let known = view.reader.query(|connection| {
        let mut statement = connection.prepare("SELECT rootpage, name, tbl_name FROM sqlite_schema")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get(2)?)))?;
        rows.collect::<Result<Vec<(i64, String, String)>, _>>()
    });
    let known = known.unwrap_or_default();
    let mut tables: Vec<String> = vec![];
    for line in lines {
        let tree: Option<i64> = line.split("Tree ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let spoken = |(root, name, _): &&(i64, String, String)| match tree {
            Some(tree) => *root == tree,
            None => line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name),
        };
        let found = known.iter().find(spoken).map(|(_, _, table)| table.clone());
        if let Some(table) = found.filter(|table| !tables.contains(table) && tables.len() < NAMED) {
            tables.push(table);
        }
    }
    tables
}
