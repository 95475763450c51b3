//! A session as its journal gives it back, and how much was folded for it. What may not live here: its actor.

use std::sync::Arc;

use engine::{BranchId, Hash, Machine, Settings};
use journal::{Journal, Unsaved};

use crate::runtime::Error;

/// A machine, and what a snapshot of it would spare the next owner.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) machine: Machine,
    pub(crate) unsaved: Unsaved,
}

/// Folds what the journal has of this session.
pub(crate) fn recover(journal: &dyn Journal, key: &str, branch: BranchId) -> Result<Recovered, Error> {
    let line = journal.line(branch)?;
    let unsaved = Unsaved::of(&line);
    let settings = |hash: Hash| {
        let bytes = journal.body(&hash).ok().flatten()?;
        Settings::from_bytes(&bytes).ok().map(Arc::new)
    };
    let machine = Machine::recover(line.into(), &settings);
    let machine = machine.map_err(|error| Error::Damaged { key: key.to_owned(), error })?;
    Ok(Recovered { machine, unsaved })
}
