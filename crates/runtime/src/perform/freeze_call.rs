//! `freeze_call`: lets the command of a call stand still as long as that is wanted. A runtime that leaves, leaves it frozen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::EffectId;

/// How often a supervisor is looked for that is on its way.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A command that stands still, or is about to.
pub(crate) struct Freezing {
    calls: PathBuf,
    started: EffectId,
    /// Whether it is to stand still no more. Held while the supervisor is asked, so that no freeze comes after the thaw.
    is_over: Mutex<bool>,
}

impl Freezing {
    pub(super) fn of(calls: PathBuf, started: EffectId) -> Arc<Self> {
        Arc::new(Self { calls, started, is_over: Mutex::new(false) })
    }

    /// Lets it go on.
    pub(super) fn end(&self) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        thaw(&self.calls, self.started);
    }

    /// Whether there is nothing left to do: it stands still, or is to do so no more.
    fn freeze(&self) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over || tools::freeze(&self.calls, self.started).unwrap_or(false)
    }
}

/// A call that is no command, or has ended, needs no freeze: then this is stopped with it.
pub(super) async fn perform(freezing: Arc<Freezing>) {
    while !freezing.freeze() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Lets the command of a call go on that may stand still. Nobody is left to hear that it could not be asked: its
/// supervisor is gone then, and the command with it.
pub(super) fn thaw(calls: &Path, started: EffectId) {
    let _ = tools::thaw(calls, started);
}
