//! The state along a line that is walked: the engine's own fold, and where entries were removed the snapshot that stands
//! for them. What may not live here: what is thought of an entry by itself (`walk`).

use std::mem;

use engine::tables::transitions::{self, RunState};
use engine::{BranchId, Event, Session, Timestamp};

use super::walk::{Audited, Checkpoint, EntryContent};
use crate::sqlite::reader::Reader;
use crate::{Read as _, Snapshot};

/// The state after the entries of a line that were taken so far.
#[derive(Debug, Clone, Default)]
pub struct Replay(Known);

#[derive(Debug, Clone, Default)]
enum Known {
    /// No entry was taken yet.
    #[default]
    Nothing,
    /// What the entries add up to.
    State(Box<Session>),
    /// What this entry did was removed, and no snapshot has come since.
    Removed(Checkpoint),
    /// An entry could not be believed: nothing after it can be.
    Lost,
}

impl Replay {
    /// The state, where it is known.
    pub fn session(&self) -> Option<&Session> {
        match &self.0 {
            Known::State(session) => Some(session),
            Known::Nothing | Known::Removed(_) | Known::Lost => None,
        }
    }

    /// Whether no entry was taken yet.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Known::Nothing)
    }

    /// The first removed entry that no snapshot has stood for yet.
    pub fn removed(&self) -> Option<Checkpoint> {
        match self.0 {
            Known::Removed(at) => Some(at),
            Known::Nothing | Known::State(_) | Known::Lost => None,
        }
    }

    /// Nothing after this can be believed.
    pub fn lose(&mut self) {
        self.0 = Known::Lost;
    }

    /// Takes the next entry of the line. The error says why it does not follow from those before it.
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
        _ => (Known::Lost, Err("its line does not begin with `created`".to_owned())),
    }
}

/// The engine's own fold; an edge that the tables do not have was never taken.
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
    /// The state that a good snapshot of this version says, if one stands there.
    fn state_at(&self, Checkpoint { branch, seq }: Checkpoint) -> Option<Session> {
        let snapshot: Snapshot = self.snapshot(branch, seq).ok().flatten()?;
        snapshot.session().ok().flatten()
    }
}
