//! Checks that a journal has all tables and indices, one row for the owner, and for each session the row that its
//! entries imply.

use engine::{BranchId, Event, Seq};
use rusqlite::Connection;

use super::Check;
use super::finding::{Consequence, Finding, Repair};
use super::view::View;
use super::walk::BranchSpan;
use crate::sqlite::reader::Reader;
use crate::sqlite::{dictionaries, schema};
use crate::{Error, Read as _};

/// How many findings about rows are listed; one repair fixes all of them.
const MOST: usize = 50;

/// The row that a session should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sqlite) struct Wanted {
    pub(in crate::sqlite) uuid: [u8; 16],
    /// The key that its entries say.
    pub(in crate::sqlite) key: String,
    pub(in crate::sqlite) branch: BranchId,
    /// The key and branch that its row has instead; `None` if there is no row.
    pub(in crate::sqlite) listed: Option<(String, Option<BranchId>)>,
    /// Whether another session has that key now.
    pub(in crate::sqlite) is_taken: bool,
}

impl Check {
    pub(super) fn tables(&mut self, view: &View) {
        let Ok((missing, other)) = differing(&view.reader) else { return };
        for (names, how) in [(missing, "missing"), (other, "without the columns of this format")] {
            let (views, others): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_of_views(name));
            let is_index = |name: &String| !VIEWS.contains(&name.as_str());
            if !views.is_empty() {
                let effect = if views.iter().all(is_index) { Consequence::Lists } else { Consequence::ReadOnly };
                self.find(Finding::of_tables(describe(&views, how), effect, Some(Repair::Views)));
            }
            if !others.is_empty() {
                let is_regained = others == ["dictionaries"];
                let repair = if is_regained { Repair::Dictionaries } else { Repair::Export };
                let repair = (how == "missing").then_some(repair);
                self.find(Finding::of_tables(describe(&others, how), Consequence::ReadOnly, repair));
            }
        }
        self.dictionaries(view);
        let owners = view.reader.query(|c| c.query_row("SELECT count(*) FROM owner", [], |row| row.get::<_, i64>(0)));
        if let Some(owners) = owners.ok().filter(|owners| *owners != 1) {
            let detail = format!("`owner` has {owners} rows, not one: no process can become the owner");
            self.find(Finding::of_tables(detail, Consequence::ReadOnly, Some(Repair::Export)));
        }
    }

    /// Whether the journal has the dictionaries of this program. Without them other programs cannot read it.
    fn dictionaries(&mut self, view: &View) {
        let Ok(missing) = view.reader.query(dictionaries::lost) else { return };
        for id in missing {
            let detail =
                format!("dictionary {id} is missing or was changed: other programs cannot read what it packed");
            self.find(Finding::of_tables(detail, Consequence::Others, Some(Repair::Dictionaries)));
        }
    }

    /// Compares the rows of the sessions with their entries.
    pub(super) fn rows(&mut self, view: &View) {
        let Ok(wanted) = wanted(&view.reader) else { return };
        for Wanted { key, branch, listed, is_taken, .. } in wanted.into_iter().take(MOST) {
            let detail = match listed {
                None => format!("its row is missing; its entries are in branch {branch}"),
                Some((listed, _)) if listed != key => format!("its row calls it {listed}"),
                Some(_) => format!("its row names a branch of another session, not {branch}"),
            };
            if is_taken {
                self.note(format!("session {key}: {detail}; another session has that key, so this is not repaired"));
            } else {
                self.find(Finding::of_row(&key, detail, Some(Repair::Views)));
            }
        }
    }
}

const VIEWS: [&str; 4] = ["view_sessions", "view_runs", "view_receipts", "view_approvals"];

/// Whether this is a table of the views or an index of one.
fn is_of_views(name: &str) -> bool {
    VIEWS.iter().any(|table| name.starts_with(table))
}

fn describe(names: &[String], how: &str) -> String {
    format!("{} {how}: {}", if names.len() == 1 { "one is" } else { "some are" }, names.join(", "))
}

/// The names of missing tables, and of those with other columns.
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

/// The sessions whose rows do not match their entries. A quarantined session has no row, and no good entry.
pub(in crate::sqlite) fn wanted(reader: &Reader) -> Result<Vec<Wanted>, Error> {
    let mut wanted = vec![];
    for Listed { uuid, branch, row: listed } in reader.query(suspects)? {
        let Some(key) = key_of(reader, branch, listed.is_some()) else { continue };
        let is_right = listed.as_ref().is_some_and(|(listed, at)| *listed == key && at.is_some());
        if is_right {
            continue;
        }
        let sql = "SELECT 1 FROM sessions WHERE key = ?1 AND uuid <> ?2";
        let is_taken = reader.query(|connection| connection.prepare_cached(sql)?.exists((&key, uuid)))?;
        wanted.push(Wanted { uuid, key, branch, listed, is_taken });
    }
    Ok(wanted)
}

struct Listed {
    uuid: [u8; 16],
    branch: BranchId,
    row: Option<(String, Option<BranchId>)>,
}

/// Each session with its last branch and its row; the row is right if its branch belongs to this session.
fn suspects(connection: &Connection) -> rusqlite::Result<Vec<Listed>> {
    let id = |bytes: [u8; 16]| BranchId(uuid::Uuid::from_bytes(bytes));
    let sql = "SELECT l.session, l.uuid, s.key, b.uuid FROM \
               (SELECT session, uuid, max(id) AS id FROM branches WHERE kind = 'session' GROUP BY session) l \
               LEFT JOIN sessions s ON s.uuid = l.session \
               LEFT JOIN branches b ON b.id = s.branch AND b.session = s.uuid ORDER BY l.id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let listed: Option<String> = row.get(2)?;
        let at: Option<[u8; 16]> = row.get(3)?;
        Ok(Listed { uuid: row.get(0)?, branch: id(row.get(1)?), row: listed.map(|listed| (listed, at.map(id))) })
    })?;
    rows.collect()
}

/// The key that the first entry of the session's line says, or a snapshot if that entry was removed. A session without
/// a row may have been quarantined: then none of its entries is good.
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
        Some(reader.snapshot(branch, last).ok()??.session().ok()??.account.key)
    })
}
