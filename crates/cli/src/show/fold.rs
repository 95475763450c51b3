//! The walk through a branch: the engine's own fold, with a look at each entry on the way.

use engine::tables::transitions::RunState;
use engine::{BranchId, Epoch, Event, RecoverError, RunId, Seq, Session};
use journal::{Entry, Read};

/// An entry with the state on both sides of it.
pub(crate) struct Transition<'a> {
    /// The entry.
    pub(crate) entry: &'a Entry,
    /// The state of the session's run before it.
    pub(crate) from: RunState,
    /// And after it; `completed` where it ended the run.
    pub(crate) to: RunState,
    /// The run that it belongs to: the one under way before or after it.
    pub(crate) run: Option<RunId>,
    /// The owner before it, and whether that one had left in order by then.
    pub(crate) owner: (Epoch, Left),
    /// The session after it.
    pub(crate) session: &'a Session,
}

/// Whether an owner has left in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// It has said so, or there was none.
    InOrder,
    /// It has not: it is at work, or was cut off.
    Not,
}

/// The entries of a branch's line, from its first branch on.
pub(crate) fn entries(read: &dyn Read, branch: BranchId) -> Result<Vec<Entry>, journal::Error> {
    Ok(read.history(branch)?.segments.into_iter().flat_map(|segment| segment.entries).collect())
}

/// Walks through the entries of a line, then folds the progress of what is open.
pub(crate) fn fold(
    entries: &[Entry],
    progress: &[engine::Record],
    mut visit: impl FnMut(&Transition<'_>),
) -> Result<Session, RecoverError> {
    let (first, rest) = entries.split_first().ok_or(RecoverError::NoBeginning)?;
    let Event::Created(created) = &first.event else { return Err(RecoverError::NoBeginning) };
    let mut session = Session::created(created, first.at);
    visit(&Transition {
        entry: first,
        from: RunState::Idle,
        to: RunState::Idle,
        run: None,
        owner: (Epoch(0), Left::InOrder),
        session: &session,
    });
    let mut last = first.seq;
    for entry in rest {
        // The line goes on in a branch that was forked here: its entries count from 1 again.
        if matches!(entry.event, Event::Forked(_)) {
            (last, session.head) = (Seq(0), Seq(0));
        }
        let expected = Seq(last.0 + 1);
        if entry.seq != expected {
            return Err(RecoverError::Gap { expected, found: entry.seq });
        }
        last = entry.seq;
        let (from, run) = (session.run_state(), session.run().map(|run| run.id));
        let owner = (session.epoch, if session.closed { Left::InOrder } else { Left::Not });
        session.apply(&entry.event, entry.at);
        let to = if matches!(entry.event, Event::RunEnded(_)) { RunState::Completed } else { session.run_state() };
        let run = run.or_else(|| session.run().map(|run| run.id));
        visit(&Transition { entry, from, to, run, owner, session: &session });
    }
    for record in progress {
        session.apply(&record.event, record.at);
    }
    Ok(session)
}
