//! What every actor and effect of a home shares.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use engine::{CallOutcome, CallSettled, EffectId, Timestamp};
use journal::Journal;
use tokio::sync::{mpsc, watch};

use super::{Deliver, Published, Resolver};
use crate::actor::CommitRelay;
use crate::budget_pool::BudgetHandle;
use crate::clock::Clock;
use crate::conversation_cache::ConversationCache;
use crate::disk_full::DiskFullWait;
use crate::idle::IdleSlots;
use crate::lanes::LaneHandle;
use crate::latest::Latest;
use crate::ledger::HomeLedger;
use crate::sessions::Sessions;

/// What every actor and effect of a home shares.
pub(crate) struct Shared {
    pub(crate) home: PathBuf,
    /// The home, which no tool may read or write.
    pub(crate) own: tools::Protected,
    pub(crate) supervisor: PathBuf,
    pub(crate) resolver: Box<dyn Resolver>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) models: models::ModelSet,
    pub(crate) tools: tools::ToolSet,
    pub(crate) deliver: Option<Arc<dyn Deliver>>,
    pub(crate) clock: Clock,
    pub(crate) latest: Latest,
    pub(crate) ledger: HomeLedger,
    pub(crate) budget_pool: BudgetHandle,
    pub(crate) conversations: ConversationCache,
    pub(crate) sessions: Sessions,
    pub(crate) idle_slots: IdleSlots,
    pub(crate) commit_relay: CommitRelay,
    pub(super) events: Option<mpsc::UnboundedSender<Published>>,
    pub(crate) lanes: LaneHandle,
    pub(crate) broken: watch::Sender<Option<journal::Error>>,
    pub(super) disk_full_waits: watch::Sender<BTreeMap<String, DiskFullWait>>,
}

impl Shared {
    /// Reports that a session waits for disk space.
    pub(crate) fn record_disk_full(&self, key: &str, error: &journal::Error, next_look: Timestamp) {
        self.disk_full_waits.send_modify(|all| {
            let since = all.get(key).map_or_else(|| self.clock.now(), |wait| wait.since);
            all.insert(key.to_owned(), DiskFullWait { error: error.clone(), since, next_look });
        });
    }

    /// Reports that a session no longer waits.
    pub(crate) fn clear_disk_full(&self, key: &str) {
        self.disk_full_waits.send_if_modified(|all| all.remove(key).is_some());
    }

    /// Where `read` finds the whole of an output: in the journal.
    pub(crate) fn outputs(&self) -> tools::Outputs {
        let journal = Arc::clone(&self.journal);
        tools::Outputs::new(move |hash| journal.body(hash).map_err(std::io::Error::other))
    }

    /// Removes the record of a command once its result is synced. The record of one that could not be ended is kept.
    pub(crate) fn forget(&self, settled: &CallSettled) {
        let (Some(effect), false) = (settled.effect, settled.outcome == CallOutcome::Unended) else { return };
        // A record that cannot be removed is a file too many, not a fault; most calls have no record at all.
        let _ = tools::forget(&self.calls(), effect);
    }

    /// Removes the record of a process that is no longer listed.
    pub(crate) fn forget_process(&self, process: EffectId) {
        let _ = tools::forget_process(&self.calls(), process);
    }

    /// Removes what the changes of a background command were found with, once they are recorded.
    pub(crate) fn process_recorded(&self, process: EffectId) {
        tools::process_recorded(&self.calls(), process);
    }

    /// Where contents of files are kept before they are changed.
    pub(crate) fn files(&self, limits: tools::StoreLimits) -> tools::FileStore {
        tools::FileStore::new(self.home.join("files"), limits)
    }

    /// The folder of the records of commands.
    pub(crate) fn calls(&self) -> PathBuf {
        self.home.join("calls")
    }

    pub(crate) fn publish(&self, published: Published) {
        if let Some(events) = &self.events {
            // A subscriber that is gone is skipped.
            let _ = events.send(published);
        }
    }
}
