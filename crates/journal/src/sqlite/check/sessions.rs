//! Checks every session of a home, and rows that belong to no session. It reads a page at a time.

use engine::{BranchId, Session};
use rusqlite::OptionalExtension as _;

use super::finding::{Consequence, Finding, What};
use super::session::Verified;
use super::view::View;
use super::walk::Defect;
use super::{Check, Progress, Watch};
use crate::sqlite::reader::Reader;
use crate::{Error, Read as _};

/// How many sessions are listed at once.
const PAGE: i64 = 500;
/// How many findings about sessions are listed; the others are counted.
const FINDINGS: usize = 50;

/// A session as the tables list it.
struct Listed {
    row: i64,
    key: String,
    branch: Option<BranchId>,
}

impl Check {
    pub(super) fn sessions(&mut self, view: &View, watch: Watch<'_>) {
        let reader = &view.reader;
        let of = count(reader, "SELECT count(*) FROM sessions");
        self.report.counts.bodies = count(reader, "SELECT count(*) FROM bodies");
        let (mut after, mut done, mut more) = (i64::MIN, 0, 0);
        loop {
            let listed = match reader.query(|connection| page(connection, after)) {
                Ok(listed) => listed,
                Err(error) => {
                    self.unlisted(&error);
                    break;
                }
            };
            for session in &listed {
                watch(Progress { step: "sessions", done, of });
                let before = self.report.findings.len();
                self.session(reader, session);
                done += 1;
                if before >= FINDINGS {
                    more += self.report.findings.len() - before;
                    self.report.findings.truncate(before);
                }
            }
            match listed.last() {
                Some(last) => after = last.row,
                None => break,
            }
        }
        self.report.counts.sessions = done;
        if more > 0 {
            self.note(format!("{more} more findings about sessions are not shown"));
        }
        self.orphans(reader);
    }

    fn unlisted(&mut self, error: &Error) {
        let says_it = |finding: &Finding| matches!(finding.what, What::Pages | What::Tables);
        let is_known = self.report.findings.iter().any(says_it);
        if is_known {
            return self.note(format!("not every session could be listed ({error})"));
        }
        self.find(Finding::closed(error));
    }

    fn session(&mut self, reader: &Reader, session: &Listed) {
        let key = &session.key;
        let Some(branch) = session.branch else {
            let says_it = |finding: &Finding| {
                finding.what == What::Rows && finding.place.session.as_deref() == Some(key.as_str())
            };
            if self.report.findings.iter().any(says_it) {
                return;
            }
            return self.find(Finding::of_branch(key, "its branch is missing"));
        };
        let verified = match reader.lineage(branch) {
            Ok(line) => {
                let verified = reader.verify(&line);
                if let Err(error) = self.left(reader, key, &line) {
                    self.note(format!("the abandoned branches of session {key} were not checked: {}", error.cause()));
                }
                verified
            }
            Err(error) => Verified::nothing(error.cause()),
        };
        self.report.counts.entries += verified.entries;
        self.report.counts.snapshots += verified.snapshots.len() as u64;
        for (at, wrong) in &verified.snapshots {
            if let Some(detail) = wrong {
                self.find(Finding::of_snapshot(key, *at, detail, verified.needs(*at)));
            }
        }
        let good = verified.last_good.as_ref().map(|place| place.checkpoint);
        if let Some(first) = verified.faults.first() {
            let mut finding = Finding::of_entry(key, first, good);
            let others = verified.faults.len() as u64 - 1 + verified.more;
            if others > 0 {
                finding.detail = format!("{}; {others} more after it", finding.detail);
            }
            let is_behind = || reader.line(branch).is_ok_and(|line| line.start.is_some());
            if finding.what == What::Entry && is_behind() {
                finding.effect = Consequence::Hole(key.clone());
            }
            if is_newer(&first.defect) {
                finding.repair = None;
            }
            self.find(finding);
        } else if let Some(detail) = &verified.unread {
            self.find(Finding::unread(key, detail, good));
        } else if verified.entries == 0 {
            self.find(Finding::of_branch(key, "it has no entry"));
        } else if let Some(Err(violation)) = verified.session().map(Session::check) {
            self.find(Finding::of_state(key, &violation));
        }
    }

    /// Notes rows that belong to nothing. They take space and do no harm.
    fn orphans(&mut self, reader: &Reader) {
        let of_none = |table: &str| {
            count(reader, &format!("SELECT count(*) FROM {table} WHERE branch NOT IN (SELECT id FROM branches)"))
        };
        for table in ["entries", "progress", "snapshots"] {
            let number = of_none(table);
            if number > 0 {
                self.note(format!("{number} rows of {table} belong to no branch"));
            }
        }
        let sql = "SELECT coalesce(max(position) - min(position) + 1 - count(*), 0) FROM entries";
        let gaps = count(reader, sql);
        if gaps > 0 {
            self.note(format!("{gaps} positions between the first and the last hold no entry"));
        }
    }
}

/// Whether only a newer version of Limulus can read the entry: there is nothing to repair here.
fn is_newer(defect: &Defect) -> bool {
    use engine::UnreadableEvent::{Kind, Payload, Version};
    match defect {
        Defect::Unreadable { error } => match error {
            Kind { .. } | Version { .. } => true,
            Payload { .. } => false,
        },
        Defect::Dictionary { .. } | Defect::BodyDictionary { .. } => true,
        Defect::Missing { .. }
        | Defect::Payload
        | Defect::Unhashed
        | Defect::Chain
        | Defect::Row { .. }
        | Defect::BodyMissing { .. }
        | Defect::Body { .. }
        | Defect::Unfounded
        | Defect::Order { .. } => false,
    }
}

fn count(reader: &Reader, sql: &str) -> u64 {
    let number = reader.query(|c| c.query_row(sql, [], |row| row.get::<_, i64>(0)).optional());
    number.ok().flatten().and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

fn page(connection: &rusqlite::Connection, after: i64) -> rusqlite::Result<Vec<Listed>> {
    let sql = "SELECT s.rowid, s.key, b.uuid FROM sessions s LEFT JOIN branches b ON b.id = s.branch \
               WHERE s.rowid > ?1 ORDER BY s.rowid LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map((after, PAGE), |row| {
        let branch = row.get::<_, Option<[u8; 16]>>(2)?.map(|uuid| BranchId(uuid::Uuid::from_bytes(uuid)));
        Ok(Listed { row: row.get(0)?, key: row.get(1)?, branch })
    })?;
    rows.collect()
}
