//! Checks what a home holds beside the lines of its sessions: abandoned branches, and data that nothing needs. None of
//! it closes a session.

use engine::{BranchId, Seq};
use rusqlite::Row;

use super::finding::Finding;
use super::view::View;
use super::walk::{Audited, BranchSpan, Checkpoint, Defect};
use super::{Check, Progress, Watch};
use crate::sqlite::collect::collectable;
use crate::sqlite::reader::Reader;
use crate::{Error, Read as _};

/// How many branches without a session a note names.
const NAMED: usize = 3;

impl Check {
    /// Checks the entries of a session's branches that are not in its line. No run uses them.
    pub(super) fn left(&mut self, reader: &Reader, key: &str, line: &[BranchSpan]) -> Result<(), Error> {
        for branch in branches(reader, "session = (SELECT uuid FROM sessions WHERE key = ?1)", [key])? {
            let after = match line.iter().find(|segment| segment.branch == branch) {
                None => Seq(0),
                Some(BranchSpan { to: Some(to), .. }) => *to,
                Some(BranchSpan { to: None, .. }) => continue,
            };
            if let Some((at, defect)) = self.first_fault(reader, branch, after)? {
                self.note(format!("{at}, on an abandoned branch of session {key}, is corrupt: {defect}; `limulus audit {key} --branch {branch}` shows it"));
            }
            for seq in reader.snapshots(branch)?.into_iter().filter(|seq| *seq > after) {
                if let Err(error) = reader.snapshot(branch, seq) {
                    self.find(Finding::of_left_snapshot(key, Checkpoint { branch, seq }, &error.cause()));
                }
            }
        }
        Ok(())
    }

    pub(super) fn first_fault(
        &mut self,
        reader: &Reader,
        branch: BranchId,
        after: Seq,
    ) -> Result<Option<(Checkpoint, Defect)>, Error> {
        let (mut entries, mut first) = (0, None);
        reader.walk(&BranchSpan { branch, to: None }, |audited| {
            if audited.seq > after {
                entries += 1;
                first = first.take().or_else(|| Some((audited.checkpoint(), defect(reader, audited)?)));
            }
        })?;
        self.report.counts.entries += entries;
        Ok(first)
    }

    /// Notes the data that nothing needs. It takes space and does no harm.
    pub(super) fn unused(&mut self, view: &View, watch: Watch<'_>) {
        let none =
            branches(&view.reader, "session NOT IN (SELECT uuid FROM sessions) AND ?1", [true]).unwrap_or_default();
        if !none.is_empty() {
            let named: Vec<String> = none.iter().take(NAMED).map(ToString::to_string).collect();
            let more =
                none.len().checked_sub(NAMED + 1).map(|more| format!(" and {} more", more + 1)).unwrap_or_default();
            let named = named.join(", ");
            self.note(format!("no session uses {named}{more}: `limulus audit --branch` shows them"));
        }
        // If some data cannot be read, it is unknown what that data needs.
        if !self.report.findings.is_empty() {
            return;
        }
        watch(Progress { step: "bodies", done: 0, of: self.report.counts.bodies });
        match collectable(&view.reader) {
            Ok(collectable) => self.report.collectable = collectable,
            Err(error) => self.note(format!("unused bodies were not counted: {}", error.cause())),
        }
    }
}

fn defect(reader: &Reader, audited: &Audited) -> Option<Defect> {
    let bodies = || reader.body_defects(audited.event()?).ok()?.into_iter().next();
    audited.defects.first().cloned().or_else(bodies)
}

fn branches(reader: &Reader, which: &str, of: impl rusqlite::Params) -> Result<Vec<BranchId>, Error> {
    let sql = format!("SELECT uuid FROM branches WHERE kind = 'session' AND {which} ORDER BY id");
    let id = |row: &Row<'_>| Ok(BranchId(uuid::Uuid::from_bytes(row.get(0)?)));
    reader.query(|connection| connection.prepare_cached(&sql)?.query_map(of, id)?.collect())
}
