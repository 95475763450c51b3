//! Rebuilds the views from the entries, as the appends have left them.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{BranchId, Event, Hash, MessageSettled, Position, Session, SessionId, Settings, Touched, Views};

use crate::{Entry, Error, Read, StoredLineage};

/// Every row that the entries imply, in the order in which the rows were first recorded.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// The rows; only the last state of each.
    pub rows: Vec<Views>,
    /// Sessions that cannot be read, and why: they have no rows here.
    pub unreadable: Vec<(SessionId, Error)>,
}

/// What the entries of one session imply.
#[derive(Debug)]
pub struct OfSession {
    /// The id of the session.
    pub session: SessionId,
    /// Its rows in no order, only the last state of each; an error if the session cannot be read.
    pub rows: Result<Vec<Placed>, Error>,
    /// Whether all of its entries exist. If some were removed, the views also have rows that no entry implies any more.
    pub is_complete: bool,
}

/// A row with its place in the order in which rows were first recorded.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Placed {
    /// The entry that first recorded it, and the index of the row within that entry.
    pub first: (Position, usize),
    pub row: Views,
}

/// Folds all sessions, one after the other, and calls `visit` with the rows of each. The journal must not change
/// meanwhile.
pub fn each(read: &dyn Read, visit: &mut dyn FnMut(OfSession) -> Result<(), Error>) -> Result<(), Error> {
    let mut sessions = BTreeMap::<SessionId, Vec<BranchId>>::new();
    for (branch, session) in read.branches()? {
        sessions.entry(session).or_default().push(branch);
    }
    for (session, branches) in sessions {
        let mut rows = Rows::default();
        let (rows, is_complete) = match rows.read(read, &branches) {
            Ok(is_complete) => (Ok(rows.placed()), is_complete),
            Err(error) if error.kind() == crate::Kind::Store => return Err(error),
            Err(error) => (Err(error), false),
        };
        visit(OfSession { session, rows, is_complete })?;
    }
    Ok(())
}

/// The rows of all sessions at once.
pub fn rebuilt(read: &dyn Read) -> Result<Rebuilt, Error> {
    let (mut placed, mut unreadable) = (vec![], vec![]);
    each(read, &mut |OfSession { session, rows, .. }| {
        match rows {
            Ok(rows) => placed.extend(rows),
            Err(error) => unreadable.push((session, error)),
        }
        Ok(())
    })?;
    placed.sort_by_key(|placed: &Placed| placed.first);
    Ok(Rebuilt { rows: placed.into_iter().map(|placed| placed.row).collect(), unreadable })
}

/// The table and key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Session(SessionId),
    Run(engine::RunId),
    Receipt(engine::MessageId),
    Approval(engine::CallId),
}

/// A row with the entries that first and last wrote it.
#[derive(Debug)]
struct Kept {
    first: (Position, usize),
    last: Position,
    row: Views,
}

#[derive(Debug, Default)]
struct Rows(BTreeMap<Key, Kept>);

impl Rows {
    /// Folds the branches of a session; returns whether all of their entries exist. The last branch must be readable;
    /// of an abandoned branch it takes what can be read, except unfinished items: nothing continues them.
    fn read(&mut self, read: &dyn Read, branches: &[BranchId]) -> Result<bool, Error> {
        let mut is_complete = true;
        for (at, branch) in branches.iter().enumerate() {
            match read.history(*branch) {
                Ok(line) => {
                    is_complete &= line.start.is_none();
                    let mut of_line = Self::default();
                    of_line.walk(read, &line);
                    self.leave(of_line);
                }
                Err(error) if at + 1 == branches.len() || error.kind() == crate::Kind::Store => return Err(error),
                Err(_) => {}
            }
        }
        Ok(is_complete)
    }

    /// Continues in another line: items of the previous lines that are unfinished and not in this line no longer exist.
    fn leave(&mut self, line: Self) {
        self.0.retain(|key, kept| line.0.contains_key(key) || is_over(&kept.row));
        for (key, new) in line.0 {
            let kept = self.0.entry(key).or_insert(Kept { first: new.first, last: new.last, row: Views::default() });
            kept.first = kept.first.min(new.first);
            if new.last >= kept.last {
                (kept.last, kept.row) = (new.last, new.row);
            }
        }
    }

