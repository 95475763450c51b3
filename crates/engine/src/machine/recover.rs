//! Rebuilds a machine from a journal: the same fold, checked against the same tables.

use std::sync::Arc;

use super::Machine;
use crate::batch::Record;
use crate::decide::Decide as _;
use crate::event::Event;
use crate::ids::{BranchId, Hash, Seq};
use crate::settings::Settings;
use crate::state::Session;
use crate::tables::transitions::{self, RunState};

/// The source of stored settings.
pub type SettingsSource<'a> = &'a dyn Fn(Hash) -> Option<Arc<Settings>>;

/// The journal of a session: if a branch was forked, its lineage begins in the branch that it left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lineage {
    /// The state that the first segment continues; none when that begins with `created`.
    pub start: Option<Session>,
    /// Entries in the order in which they are folded.
    pub segments: Vec<LineageSegment>,
    /// Progress that none of them seals.
    pub progress: Vec<Record>,
}

/// The part of a lineage that lies in one branch.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct LineageSegment {
    pub branch: BranchId,
    /// Its entries; progress among them is folded where it stands.
    pub entries: Vec<Record>,
}

/// A journal that no machine can have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// It is empty, or begins with something else.
    #[error("the branch does not begin with `created`")]
    NoBeginning,
    /// Entries are missing or out of order.
    #[error("entry {expected} is missing: the next one is {found}")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Gap { expected: Seq, found: Seq },
    /// A branch that does not begin where the one before it was left.
    #[error("branch {branch} does not begin where it left its parent")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Fork { branch: BranchId },
    /// An event takes an edge that the table does not have.
    #[error("entry {seq} (`{event}`) leads from {from} to {to}, which no run can do")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Edge { seq: Seq, event: &'static str, from: RunState, to: RunState },
    /// The settings of the unfinished run are missing.
    #[error("the settings {hash} of the active run are not in the store")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Settings { hash: Hash },
}

impl Machine {
    /// Folds a lineage, then the progress of the effects that are open at its end.
    pub fn recover(line: Lineage, settings: SettingsSource<'_>) -> Result<Self, RecoverError> {
        let mut machine = Self { session: line.start, ..Self::default() };
        for LineageSegment { branch, entries } in line.segments {
            for record in entries {
                machine.enter(branch, &record.event)?;
                let expected = Seq(machine.session.as_ref().map_or(0, |session| session.account.head.0) + 1);
                match record.seq {
                    None => machine.apply(&record.event, record.at),
                    Some(seq) if seq == expected => machine.fold(&record)?,
                    Some(found) => return Err(RecoverError::Gap { expected, found }),
                }
            }
        }
        line.progress.iter().for_each(|record| machine.apply(&record.event, record.at));
        let session = machine.session.as_ref().ok_or(RecoverError::NoBeginning)?;
        if let Some(run) = session.run() {
            let hash = run.settings;
            machine.settings = Some(settings(hash).ok_or(RecoverError::Settings { hash })?);
        }
        Ok(machine)
    }

    /// Continues in the branch of the next entry; a new branch must begin exactly here.
    fn enter(&mut self, branch: BranchId, next: &Event) -> Result<(), RecoverError> {
        let Some(session) = self.session.as_mut().filter(|session| session.account.branch != branch) else {
            return Ok(());
        };
        if !matches!(next, Event::Forked(e) if (e.parent, e.at) == (session.account.branch, session.account.head)) {
            return Err(RecoverError::Fork { branch });
        }
        session.enter(branch);
        Ok(())
    }

    fn fold(&mut self, record: &Record) -> Result<(), RecoverError> {
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
        let taken = record.event.trigger().filter(|_| from != RunState::Idle);
        match taken {
            Some(trigger) if !transitions::allowed(from, trigger, to) => {
                Err(RecoverError::Edge { seq: session.account.head, event: record.event.kind(), from, to })
            }
            _ => Ok(()),
        }
    }
}
