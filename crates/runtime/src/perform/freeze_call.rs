//! `freeze_call`: freezes the command of a call as long as that is wanted. A runtime that shuts down leaves it frozen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::EffectId;

/// How often to look for a supervisor that is just starting.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A command that is frozen, or about to be.
pub(crate) struct Freezing {
    calls: PathBuf,
    started: EffectId,
    /// Whether it is to be thawed. Locked while the supervisor is asked, so that no freeze comes after the thaw.
    is_over: Mutex<bool>,
}

impl Freezing {
    pub(super) fn of(calls: PathBuf, started: EffectId) -> Arc<Self> {
        Arc::new(Self { calls, started, is_over: Mutex::new(false) })
    }

    /// Thaws the command, and keeps it from being frozen later.
    pub(super) fn end(&self) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        thaw(&self.calls, self.started);
    }

    /// Whether nothing is left to do: it is frozen, or no longer to be frozen.
    fn freeze(&self) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over || tools::freeze(&self.calls, self.started).unwrap_or(false)
    }
}

/// A call that is no command, or has ended, needs no freeze: this effect is then stopped with it.
pub(super) async fn perform(freezing: Arc<Freezing>) {
    while !freezing.freeze() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Thaws the command of a call that may be frozen. If the supervisor cannot be reached it is gone, and the command with
/// it, so nobody is notified.
pub(super) fn thaw(calls: &Path, started: EffectId) {
    let _ = tools::thaw(calls, started);
}
