//! The views made anew from the entries, as the appends have left them. What may not live here: SQL.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{BranchId, Event, Hash, Position, Session, SessionId, Settings, Touched, Views};

use crate::{Entry, Error, Line, Read};

/// Every row that the entries give, in the order in which the rows were first recorded.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// The rows; only the last state of each.
    pub rows: Vec<Views>,
    /// Sessions that cannot be read, and why: there are no rows of them.
    pub unreadable: Vec<(SessionId, Error)>,
}

/// Folds every session and gives the rows of the views. What is read must not change meanwhile.
pub fn rebuilt(read: &dyn Read) -> Result<Rebuilt, Error> {
    let mut sessions = BTreeMap::<SessionId, Vec<BranchId>>::new();
    for (branch, session) in read.branches()? {
        sessions.entry(session).or_default().push(branch);
    }
    let (mut rows, mut rebuilt) = (Rows::default(), Rebuilt::default());
    for (session, branches) in sessions {
        match of_session(read, &branches) {
            Ok(of_session) => rows.extend(of_session),
            Err(error) if error.kind() == crate::Kind::Store => return Err(error),
            Err(error) => rebuilt.unreadable.push((session, error)),
        }
    }
    rebuilt.rows = rows.in_order();
    Ok(rebuilt)
}

/// The rows of one session. Its last branch must be readable; of one that it left, what can be read is taken.
fn of_session(read: &dyn Read, branches: &[BranchId]) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    for (at, branch) in branches.iter().enumerate() {
        match read.history(*branch) {
            Ok(line) => rows.walk(read, &line),
            Err(error) if at + 1 == branches.len() || error.kind() == crate::Kind::Store => return Err(error),
            Err(_) => {}
        }
    }
    Ok(rows)
}

/// What a row is about: table and key.
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
    fn walk(&mut self, read: &dyn Read, line: &Line) {
        let mut session = line.start.as_ref().map(|start| start.session.clone());
        let mut settings: Option<(Hash, Arc<Settings>)> = None;
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

    fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn in_order(self) -> Vec<Views> {
        let mut rows: Vec<Kept> = self.0.into_values().collect();
        rows.sort_by_key(|kept| kept.first);
        rows.into_iter().map(|kept| kept.row).collect()
    }
}

/// Folds one entry; says which rows it changes.
fn step(session: &mut Option<Session>, settings: Option<&Settings>, branch: BranchId, entry: &Entry) -> Touched {
    let mut touched = Touched::default();
    match (session, &entry.event) {
        (Some(session), event) => {
            if session.branch != branch {
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
