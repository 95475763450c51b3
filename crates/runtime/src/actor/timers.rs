//! The times that an actor waits for.

use engine::Timestamp;

use crate::clock::Clock;
use crate::idle::IdleTimer;

/// The times that an actor waits for, if it does.
#[derive(Default)]
pub(super) struct Timers {
    /// What the pump has armed.
    pub(super) due: Option<Timestamp>,
    /// While its session rests.
    pub(super) stay: Option<IdleTimer>,
}

impl Timers {
    /// Comes when the armed time has come.
    pub(super) async fn is_due(&self, clock: &Clock) {
        match self.due {
            Some(due) => tokio::time::sleep(clock.until(due)).await,
            None => std::future::pending().await,
        }
    }

    /// Comes when the session has been at rest for as long as its actor stays.
    pub(super) async fn is_over(&self) {
        match &self.stay {
            Some(stay) => tokio::time::sleep_until(stay.until).await,
            None => std::future::pending().await,
        }
    }
}
