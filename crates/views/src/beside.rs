//! What is shown beside the flags (R21): how the last run ended, whether an abort is accepted, and the resources.

use std::cell::RefCell;
use std::collections::BTreeMap;

use engine::{
    Budget, Flags, Hash, Outcome, Resources, RunRow, Session, SessionId, SessionRow, SessionTotals, Settings, Timestamp,
};
use journal::Read;

use super::budget::SharedPool;
use super::lookup::FoundRun;
use super::{Source, owner};
use crate::error::Error;

/// Reads what is shown beside the flags of several sessions; reads the same settings once.
pub struct Beside<'a> {
    /// The home.
    pub source: &'a Source<'a>,
    memory: Option<u64>,
    of_settings: RefCell<BTreeMap<Hash, OfSettings>>,
    /// What all sessions share.
    pub pool: SharedPool,
}

impl<'a> Beside<'a> {
    /// Asks the system about the owner of the home.
    pub fn new(source: &'a Source<'a>) -> Self {
        let memory = owner(source.home).and_then(|owner| owner.resident_bytes);
        Self { source, memory, of_settings: RefCell::default(), pool: SharedPool::default() }
    }

    /// The flags of a session, of which the journal does not know that it waits for space on the disk.
    pub fn flags(&self, row: &SessionRow, flags: Flags) -> Flags {
        let is_full = self.source.full.contains(&row.key);
        if is_full { flags.with_full_store(row.lifecycle) } else { flags }
    }

    /// The resources of a session. `session` is its state if it was read; `last` is its last run.
    pub fn of_session(
        &self,
        row: &SessionRow,
        session: Option<&Session>,
        last: Option<&RunRow>,
    ) -> Result<Resources, Error> {
        let configured = self.budget(last)?;
        let resources = match (session, row.totals) {
            (Some(session), _) => session.resources(&configured),
            (None, Some(totals)) => at_rest(row, &totals, &configured),
            // A row of an older version does not know the totals until its session writes again. Its history is not read for
            // them: a list of thousands would read each, and one that is damaged would fail the list.
            (None, None) => at_rest(row, &SessionTotals::default(), &configured),
        };
        let started_at = resources.started_at.or(last.map(|run| run.started_at));
        Ok(Resources { memory_usage: self.memory, started_at, ..resources })
    }

    /// The resources of one run: its tokens and their limit, the rest as of its session.
    pub fn of_run(&self, found: &FoundRun, session: &Session) -> Result<Resources, Error> {
        let (row, configured) = (found.row.as_ref(), self.budget(found.row.as_ref())?);
        let resources = self.of_session(&found.session, Some(session), row)?;
        let started_at = row.map(|row| row.started_at);
        let reserve = &configured.reserves.run;
        let (spent, allowance) = match (session.run().filter(|run| run.id == found.run), row) {
            (Some(run), _) => (run.taken(), run.budget.allowance.or(configured.run)),
            (None, Some(row)) => (row.spent(), configured.run),
            (None, None) => Default::default(),
        };
        Ok(Resources { started_at, ..resources }.with_tokens(&spent, &allowance, reserve))
    }

    fn budget(&self, run: Option<&RunRow>) -> Result<Budget, Error> {
        run.map_or_else(|| Ok(Budget::default()), |run| Ok(self.settings(run)?.budget))
    }

    /// The folder in which a run works; none if its settings were erased.
    pub(crate) fn folder(&self, run: &RunRow) -> Result<Option<String>, Error> {
        Ok(Some(self.settings(run)?.folder).filter(|folder| !folder.is_empty()))
    }

    fn settings(&self, run: &RunRow) -> Result<OfSettings, Error> {
        if let Some(known) = self.of_settings.borrow().get(&run.settings) {
            return Ok(known.clone());
        }
        let settings = settings_of(self.source.read, run)?;
        let of = settings.map(|settings| OfSettings { budget: settings.budget, folder: settings.workspace });
        let of = of.unwrap_or_default();
        self.of_settings.borrow_mut().insert(run.settings, of.clone());
        Ok(of)
    }
}

/// The resources of a session without an active run, from its row.
pub(crate) fn at_rest(row: &SessionRow, totals: &SessionTotals, configured: &Budget) -> Resources {
    let resources = Resources {
        memory_limit: configured.memory,
        session_bytes: totals.spent.bytes,
        created_at: row.created_at,
        last_activity_at: row.last_activity,
        ..Resources::default()
    };
    resources.with_tokens(&totals.spent, &totals.allowance.or(configured.session), &configured.reserves.session)
}

/// What is shown of the settings of a run.
#[derive(Debug, Clone, Default)]
struct OfSettings {
    budget: Budget,
    folder: String,
}

/// The configured limits of a run.
pub(crate) fn budget_of(read: &dyn Read, run: &RunRow) -> Result<Budget, Error> {
    Ok(settings_of(read, run)?.map(|settings| settings.budget).unwrap_or_default())
}

fn settings_of(read: &dyn Read, run: &RunRow) -> Result<Option<Settings>, Error> {
    Ok(read.body(&run.settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()))
}

/// How the last run of a session that has ended did so.
pub fn last_outcome(read: &dyn Read, session: SessionId) -> Result<Option<Outcome>, Error> {
    let rows = read.runs_before(Some(session), None, ROWS)?;
    Ok(last_ended(&rows, None).and_then(|row| row.outcome))
}

/// How many of the last runs are read for the last one that has ended: one at most is active, and the others are here for a
/// reader that is behind.
pub(crate) const ROWS: usize = 4;

/// The last of these runs, oldest first, that had ended by then.
pub(crate) fn last_ended(rows: &[RunRow], until: Option<Timestamp>) -> Option<&RunRow> {
    let ended = |row: &&RunRow| row.ended_at.is_some_and(|at| until.is_none_or(|until| at <= until));
    rows.iter().rev().find(ended)
}
