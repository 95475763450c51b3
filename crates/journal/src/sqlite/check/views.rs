//! Checks that the views match the entries.

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallId, MessageId, ReceiptRow, RunId, RunRow, SessionId, SessionRow, Timestamp, Views};

use super::finding::{Finding, What};
use super::view::View;
use super::{Check, Progress, Watch};
use crate::sqlite::reader::Reader;
use crate::views::{OfSession, Placed, each};
use crate::{Error, Read as _};

/// How many findings about views are listed; one repair fixes all of them.
const FINDINGS: usize = 5;

impl Check {
    /// Compares views and entries, provided that nothing is appended meanwhile: it reads one after the other.
    pub(super) fn views(&mut self, view: &View, watch: Watch<'_>) {
        // If data cannot be read, nothing can be computed from it.
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
            (_, _, Err(error)) => self.find(Finding::of_views(None, format!("they cannot be read: {}", error.cause()))),
        }
    }
}

/// The rows that are missing or different, each with its session.
type Wrong = Vec<(Option<String>, String)>;

fn wrong_rows(reader: &Reader) -> Result<Wrong, Error> {
    let mut wrong = Wrong::new();
    each(reader, &mut |OfSession { session, rows, .. }| {
        let mut rows = rows.unwrap_or_default();
        if wrong.len() < FINDINGS {
            rows.sort_by_key(|placed| placed.first);
            wrong.extend(Stored::of(reader, session, &rows)?.wrong(&rows));
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// The stored rows of one session.
struct Stored {
    session: Option<SessionRow>,
    runs: BTreeMap<RunId, RunRow>,
    receipts: BTreeMap<MessageId, ReceiptRow>,
    /// The open approval requests.
    asked: BTreeSet<CallId>,
}

impl Stored {
    /// Reads the rows; it finds the session by the key that its entries say.
    fn of(reader: &Reader, session: SessionId, rows: &[Placed]) -> Result<Self, Error> {
        let key = rows.iter().find_map(|placed| placed.row.session.as_ref()).map(|row| &row.key);
        let row = key.map(|key| reader.listed(key)).transpose()?.flatten();
        Ok(Self {
            session: row.filter(|row| row.session == session),
            runs: reader.runs(Some(session))?.into_iter().map(|row| (row.run, row)).collect(),
            receipts: reader.receipts(session)?.into_iter().map(|row| (row.message, row)).collect(),
            asked: reader.approvals(Some(session))?.into_iter().map(|row| row.call).collect(),
        })
    }

    fn wrong(&self, rows: &[Placed]) -> Wrong {
        let key = rows.iter().find_map(|placed| placed.row.session.as_ref()).map(|row| row.key.clone());
        let whats = rows.iter().flat_map(|placed| self.differing(&placed.row));
        whats.map(|what| (key.clone(), what)).collect()
    }

    /// How the stored rows differ from these.
    fn differing(&self, views: &Views) -> Vec<String> {
        let Self { session, runs, receipts, asked } = self;
        let other = |row: &&SessionRow| session.as_ref().is_none_or(|kept| !same_session(kept, row));
        let of_session = views.session.iter().filter(other).map(|_| differs(session.is_some(), "the session"));
        let other = |row: &&RunRow| runs.get(&row.run).is_none_or(|kept| !same_run(kept, row));
        let of_runs = views.runs.iter().filter(other);
        let of_runs = of_runs.map(|row| differs(runs.contains_key(&row.run), &format!("run {}", row.run)));
        let other = |row: &&ReceiptRow| receipts.get(&row.message) != Some(*row);
        let of_receipts = views.receipts.iter().filter(other);
        let of_receipts =
            of_receipts.map(|row| differs(receipts.contains_key(&row.message), &format!("message {}", row.message)));
        let of_calls = views.approvals.iter().filter(|row| row.allowed.is_none() != asked.contains(&row.call));
        let of_calls = of_calls.map(|row| differs(asked.contains(&row.call), &format!("call {}", row.call)));
        of_session.chain(of_runs).chain(of_receipts).chain(of_calls).collect()
    }
}

fn differs(is_there: bool, what: &str) -> String {
    format!("the row of {what} {}", if is_there { "is different" } else { "is missing" })
}

/// Compares two rows of a session. The last activity may come from progress, which is no entry.
fn same_session(kept: &SessionRow, row: &SessionRow) -> bool {
    let timeless = |row: &SessionRow| SessionRow { last_activity: Timestamp(0), ..row.clone() };
    // A row from before totals were kept has none.
    let totals = if kept.totals.is_none() { None } else { row.totals };
    timeless(kept) == SessionRow { totals, ..timeless(row) }
}

/// Compares two rows of a run. The row of a run in progress is not final. A row from before tokens, calls and time were
/// counted has no such figures, and one from before checkpoints were kept has no checkpoint.
fn same_run(kept: &RunRow, row: &RunRow) -> bool {
    let row = &RunRow { checkpoint: row.checkpoint.filter(|_| kept.checkpoint.is_some()), ..row.clone() };
    let is_older = (kept.tokens, kept.calls, kept.wall_ms) == (0, 0, 0);
    let counted = |row: &RunRow| is_older && *kept == RunRow { tokens: 0, calls: 0, wall_ms: 0, ..row.clone() };
    kept == row || counted(row) || (row.ended_at.is_none() && kept.ended_at.is_none() && kept.session == row.session)
}
