//! A session as its journal gives it back, and how much was folded for it. What may not live here: its actor.

use std::sync::Arc;

use engine::{BranchId, Hash, Machine, Session, Settings};
use journal::{Journal, Snapshot};

use crate::runtime::Error;

/// A machine, and what a snapshot of it would spare the next owner.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) machine: Machine,
    pub(crate) unsaved: Unsaved,
}

/// What was folded since the last snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unsaved {
    entries: u64,
    /// Bytes of that snapshot.
    bytes: u64,
}

impl Unsaved {
    pub(crate) fn add(&mut self, batch: &engine::Batch) {
        self.entries += batch.records.iter().filter(|record| record.seq.is_some()).count() as u64;
    }

    /// The snapshot that is due, which counts as kept from now on.
    pub(crate) fn take_due(&mut self, session: &Session) -> Option<Snapshot> {
        if !session.snapshot_due(self.entries, self.bytes) {
            return None;
        }
        let content = session.to_snapshot();
        *self = Self { entries: 0, bytes: content.len() as u64 };
        Some(Snapshot::new(session.branch, session.head, content))
    }
}

/// Folds what the journal has of this session.
pub(crate) fn recover(journal: &dyn Journal, key: &str, branch: BranchId) -> Result<Recovered, Error> {
    let line = journal.line(branch)?;
    let entries = line.entries().count() as u64;
    let unsaved = Unsaved { entries, bytes: line.start.as_ref().map_or(0, |start| start.bytes) };
    let settings = |hash: Hash| {
        let bytes = journal.body(&hash).ok().flatten()?;
        Settings::from_bytes(&bytes).ok().map(Arc::new)
    };
    let machine = Machine::recover(line.into(), &settings);
    let machine = machine.map_err(|error| Error::Damaged { key: key.to_owned(), error })?;
    Ok(Recovered { machine, unsaved })
}
