//! The order around the ledger: one change at a time, and nobody acts on it before it is recorded. The runtime and the simulator
//! drive the same. What may not live here: a decision.

use super::{CooldownLifted, CooldownSet, Ledger};
use crate::batch::Batch;
use crate::ids::{RunId, Timestamp};
use crate::input::Report;
use crate::settings::Candidate;

/// The ledger as it is in the journal, and what is being appended to it.
///
/// The contract of the driver: `decide`, append what that gives, and tell `committed` or `failed` before the next.
#[derive(Debug, Clone, Default)]
pub struct LedgerPump {
    recorded: Ledger,
    ahead: Option<Ledger>,
    changes: u64,
}

impl LedgerPump {
    /// Around a ledger that is what the journal says.
    pub fn new(recorded: Ledger) -> Self {
        Self { recorded, ahead: None, changes: 0 }
    }

    /// The ledger as it is in the journal.
    pub fn recorded(&self) -> &Ledger {
        &self.recorded
    }

    /// How often it has changed since this process has it. Whoever has seen this number has nothing new to see.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether something is being appended.
    pub fn is_appending(&self) -> bool {
        self.ahead.is_some()
    }

    /// Decides on the ledger as it is recorded; gives what is to be appended, none where nothing has changed.
    ///
    /// # Panics
    /// While something is being appended.
    pub fn decide<T>(&mut self, decide: impl FnOnce(&mut Ledger) -> T) -> (T, Option<Batch>) {
        assert!(!self.is_appending(), "the ledger changes one append at a time");
        let mut ledger = self.recorded.clone();
        let decided = decide(&mut ledger);
        let batch = ledger.take_batch();
        self.ahead = batch.is_some().then_some(ledger);
        (decided, batch)
    }

    /// What was decided is in the journal, as durable as it asks to be.
    pub fn committed(&mut self) {
        if let Some(ledger) = self.ahead.take() {
            self.recorded = ledger;
            self.changes += 1;
        }
    }

    /// What was decided is not in the journal: it is as if nobody had.
    pub fn failed(&mut self) {
        self.ahead = None;
    }

    /// What a run is to be told that was last told after `seen` changes (none = it was not).
    pub fn update(&self, seen: &mut Option<u64>, chain: &[Candidate], run: RunId, now: Timestamp) -> LedgerUpdate {
        if seen.replace(self.changes) == Some(self.changes) {
            return LedgerUpdate::default();
        }
        self.recorded.standing(chain, run, now)
    }
}

/// What the ledger says has changed for a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerUpdate {
    /// Whom it is to leave alone now.
    pub cooling: Vec<CooldownSet>,
    /// Whom it may ask again; none of the others.
    pub cleared: Vec<CooldownLifted>,
}

impl LedgerUpdate {
    /// The reports of it. A request may follow from the last.
    pub fn reports(self) -> impl Iterator<Item = Report> {
        let Self { cooling, cleared } = self;
        let cooling = (!cooling.is_empty()).then_some(Report::CooldownSet { cooling });
        cooling.into_iter().chain((!cleared.is_empty()).then_some(Report::CooldownLifted { cleared }))
    }
}
