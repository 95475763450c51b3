//! The home's ledger: one machine for all of its sessions. What it decides is in the journal before anyone acts on it.
//!
//! What may not live here: a decision, which is the engine's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Batch, Candidate, Cooled, Ledger, Timestamp};
use journal::{Append, Read};
use tokio::sync::oneshot;

use crate::runtime::Shared;

/// The ledger as it is in the journal, and whose turn it is to change it.
#[derive(Debug)]
pub(crate) struct HomeLedger {
    recorded: Mutex<Ledger>,
    turn: tokio::sync::Mutex<()>,
    /// Why it could not be read. Then it knows only what was found out since this process owns the home, and keeps none of it.
    damage: Option<journal::Error>,
}

/// Folds the ledger of a home.
pub fn ledger(journal: &dyn Read) -> Result<Ledger, journal::Error> {
    let Some(branch) = journal.ledger()? else { return Ok(Ledger::default()) };
    let mut ledger = Ledger::on(branch);
    for (_, entry) in journal.history(branch)?.entries() {
        ledger.apply(&entry.event, entry.at);
    }
    Ok(ledger)
}

impl HomeLedger {
    /// As the journal says. With one that does not read the sessions of the home go on, and tell each other what they find
    /// out as long as this process lives; `limulus doctor` says what is wrong.
    pub(crate) fn read(journal: &dyn Read) -> Self {
        let (ledger, damage) = match ledger(journal) {
            Ok(ledger) => (ledger, None),
            Err(damage) => (Ledger::default(), Some(damage)),
        };
        Self { recorded: Mutex::new(ledger), turn: tokio::sync::Mutex::default(), damage }
    }

    /// Why it could not be read, if it could not.
    pub(crate) fn damage(&self) -> Option<&journal::Error> {
        self.damage.as_ref()
    }

    /// Orders the profiles of a chain.
    pub(crate) fn order(&self, chain: &mut [Candidate]) {
        self.recorded().order(chain);
    }

    /// The candidates of a chain that are to be left alone.
    pub(crate) fn cooling(&self, chain: &[Candidate], now: Timestamp) -> Vec<Cooled> {
        self.recorded().cooling(chain, now)
    }

    /// Whether an answer is worth a record ([`Ledger::is_news`]).
    pub(crate) fn is_news(&self, candidate: &Candidate, alone: bool, since: Timestamp) -> bool {
        self.recorded().is_news(candidate, alone, since)
    }

    fn recorded(&self) -> MutexGuard<'_, Ledger> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut ledger = shared.ledger.recorded().clone();
        let decided = decide(&mut ledger, shared.clock.now());
        if let Some(batch) = ledger.take_batch() {
            if shared.ledger.damage.is_none() {
                append(&shared, batch).await?;
            }
            *shared.ledger.recorded() = ledger;
        }
        shared.ledger.damage.clone().map_or(Ok(decided), Err)
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
