//! How long the actor of a session at rest stays, in case the next message comes soon. Then it leaves, and the session's
//! row is enough. What may not live here: what rest is, which the engine says.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A message that answers what was just read mostly comes within this; one that comes later waits about a millisecond
/// longer, while its session is read from the journal.
const STAY: Duration = Duration::from_secs(10);
/// More sessions than have turns at the same time by far, each with some tens of KiB in memory.
const AT_ONCE: usize = 256;

/// How long actors of sessions at rest stay.
#[derive(Debug, Clone, Copy)]
pub struct IdlePolicy {
    /// How long each.
    pub stay: Duration,
    /// How many at once; one more leaves as soon as its session rests.
    pub at_once: usize,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self { stay: STAY, at_once: AT_ONCE }
    }
}

/// The places of those that stay.
#[derive(Debug)]
pub(crate) struct Places {
    stay: Duration,
    free: Arc<Semaphore>,
}

/// A stay that has begun.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    /// When it ends.
    pub(crate) until: Instant,
    _place: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(crate) fn new(idle: IdlePolicy) -> Self {
        Self { stay: idle.stay, free: Arc::new(Semaphore::new(idle.at_once)) }
    }

    /// Begins a stay; one without a place ends at once.
    pub(crate) fn begin(&self) -> IdleTimer {
        let place = Arc::clone(&self.free).try_acquire_owned().ok();
        let stay = if place.is_some() { self.stay } else { Duration::ZERO };
        IdleTimer { until: Instant::now() + stay, _place: place }
    }
}
