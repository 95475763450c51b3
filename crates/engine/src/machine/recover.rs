//! From a journal back to a machine: the same fold, checked against the same tables.

use std::sync::Arc;

use super::Machine;
use crate::batch::Record;
use crate::event::Event;
use crate::ids::{Hash, Seq};
use crate::settings::Settings;
use crate::tables::transitions::{self, RunState};

/// Where settings are brought back from.
pub type SettingsSource<'a> = &'a dyn Fn(Hash) -> Option<Arc<Settings>>;

/// A journal that no machine can have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// It is empty, or begins with something else.
    #[error("the branch does not begin with `created`")]
    NoBeginning,
    /// Entries are missing or out of order.
    #[error("entry {expected} is missing: the next one is {found}")]
    Gap {
        /// What should come.
        expected: Seq,
        /// What comes.
        found: Seq,
    },
    /// An event takes an edge that the table does not have.
    #[error("entry {seq} (`{event}`) leads from {from} to {to}, which no run can do")]
    Edge {
        /// Where.
        seq: Seq,
        /// The kind.
        event: &'static str,
        /// The state before.
        from: RunState,
        /// The state after.
        to: RunState,
    },
    /// The settings of the run that is under way are gone.
    #[error("the settings {hash} of run under way are not in the store")]
    Settings {
        /// Their hash.
        hash: Hash,
    },
}

impl Machine {
    /// Folds a branch, then the progress of the effects that are open in it.
    pub fn recover(
        records: impl IntoIterator<Item = Record>,
        settings: SettingsSource<'_>,
    ) -> Result<Self, RecoverError> {
        let mut machine = Self::new();
        let mut expected = Seq(1);
        for record in records {
            if let Some(found) = record.seq {
                if found != expected {
                    return Err(RecoverError::Gap { expected, found });
                }
                expected.0 += 1;
            }
            machine.fold(&record, expected)?;
        }
        let session = machine.session.as_ref().ok_or(RecoverError::NoBeginning)?;
        if let Some(run) = session.run() {
            let hash = run.settings;
            machine.settings = Some(settings(hash).ok_or(RecoverError::Settings { hash })?);
        }
        Ok(machine)
    }

    fn fold(&mut self, record: &Record, next: Seq) -> Result<(), RecoverError> {
        let Some(session) = self.session.as_mut() else {
            if !matches!(record.event, Event::Created(_)) {
                return Err(RecoverError::NoBeginning);
            }
            self.apply(&record.event, record.at);
            return Ok(());
        };
        let from = session.run_state();
        session.apply(&record.event, record.at);
        let ended = matches!(record.event, Event::RunEnded(_));
        let to = if ended { RunState::Completed } else { session.run_state() };
        let taken = record.event.trigger().filter(|_| from != RunState::Idle && record.seq.is_some());
        match taken {
            Some(trigger) if !transitions::allowed(from, trigger, to) => {
                Err(RecoverError::Edge { seq: Seq(next.0 - 1), event: record.event.kind(), from, to })
            }
            _ => Ok(()),
        }
    }
}
