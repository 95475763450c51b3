//! The home's ledger: one machine for all of its sessions. What it decides is in the journal before anyone acts on it.
//!
//! What may not live here: a decision, which is the engine's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{
    Allowance, Batch, BranchId, Candidate, CooldownSet, Event, Ledger, LedgerPump, LedgerUpdate, RunId, Seq, Timestamp,
};
use journal::{Append, Read, StoredLineage};
use tokio::sync::{oneshot, watch};

use crate::runtime::Shared;

/// The ledger as it is in the journal, and whose turn it is to change it.
#[derive(Debug)]
pub(crate) struct HomeLedger {
    pump: Mutex<LedgerPump>,
    turn: tokio::sync::Mutex<()>,
    changes: AtomicU64,
    cleared: watch::Sender<()>,
    /// Why it could not be read to its end. Then it knows what comes before that and what was found out since this process owns
    /// the home, and keeps none of the latter.
    damage: Option<journal::Error>,
}

/// Folds the ledger of a home.
pub fn ledger(journal: &dyn Read) -> Result<Ledger, journal::Error> {
    let Some(branch) = journal.ledger()? else { return Ok(Ledger::default()) };
    Ok(fold(branch, &journal.history(branch)?))
}

/// The ledger of a home as far as it can be believed, and why no further.
pub fn believed_ledger(journal: &dyn Read) -> (Ledger, Option<journal::Error>) {
    match ledger(journal) {
        Ok(ledger) => (ledger, None),
        Err(damage) => (before_damage(journal).unwrap_or_default(), Some(damage)),
    }
}

fn fold(branch: BranchId, line: &StoredLineage) -> Ledger {
    let mut ledger = Ledger::on(branch);
    for (_, entry) in line.entries() {
        ledger.apply(&entry.event, entry.at);
    }
    ledger
}

/// Where an entry does not read, no line that holds it does: the last that reads is searched for.
fn before_damage(journal: &dyn Read) -> Option<Ledger> {
    let branch = journal.ledger().ok()??;
    let (mut good, mut damaged) = (None, journal.last(branch).ok()?.0 + 1);
    while damaged - good.as_ref().map_or(0, |(at, _)| *at) > 1 {
        let at = damaged.midpoint(good.as_ref().map_or(0, |(at, _)| *at));
        match journal.history_until(branch, Seq(at)) {
            Ok(line) => good = Some((at, line)),
            Err(_) => damaged = at,
        }
    }
    good.map(|(_, line)| fold(branch, &line))
}

impl HomeLedger {
    /// As the journal says. With one that does not read to its end the sessions of the home go on with what reads, and tell
    /// each other what they find out as long as this process lives; `limulus doctor` says what is wrong.
    pub(crate) fn read(journal: &dyn Read) -> Self {
        let (ledger, damage) = believed_ledger(journal);
        Self {
            pump: Mutex::new(LedgerPump::new(ledger)),
            turn: tokio::sync::Mutex::default(),
            changes: AtomicU64::new(0),
            cleared: watch::Sender::new(()),
            damage,
        }
    }

    /// Why it could not be read, if it could not.
    pub(crate) fn damage(&self) -> Option<&journal::Error> {
        self.damage.as_ref()
    }

    /// Orders the profiles of a chain.
    pub(crate) fn order(&self, chain: &mut [Candidate]) {
        self.pump().recorded().order(chain);
    }

    /// The candidates of a run's chain that are to be left alone.
    pub(crate) fn cooling(&self, chain: &[Candidate], run: RunId, now: Timestamp) -> Vec<CooldownSet> {
        self.pump().recorded().cooling(chain, run, now)
    }

    /// What it says to a run, where that has changed after it was last told ([`LedgerPump::news`]).
    pub(crate) fn update(
        &self,
        seen: &mut Option<u64>,
        chain: &[Candidate],
        run: RunId,
        now: Timestamp,
    ) -> LedgerUpdate {
        // Asked before each piece of an answer.
        if Some(self.changes.load(Ordering::Acquire)) == *seen {
            return LedgerUpdate::default();
        }
        self.pump().update(seen, chain, run, now)
    }

    /// Changes when a user has cleared a profile: a run that only waits for one is offered nothing that would tell it.
    pub(crate) fn when_cleared(&self) -> watch::Receiver<()> {
        self.cleared.subscribe()
    }

    fn committed(&self, clears: bool) {
        let mut pump = self.pump();
        pump.committed();
        self.changes.store(pump.changes(), Ordering::Release);
        if clears {
            self.cleared.send_replace(());
        }
    }

    /// What was said that may be spent in a day.
    pub(crate) fn allowance(&self, agent: Option<&str>) -> Allowance {
        self.pump().recorded().allowance(agent)
    }

    /// Whether an answer is worth a record ([`Ledger::is_news`]).
    pub(crate) fn is_update(&self, candidate: &Candidate, alone: bool, since: Timestamp) -> bool {
        self.pump().recorded().is_update(candidate, alone, since)
    }

    fn pump(&self) -> MutexGuard<'_, LedgerPump> {
        self.pump.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides, and waits until it is in the journal. Whoever stops waiting changes nothing of that. Where the ledger is damaged
/// that is the error, and what was decided holds until this process ends.
pub(crate) async fn record<T: Send + 'static>(
    shared: &Arc<Shared>,
    decide: impl FnOnce(&mut Ledger, Timestamp) -> T + Send + 'static,
) -> Result<T, journal::Error> {
    let shared = Arc::clone(shared);
    let recording = async move {
        let _turn = shared.ledger.turn.lock().await;
        let now = shared.clock.now();
        let (decided, batch) = shared.ledger.pump().decide(|ledger| decide(ledger, now));
        let damage = shared.ledger.damage.clone();
        if let Some(batch) = batch {
            let clears = batch.records.iter().any(|record| matches!(record.event, Event::ProfileCleared(_)));
            let kept = if damage.is_none() { append(&shared, batch).await } else { Ok(()) };
            match kept {
                Ok(()) => shared.ledger.committed(clears),
                Err(error) => {
                    shared.ledger.pump().failed();
                    return Err(error);
                }
            }
        }
        damage.map_or(Ok(decided), Err)
    };
    tokio::spawn(recording).await.unwrap_or(Err(journal::Error::Gone))
}

async fn append(shared: &Shared, batch: Batch) -> Result<(), journal::Error> {
    let (done, kept) = oneshot::channel();
    let append = Append { batch: Arc::new(batch), epoch: shared.journal.epoch() };
    // Whoever does not wait any more needs no answer.
    shared.journal.append(append, Box::new(|answer| drop(done.send(answer))));
    kept.await.unwrap_or(Err(journal::Error::Gone)).map(|_| ())
}
