//! How long the actor of an idle session is kept in case the next message comes soon. After that the actor ends, and
//! the session's row is enough. The engine decides what idle is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
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
    /// How many are kept at once; if one more session becomes idle, the actor ends that has been idle for longest.
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
    policy: IdlePolicy,
    waiting: Arc<Mutex<Waiting>>,
}

/// The idle actors, by the number of their timer: the first one has been idle for longest.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    ends: BTreeMap<u64, Arc<Notify>>,
}

/// A running idle timer.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    until: Instant,
    number: u64,
    /// Notified when the slot is needed.
    end: Arc<Notify>,
    waiting: Arc<Mutex<Waiting>>,
}

impl IdleSlots {
    pub(crate) fn new(policy: IdlePolicy) -> Self {
        Self { policy, waiting: Arc::default() }
    }

    /// Starts an idle timer. If that is one too many, the oldest one ends at once.
    pub(crate) fn begin(&self) -> IdleTimer {
        let mut waiting = lock(&self.waiting);
        waiting.last += 1;
        let (number, end) = (waiting.last, Arc::new(Notify::new()));
        waiting.ends.insert(number, Arc::clone(&end));
        if waiting.ends.len() > self.policy.at_once
            && let Some((_, oldest)) = waiting.ends.pop_first()
        {
            oldest.notify_one();
        }
        IdleTimer { until: Instant::now() + self.policy.timeout, number, end, waiting: Arc::clone(&self.waiting) }
    }
}

impl IdleTimer {
    /// Completes when the actor is to end.
    pub(crate) async fn is_over(&self) {
        // An actor that a message reaches at the same time stays; then its next timer is another one.
        let _ = tokio::time::timeout_at(self.until, self.end.notified()).await;
        self.end.notify_one();
    }
}

impl Drop for IdleTimer {
    fn drop(&mut self) {
        lock(&self.waiting).ends.remove(&self.number);
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// A session whose messages come one soon after the other must not be read from the journal for each of them,
    /// however many others were busy before.
    #[tokio::test]
    async fn r35_when_there_are_too_many_idle_actors_the_one_that_is_idle_for_longest_ends() {
        let slots = IdleSlots::new(IdlePolicy { timeout: Duration::from_hours(1), at_once: 2 });
        let is_over = |timer: &IdleTimer| timer.is_over().now_or_never().is_some();
        let (first, second) = (slots.begin(), slots.begin());
        assert!(!is_over(&first) && !is_over(&second));
        let third = slots.begin();
        assert_eq!((is_over(&first), is_over(&second), is_over(&third)), (true, false, false));
        assert!(is_over(&first), "it is over however often one looks");
        drop(second);
        let fourth = slots.begin();
        assert!(!is_over(&third) && !is_over(&fourth), "one that has ended or works again holds no slot");
    }

    #[tokio::test]
    async fn without_slots_an_actor_ends_as_soon_as_its_session_is_idle() {
        let slots = IdleSlots::new(IdlePolicy { timeout: Duration::from_hours(1), at_once: 0 });
        assert!(slots.begin().is_over().now_or_never().is_some());
    }
}
