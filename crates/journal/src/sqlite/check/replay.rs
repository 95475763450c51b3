//! Folds the state along a line during a walk: the engine's own fold, or a snapshot where entries were removed.

use std::mem;

use engine::tables::transitions::{self, RunState};
use engine::{BranchId, Event, Session, Timestamp};

use super::walk::{Audited, Checkpoint, EntryContent};
use crate::sqlite::reader::Reader;
use crate::{Read as _, Snapshot};

/// The state after the entries of a line that were folded so far.
#[derive(Debug, Clone, Default)]
pub struct Replay(Known);

#[derive(Debug, Clone, Default)]
enum Known {
    /// No entry was folded yet.
    #[default]
    Nothing,
    State(Box<Session>),
    /// The entry at this point was removed, and no snapshot has covered it since.
    Removed(Checkpoint),
    /// An entry was corrupt, so the state after it is unknown.
    Lost,
}

impl Replay {
    /// The state, if it is known.
    pub fn session(&self) -> Option<&Session> {
        match &self.0 {
            Known::State(session) => Some(session),
            Known::Nothing | Known::Removed(_) | Known::Lost => None,
        }
    }

    /// Whether no entry was folded yet.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Known::Nothing)
    }

    /// The first removed entry that no snapshot covers yet.
    pub fn removed(&self) -> Option<Checkpoint> {
        match self.0 {
            Known::Removed(at) => Some(at),
            Known::Nothing | Known::State(_) | Known::Lost => None,
        }
    }

    /// Marks the state as unknown from here on.
    pub fn lose(&mut self) {
        self.0 = Known::Lost;
    }

    /// Folds the next entry of the line. The error says why the entry does not follow from those before it.
    pub fn take(&mut self, reader: &Reader, audited: &Audited) -> Result<(), String> {
        let here = audited.checkpoint();
        let (known, followed) = match (mem::take(&mut self.0), &audited.content) {
            (Known::Lost, _) | (_, EntryContent::Lost) => (Known::Lost, Ok(())),
            (known @ Known::Removed(_), _) => (known, Ok(())),
            (Known::Nothing | Known::State(_), EntryContent::Removed) => (Known::Removed(here), Ok(())),
            (Known::Nothing, EntryContent::Event(event)) => begun(event, audited.at),
            (Known::State(session), EntryContent::Event(event)) => folded(session, audited.branch, event, audited.at),
        };
        self.0 = known;
        if self.removed().is_some()
            && let Some(session) = reader.state_at(here)
        {
            self.0 = Known::State(Box::new(session));
        }
        followed
    }
}

fn begun(event: &Event, at: Timestamp) -> (Known, Result<(), String>) {
    match event {
        Event::Created(created) => (Known::State(Box::new(Session::created(created, at))), Ok(())),
        _ => (Known::Lost, Err("its line does not start with `created`".to_owned())),
    }
}

/// Folds with the engine; a transition that the tables do not have is an error.
fn folded(mut session: Box<Session>, branch: BranchId, event: &Event, at: Timestamp) -> (Known, Result<(), String>) {
    if matches!(event, Event::Forked(_)) {
        session.enter(branch);
    }
    let from = session.run_state();
    session.apply(event, at);
    let to = if matches!(event, Event::RunEnded(_)) { RunState::Completed } else { session.run_state() };
    let taken = event.trigger().filter(|_| from != RunState::Idle);
    match taken.filter(|trigger| !transitions::allowed(from, *trigger, to)) {
        Some(_) => (Known::Lost, Err(format!("`{}` leads from {from} to {to}, which no run can do", event.kind()))),
        None => (Known::State(session), Ok(())),
    }
}

impl Reader {
    /// The state of a valid snapshot at this point, if there is one that this version can read.
    fn state_at(&self, Checkpoint { branch, seq }: Checkpoint) -> Option<Session> {
        let snapshot: Snapshot = self.snapshot(branch, seq).ok().flatten()?;
        snapshot.session().ok().flatten()
    }
}
