//! The runtime of a home: opens sessions, grants lanes, notifies subscribers, shuts down in order.

mod deliver;
mod error;
mod handle;
mod options;
mod published;
mod resolver;
mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Account, Allowance, ApprovalGrant, CallId, Command, Cooldown, LaneWait, LedgerAnswer, LedgerInput, RunId,
    SharedScope,
};
use journal::Journal;
use tokio::sync::watch;

use crate::actor::CommitRelay;
use crate::budget_pool::BudgetHandle;
use crate::clock::Clock;
use crate::conversation_cache::ConversationCache;
use crate::disk_full::DiskFullWait;
use crate::idle::IdleSlots;
use crate::lanes::LaneHandle;
use crate::latest::Latest;
use crate::ledger::{self, HomeLedger};
use crate::sessions::Sessions;

pub use deliver::{BodyTemplate, Deliver, DeliveryFuture, DeliveryRequest, DeliveryTrouble, RouteTarget};
pub use error::Error;
pub(crate) use handle::create;
pub use handle::{Acknowledgements, Handle};
pub use options::Options;
pub use published::Published;
pub use resolver::{NO_SPACE, Redaction, Resolver, SessionContext};
pub(crate) use shared::Shared;

/// How long a shutdown waits for logins that are being refreshed: one takes a second or two.
const REFRESHES: Duration = Duration::from_secs(5);

/// The runtime of one home.
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Runtime {
    /// The runtime of a home whose journal this process owns.
    pub fn new(journal: Arc<dyn Journal>, options: Options) -> Self {
        // A journal that cannot be read reports it when a session is opened.
        let latest = journal.latest().unwrap_or_default();
        let shared = Shared {
            own: tools::Protected::folder(options.home.clone()),
            home: options.home,
            supervisor: options.supervisor,
            resolver: options.resolver,
            ledger: HomeLedger::read(journal.as_ref()),
            budget_pool: BudgetHandle::default(),
            journal,
            models: options.models,
            tools: options.tools,
            deliver: options.deliver,
            clock: Clock::after(latest),
            latest: Latest::default(),
            conversations: ConversationCache::default(),
            sessions: Sessions::default(),
            idle_slots: IdleSlots::new(options.idle),
            commit_relay: CommitRelay::new(),
            events: options.events,
            lanes: LaneHandle::new(options.waits, options.holds_runs),
            broken: watch::Sender::new(None),
            disk_full_waits: watch::Sender::new(BTreeMap::new()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The journal of the home.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// Resolves the configuration, as it is now.
    pub fn resolver(&self) -> &dyn Resolver {
        self.shared.resolver.as_ref()
    }

    /// The clock whose times are recorded: wall time that never runs back.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Opens a session, or creates it. Its unfinished run resumes by itself. `first` is sent in the same batch as the
    /// opening, before anything that the session would do by itself. Waits until the session is read.
    pub async fn open(&self, key: &str, agent: &str, first: Vec<Command>) -> Result<(Handle, Acknowledgements), Error> {
        Handle::open(&self.shared, key, agent, first).await
    }

    /// Starts what the option `holds_runs` has held.
    pub fn start_runs(&self) {
        self.shared.lanes.open();
    }

    /// Starts no run any more as soon as this one has ended: this process is about to leave then, and would only begin what the
    /// next owner has to request again. Until then runs start.
    pub fn hold_runs_after(&self, run: RunId) {
        self.shared.lanes.close_after(run);
    }

    /// Whether runs are held.
    pub fn holds_runs(&self) -> bool {
        self.shared.lanes.are_closed()
    }

    /// The number of sessions that have an actor now.
    pub fn actors(&self) -> watch::Receiver<usize> {
        self.shared.sessions.count()
    }

    /// The failure of the store, once there is one: nothing more is acknowledged after it.
    pub fn broken(&self) -> watch::Receiver<Option<journal::Error>> {
        self.shared.broken.subscribe()
    }

    /// The runs that wait for a lane, lane by lane, in order.
    pub fn waits(&self) -> Vec<LaneWait> {
        self.shared.lanes.waits()
    }

    /// The sessions that wait for disk space, by key.
    pub fn disk_full_waits(&self) -> watch::Receiver<BTreeMap<String, DiskFullWait>> {
        self.shared.disk_full_waits.subscribe()
    }

    /// Why the ledger of this home could not be read to its end, if it could not. The
    /// cooldowns after the damage are unknown then, and new ones are not stored.
    pub fn ledger_damage(&self) -> Option<&journal::Error> {
        self.shared.ledger.damage()
    }

    /// Sets the preferred profile of a provider, or none; returns when it is recorded.
    pub async fn prefer_profile(&self, provider: &str, profile: Option<&str>) -> Result<(), Error> {
        let (provider, profile) = (provider.to_owned(), profile.map(str::to_owned));
        ledger::record(&self.shared, LedgerInput::Prefer { provider, profile }).await?;
        Ok(())
    }

    /// Clears the cooldowns of this provider and profile, or of any, whatever failed. Returns the cooldowns; returns
    /// when it is recorded.
    pub async fn clear_profiles(
        &self,
        provider: Option<String>,
        profile: Option<String>,
    ) -> Result<Vec<(Account, Cooldown)>, Error> {
        match ledger::record(&self.shared, LedgerInput::Clear { provider, profile }).await? {
            LedgerAnswer::Lifted(lifted) => Ok(lifted),
            LedgerAnswer::Done | LedgerAnswer::Granted(_) | LedgerAnswer::Revoked(_) => Ok(vec![]),
        }
    }

    /// What users have allowed once and for all.
    pub fn grants(&self) -> Vec<ApprovalGrant> {
        self.shared.ledger.grants()
    }

    /// Allows something once and for all, also for running runs; returns when it is recorded. False if its question has
    /// given another grant already.
    pub async fn grant(&self, grant: ApprovalGrant) -> Result<bool, Error> {
        let answer = ledger::record(&self.shared, LedgerInput::Grant(grant)).await?;
        Ok(answer == LedgerAnswer::Granted(true))
    }

    /// Revokes what was allowed; returns whether there was such a grant, when that is recorded.
    pub async fn revoke_grant(&self, grant: CallId, by: String) -> Result<bool, Error> {
        let answer = ledger::record(&self.shared, LedgerInput::Revoke { grant, by }).await?;
        Ok(answer == LedgerAnswer::Revoked(true))
    }

    /// Sets the limits of a scope that sessions share; returns when they are recorded.
    pub async fn allow(&self, of: SharedScope, change: Allowance) -> Result<(), Error> {
        ledger::record(&self.shared, LedgerInput::Allow { of, change }).await?;
        self.shared.budget_pool.look_again();
        Ok(())
    }

    /// Opens nothing new, and lets running requests finish within this time. Commands that end or answer something are
    /// still accepted.
    pub async fn drain(&self, within: Duration) {
        let mut actors = self.shared.sessions.count();
        self.shared.sessions.drain();
        // What is left after that time is closed by the shutdown that follows.
        let _ = tokio::time::timeout(within, actors.wait_for(|count| *count == 0)).await;
    }

    /// Shuts down in order: streams are interrupted and sealed, commands are left to their supervisors, `Closed` is
    /// recorded.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shared.sessions.drain();
        self.shared.sessions.close();
        // An actor reports its own end; a panic in it was caught there.
        let _ = self.shared.sessions.count().wait_for(|count| *count == 0).await;
        self.shared.models.settle(REFRESHES).await;
        match self.shared.broken.borrow().clone() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
