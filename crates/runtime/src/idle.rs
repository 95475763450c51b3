//! How long the actor of an idle session is kept in case the next message comes soon. After that the actor ends, and
//! the session's row is enough. The engine decides what idle is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A message that answers what was just read mostly comes within this time. A later one waits about a millisecond
/// longer, while its session is read from the journal.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Far more sessions than are usually active at the same time, each with some tens of KiB in memory.
const AT_ONCE: usize = 256;

/// How long actors of idle sessions are kept.
#[derive(Debug, Clone, Copy)]
pub struct IdlePolicy {
    /// The time that each is kept.
    pub timeout: Duration,
    /// How many are kept at once; a further one ends as soon as its session is idle.
    pub at_once: usize,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self { timeout: TIMEOUT, at_once: AT_ONCE }
    }
}

/// The slots of idle actors.
#[derive(Debug)]
pub(crate) struct IdleSlots {
    timeout: Duration,
    free: Arc<Semaphore>,
}

/// A running idle timer.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    /// When the actor ends.
    pub(crate) until: Instant,
    _permit: Option<OwnedSemaphorePermit>,
}

impl IdleSlots {
    pub(crate) fn new(idle: IdlePolicy) -> Self {
        Self { timeout: idle.timeout, free: Arc::new(Semaphore::new(idle.at_once)) }
    }

    /// Starts an idle timer; without a free slot it ends at once.
    pub(crate) fn begin(&self) -> IdleTimer {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        let timeout = if permit.is_some() { self.timeout } else { Duration::ZERO };
        IdleTimer { until: Instant::now() + timeout, _permit: permit }
    }
}
