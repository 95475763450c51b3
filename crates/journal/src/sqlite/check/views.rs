//! Whether the views are what the entries give. What may not live here: how they are made (`views`).

use std::collections::{BTreeMap, BTreeSet};

use engine::{ReceiptRow, RunRow, SessionRow, Timestamp};

use super::finding::{Finding, What};
use super::view::View;
use super::{Check, Progress, Watch};
use crate::sqlite::reader::Reader;
use crate::views::{Rebuilt, rebuilt};
use crate::{Error, Read as _};

/// Findings about views; one mend is for all of them.
const FINDINGS: usize = 5;

impl Check {
    /// Compares them, while nothing is appended: entries and rows are read one after the other.
    pub(super) fn views(&mut self, view: &View, watch: Watch<'_>) {
        // Of what cannot be read nothing can be made.
        if self.report.findings.iter().any(|finding| finding.what < What::Entry) {
            return;
        }
        watch(Progress { step: "views", done: 0, of: 0 });
        let reader = &view.reader;
        let before = reader.head();
        let wrong = wrong_rows(reader);
        match (before, reader.head(), wrong) {
            (Ok(before), Ok(after), _) if before != after => {
                self.note("the lists were not compared with the entries: the journal is being written");
            }
            (_, _, Ok(wrong)) => {
                wrong
                    .into_iter()
                    .take(FINDINGS)
                    .for_each(|(key, what)| self.find(Finding::of_views(key.as_deref(), what)));
            }
            (_, _, Err(error)) => self.find(Finding::of_views(None, format!("they cannot be read: {}", error.said()))),
        }
    }
}

/// The rows that are missing or different, with the session that they are of.
type Wrong = Vec<(Option<String>, String)>;

fn wrong_rows(reader: &Reader) -> Result<Wrong, Error> {
    let Rebuilt { rows, .. } = rebuilt(reader)?;
    let sessions: BTreeMap<_, _> = reader.sessions()?.into_iter().map(|row| (row.session, row)).collect();
    let runs: BTreeMap<_, _> = reader.runs(None)?.into_iter().map(|row| (row.run, row)).collect();
    let asked: BTreeSet<_> = reader.approvals(None)?.into_iter().map(|row| row.call).collect();
    let mut receipts = BTreeMap::new();
    for session in sessions.keys() {
        receipts.extend(reader.receipts(*session)?.into_iter().map(|row| (row.message, row)));
    }
    let mut wrong = Wrong::new();
    for views in rows {
        let of = |row: Option<&SessionRow>| row.map(|row| row.key.clone());
        if let Some(row) = &views.session
            && sessions.get(&row.session).is_none_or(|kept| !same_session(kept, row))
        {
            wrong.push((Some(row.key.clone()), differs(sessions.contains_key(&row.session), "the session")));
        }
        for row in views.runs.iter().filter(|row| runs.get(&row.run).is_none_or(|kept| !same_run(kept, row))) {
            let what = differs(runs.contains_key(&row.run), &format!("run {}", row.run));
            wrong.push((of(sessions.get(&row.session)), what));
        }
        let other = |row: &&ReceiptRow| receipts.get(&row.message) != Some(*row);
        for row in views.receipts.iter().filter(other) {
            let what = differs(receipts.contains_key(&row.message), &format!("message {}", row.message));
            wrong.push((of(sessions.get(&row.session)), what));
        }
        for row in views.approvals.iter().filter(|row| row.allowed.is_none() != asked.contains(&row.call)) {
            wrong.push((
                of(sessions.get(&row.session)),
                differs(asked.contains(&row.call), &format!("call {}", row.call)),
            ));
        }
    }
    Ok(wrong)
}

fn differs(is_there: bool, what: &str) -> String {
    format!("the row of {what} {}", if is_there { "says something else" } else { "is not there" })
}

/// The last activity may be that of progress, which is no entry.
fn same_session(kept: &SessionRow, row: &SessionRow) -> bool {
    let timeless = |row: &SessionRow| SessionRow { last_activity: Timestamp(0), ..row.clone() };
    timeless(kept) == timeless(row)
}

/// The row of a run under way follows when it ends.
fn same_run(kept: &RunRow, row: &RunRow) -> bool {
    kept == row || (row.ended_at.is_none() && kept.ended_at.is_none() && kept.session == row.session)
}
