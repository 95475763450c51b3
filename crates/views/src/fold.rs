//! The walk through a branch: the engine's own fold, with a visit to each entry on the way.

use engine::tables::transitions::RunState;
use engine::{Epoch, Event, RecoverError, RunId, Seq, Session};
use journal::{Entry, StoredLineage};

/// An entry with the state before and after it.
pub(crate) struct Transition<'a> {
    pub(crate) entry: &'a Entry,
    /// The state of the session's run before it; `completed` if the entry before ended the run.
    pub(crate) from: RunState,
    /// The state after it; `completed` if it ended the run.
    pub(crate) to: RunState,
    /// The run that it belongs to: the active one before or after it.
    pub(crate) run: Option<RunId>,
    /// The owner before it, and whether that owner had shut down in order by then.
    pub(crate) owner: (Epoch, Left),
    /// The session after it.
    pub(crate) session: &'a Session,
}

/// The run that the last entry ended. In the state it is gone by then; the entry that follows leaves `completed`.
#[derive(Debug, Default)]
pub(crate) struct EndedRun(Option<RunId>);

impl EndedRun {
    /// The state before this entry, and its run, where the session has this state and this run.
    pub(crate) fn before(
        &mut self,
        event: Option<&Event>,
        state: RunState,
        run: Option<RunId>,
    ) -> (RunState, Option<RunId>) {
        let ends = if let Some(Event::RunEnded(e)) = event { Some(e.run) } else { None };
        match std::mem::replace(&mut self.0, ends) {
            Some(ended) if state == RunState::Idle => (RunState::Completed, Some(ended)),
            Some(_) | None => (state, run),
        }
    }
}

/// How an owner left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// It shut down in order, or there was none.
    InOrder,
    /// It did not: it is running, or it crashed.
    Not,
}

/// Folds the entries of a branch, then the progress of what is open. If entries were removed, the fold begins with the
/// snapshot that replaces them.
pub(crate) fn fold(line: &StoredLineage, visit: impl FnMut(&Transition<'_>)) -> Result<Session, RecoverError> {
    walk(line, |_, _| {}, visit)
}

/// The same, with a visit to the session before each entry.
pub(crate) fn walk(
    line: &StoredLineage,
    mut before: impl FnMut(&Session, &Entry),
    mut visit: impl FnMut(&Transition<'_>),
) -> Result<Session, RecoverError> {
    let mut session = line.start.as_ref().map(|start| start.session.clone());
    let mut ended = EndedRun::default();
    for (branch, entry) in line.entries() {
        let Some(session) = &mut session else {
            session = Some(begin(entry, &mut visit)?);
            continue;
        };
        // The lineage continues in a branch that was forked here: its entries count from 1 again.
        if matches!(entry.event, Event::Forked(_)) {
            session.enter(branch);
        }
        let expected = Seq(session.account.head.0 + 1);
        if entry.seq != expected {
            return Err(RecoverError::Gap { expected, found: entry.seq });
        }
        let (from, run) = ended.before(Some(&entry.event), session.run_state(), session.run().map(|run| run.id));
        let owner = (session.account.epoch, if session.account.closed { Left::InOrder } else { Left::Not });
        before(session, entry);
        session.apply(&entry.event, entry.at);
        let to = if matches!(entry.event, Event::RunEnded(_)) { RunState::Completed } else { session.run_state() };
        let run = run.or_else(|| session.run().map(|run| run.id));
        visit(&Transition { entry, from, to, run, owner, session });
    }
    let mut session = session.ok_or(RecoverError::NoBeginning)?;
    for record in &line.progress {
        session.apply(&record.event, record.at);
    }
    Ok(session)
}

/// The first entry of a session.
fn begin(entry: &Entry, visit: &mut impl FnMut(&Transition<'_>)) -> Result<Session, RecoverError> {
    let Event::Created(created) = &entry.event else { return Err(RecoverError::NoBeginning) };
    let session = Session::created(created, entry.at);
    let (from, to, owner) = (RunState::Idle, RunState::Idle, (Epoch(0), Left::InOrder));
    visit(&Transition { entry, from, to, run: None, owner, session: &session });
    Ok(session)
}

/// The entry up to which earlier ones were removed, where the lineage begins, as `BRANCH@SEQ`.
pub(crate) fn removed_to(line: &StoredLineage) -> Option<String> {
    line.start.as_ref().map(|start| format!("{}@{}", start.session.account.branch, start.session.account.head))
}