    fn walk(&mut self, read: &dyn Read, line: &StoredLineage) {
        let mut session = line.start.as_ref().map(|start| start.session.clone());
        let under_way = session.as_ref().and_then(Session::run).map(|run| run.settings);
        let mut settings: Option<(Hash, Arc<Settings>)> = under_way.and_then(|hash| settings_of(read, hash));
        if let Some(session) = &session {
            // Before every entry that exists.
            let rows = known(session).rows(session, settings.as_ref().map(|(_, settings)| &**settings), &mut None);
            self.put(rows, Position(0));
        }
        for (branch, entry) in line.entries() {
            let touched = step(&mut session, settings.as_ref().map(|(_, settings)| &**settings), branch, entry);
            let Some(session) = &session else { continue };
            if let Some(run) =
                session.run().filter(|run| settings.as_ref().is_none_or(|(hash, _)| *hash != run.settings))
            {
                settings = settings_of(read, run.settings);
            }
            self.put(
                touched.rows(session, settings.as_ref().map(|(_, settings)| &**settings), &mut None),
                entry.position,
            );
        }
    }

    fn put(&mut self, views: Views, position: Position) {
        let Views { session, runs, receipts, approvals } = views;
        let none = Views::default;
        let session = session.map(|row| (Key::Session(row.session), Views { session: Some(row), ..none() }));
        let runs = runs.into_iter().map(|row| (Key::Run(row.run), Views { runs: vec![row], ..none() }));
        let receipts =
            receipts.into_iter().map(|row| (Key::Receipt(row.message), Views { receipts: vec![row], ..none() }));
        let approvals =
            approvals.into_iter().map(|row| (Key::Approval(row.call), Views { approvals: vec![row], ..none() }));
        let all = session.into_iter().chain(runs).chain(receipts).chain(approvals);
        for (order, (key, row)) in all.enumerate() {
            let new = Kept { first: (position, order), last: position, row: Views::default() };
            let kept = self.0.entry(key).or_insert(new);
            kept.first = kept.first.min((position, order));
            if position >= kept.last {
                (kept.last, kept.row) = (position, row);
            }
        }
    }

    fn placed(self) -> Vec<Placed> {
        self.0.into_values().map(|Kept { first, row, .. }| Placed { first, row }).collect()
    }
}

/// Whether the item of this row is finished.
fn is_over(row: &Views) -> bool {
    use engine::ReceiptState::{Cancelled, Dropped, Ended, Refused};
    let is_settled = |row: &engine::ReceiptRow| matches!(row.state, Cancelled | Dropped | Ended | Refused);
    row.runs.iter().all(|row| row.ended_at.is_some())
        && row.receipts.iter().all(is_settled)
        && row.approvals.iter().all(|row| row.allowed.is_some())
}

/// The rows that a state implies by itself: the receipt of each message, and what is in progress.
fn known(session: &Session) -> Touched {
    let mut touched = Touched::default();
    for (id, message) in &session.account.messages {
        let settled = MessageSettled {
            message: *id,
            state: message.state,
            run: Some(message.run),
            leg: None,
            in_next_run: false,
        };
        touched.note(session, None, &settled.into(), message.accepted_at);
    }
    touched
}

/// Folds one entry; returns which rows it changes.
fn step(session: &mut Option<Session>, settings: Option<&Settings>, branch: BranchId, entry: &Entry) -> Touched {
    let mut touched = Touched::default();
    match (session, &entry.event) {
        (Some(session), event) => {
            if session.account.branch != branch {
                session.enter(branch);
            }
            touched.note(session, settings, event, entry.at);
            session.apply(event, entry.at);
        }
        (session @ None, Event::Created(created)) => *session = Some(Session::created(created, entry.at)),
        (None, _) => {}
    }
    touched
}

fn settings_of(read: &dyn Read, hash: Hash) -> Option<(Hash, Arc<Settings>)> {
    let bytes = read.body(&hash).ok().flatten()?;
    Some((hash, Arc::new(Settings::from_bytes(&bytes).ok()?)))
}
