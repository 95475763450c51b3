//! Whether a journal has what every journal has: its tables and indices, one row of an owner, and for each session the
//! row that its entries give. What may not live here: the entries.

use engine::{BranchId, Event, Seq};
use rusqlite::Connection;

use super::Check;
use super::finding::{Consequence, Finding, Repair};
use super::view::View;
use super::walk::BranchSpan;
use crate::sqlite::reader::Reader;
use crate::sqlite::schema;
use crate::{Error, Read as _};

/// Findings about rows; one mend is for all of them.
const MOST: usize = 50;

/// What becomes of the row of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sqlite) struct Wanted {
    /// The session.
    pub(in crate::sqlite) uuid: [u8; 16],
    /// The key that its entries say.
    pub(in crate::sqlite) key: String,
    /// Its last branch.
    pub(in crate::sqlite) branch: BranchId,
    /// What its row says instead; none where it has none.
    pub(in crate::sqlite) said: Option<(String, Option<BranchId>)>,
    /// Whether another session has that key now.
    pub(in crate::sqlite) is_taken: bool,
}

impl Check {
    pub(super) fn tables(&mut self, view: &View) {
        let Ok((missing, other)) = differing(&view.reader) else { return };
        for (names, how) in [(missing, "not there"), (other, "without the columns of this format")] {
            let (views, others): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_of_views(name));
            let is_index = |name: &String| !VIEWS.contains(&name.as_str());
            if !views.is_empty() {
                let effect = if views.iter().all(is_index) { Consequence::Lists } else { Consequence::ReadOnly };
                self.find(Finding::of_tables(told(&views, how), effect, Some(Repair::Views)));
            }
            if !others.is_empty() {
                let repair = (how == "not there").then_some(Repair::Export);
                self.find(Finding::of_tables(told(&others, how), Consequence::ReadOnly, repair));
            }
        }
        let owners = view.reader.query(|c| c.query_row("SELECT count(*) FROM owner", [], |row| row.get::<_, i64>(0)));
        if let Some(owners) = owners.ok().filter(|owners| *owners != 1) {
            let detail = format!("`owner` has {owners} rows, not one: no owner can say that it is the next");
            self.find(Finding::of_tables(detail, Consequence::ReadOnly, Some(Repair::Export)));
        }
    }

    /// The rows of the sessions beside what their entries say.
    pub(super) fn rows(&mut self, view: &View) {
        let Ok(wanted) = wanted(&view.reader) else { return };
        for Wanted { key, branch, said, is_taken, .. } in wanted.into_iter().take(MOST) {
            let detail = match said {
                None => format!("its row is not there; its entries are, in branch {branch}"),
                Some((said, _)) if said != key => format!("its row calls it {said}"),
                Some(_) => format!("its row names a branch of another session, not {branch}"),
            };
            if is_taken {
                self.note(format!("session {key}: {detail}; another session has that key, so it stays as it is"));
            } else {
                self.find(Finding::of_row(&key, detail, Some(Repair::Views)));
            }
        }
    }
}

const VIEWS: [&str; 5] = ["view_sessions", "view_runs", "view_receipts", "view_usage", "view_approvals"];

/// Whether it is a table of the views or an index of one.
fn is_of_views(name: &str) -> bool {
    VIEWS.iter().any(|table| name.starts_with(table))
}

fn told(names: &[String], how: &str) -> String {
    format!("{} {how}: {}", if names.len() == 1 { "one is" } else { "some are" }, names.join(", "))
}

/// What is not there, and what has other columns.
fn differing(reader: &Reader) -> Result<(Vec<String>, Vec<String>), Error> {
    let there = reader.query(schema::shapes_of)?;
    let (mut missing, mut other) = (vec![], vec![]);
    for (name, columns) in reader.query(|_| schema::shapes())? {
        match there.iter().find(|(known, _)| *known == name) {
            None => missing.push(name),
            Some((_, known)) if *known != columns => other.push(name),
            Some(_) => {}
        }
    }
    Ok((missing, other))
}

/// Tables of the views that have other columns than they should.
pub(in crate::sqlite) fn strange_views(reader: &Reader) -> Result<Vec<&'static str>, Error> {
    let (_, other) = differing(reader)?;
    Ok(VIEWS.into_iter().filter(|table| other.iter().any(|name| name == table)).collect())
}

/// The sessions whose rows are not what their entries say. What a mend has put aside has no row, and no good entry.
pub(in crate::sqlite) fn wanted(reader: &Reader) -> Result<Vec<Wanted>, Error> {
    let mut wanted = vec![];
    for Listed { uuid, branch, said } in reader.query(suspects)? {
        let Some(key) = key_of(reader, branch, said.is_some()) else { continue };
        let is_right = said.as_ref().is_some_and(|(said, at)| *said == key && at.is_some());
        if is_right {
            continue;
        }
        let sql = "SELECT 1 FROM sessions WHERE key = ?1 AND uuid <> ?2";
        let is_taken = reader.query(|connection| connection.prepare_cached(sql)?.exists((&key, uuid)))?;
        wanted.push(Wanted { uuid, key, branch, said, is_taken });
    }
    Ok(wanted)
}

struct Listed {
    uuid: [u8; 16],
    branch: BranchId,
    said: Option<(String, Option<BranchId>)>,
}

/// Each session with its last branch and its row: a branch in it is one of this session.
fn suspects(connection: &Connection) -> rusqlite::Result<Vec<Listed>> {
    let id = |bytes: [u8; 16]| BranchId(uuid::Uuid::from_bytes(bytes));
    let sql = "SELECT l.session, l.uuid, s.key, b.uuid FROM \
               (SELECT session, uuid, max(id) AS id FROM branches WHERE kind = 'session' GROUP BY session) l \
               LEFT JOIN sessions s ON s.uuid = l.session \
               LEFT JOIN branches b ON b.id = s.branch AND b.session = s.uuid ORDER BY l.id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let said: Option<String> = row.get(2)?;
        let at: Option<[u8; 16]> = row.get(3)?;
        Ok(Listed { uuid: row.get(0)?, branch: id(row.get(1)?), said: said.map(|said| (said, at.map(id))) })
    })?;
    rows.collect()
}

/// What the first entry of its line calls a session; where that was removed, a snapshot does. One without a row may have
/// been put aside: then no entry of it is good.
fn key_of(reader: &Reader, branch: BranchId, has_row: bool) -> Option<String> {
    let line = reader.lineage(branch).ok()?;
    let mut key = None;
    let first = BranchSpan { to: Some(Seq(1)), ..line[0] };
    let walked = reader.walk(&first, |audited| {
        if let Some(Event::Created(created)) = audited.event() {
            key = Some(created.key.clone());
        }
    });
    walked.ok()?;
    key.or_else(|| {
        if !has_row {
            reader.verify(&line).last_good?;
        }
        let last = reader.snapshots(branch).ok()?.pop()?;
        Some(reader.snapshot(branch, last).ok()??.session().ok()??.key)
    })
}
