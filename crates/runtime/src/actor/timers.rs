//! The timers of an actor.

use engine::Timestamp;

use crate::clock::Clock;
use crate::idle::IdleTimer;

/// The timers of an actor; each may be unset.
#[derive(Default)]
pub(super) struct Timers {
    /// The time that the pump has armed.
    pub(super) due: Option<Timestamp>,
    /// Set while the session is idle.
    pub(super) idle: Option<IdleTimer>,
}

impl Timers {
    /// Completes at the armed time.
    pub(super) async fn is_due(&self, clock: &Clock) {
        match self.due {
            Some(due) => tokio::time::sleep(clock.until(due)).await,
            None => std::future::pending().await,
        }
    }

    /// Completes when the session has been idle for as long as its actor stays.
    pub(super) async fn is_over(&self) {
        match &self.idle {
            Some(timer) => timer.is_over().await,
            None => std::future::pending().await,
        }
    }
}
