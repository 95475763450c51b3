//! The timers of an actor.

use std::time::Duration;

use engine::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::idle::IdleTimer;

/// How long a batch is held for what belongs into it: the reports of its early effects, the rest of a short answer. What
/// takes longer is recorded in parts, which costs no more than these milliseconds.
const HOLD: Duration = Duration::from_millis(2);

/// The timers of an actor; each may be unset.
#[derive(Default)]
pub(super) struct Timers {
    /// The time that the pump has armed.
    pub(super) due: Option<Timestamp>,
    /// Set while the session is idle.
    pub(super) idle: Option<IdleTimer>,
    /// Until when the open batch is held.
    held: Option<Instant>,
}

impl Timers {
    /// Completes at the armed time.
    pub(super) async fn is_due(&self, clock: &Clock) {
        match self.due {
            Some(due) => tokio::time::sleep(clock.until(due)).await,
            None => std::future::pending().await,
        }
    }

    /// Whether the open batch is held; `waits` says whether more may come.
    pub(super) fn holds(&mut self, waits: bool) -> bool {
        let holds = waits && *self.held.get_or_insert_with(|| Instant::now() + HOLD) > Instant::now();
        self.held = self.held.filter(|_| holds);
        holds
    }

    /// Completes when the open batch is held no longer.
    pub(super) async fn is_held(&self) {
        match self.held {
            Some(until) => tokio::time::sleep_until(until).await,
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
