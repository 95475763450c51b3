//! Which workspaces this process has looked at for a command, and when it did so last: one of them is looked at once more
//! while the model thinks, so that its next command need not wait for that. Most runs use no command, and cost nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LOOK_AGAIN_MS, LOOKED_WORKSPACES};

static LAST: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());

fn last() -> MutexGuard<'static, BTreeMap<PathBuf, Instant>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a workspace was looked at for a command.
pub(super) fn note(workspace: &Path) {
    let mut last = last();
    if last.len() < LOOKED_WORKSPACES || last.contains_key(workspace) {
        last.insert(workspace.to_owned(), Instant::now());
    }
}

/// Whether a workspace should be looked at ahead: commands of this process are used there, and the last look was some time
/// ago. Whoever asks looks: for others it is due only after that time again.
pub fn is_look_due(workspace: &Path) -> bool {
    match last().get_mut(workspace) {
        Some(at) if at.elapsed() >= Duration::from_millis(LOOK_AGAIN_MS) => {
            *at = Instant::now();
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_a_workspace_without_commands_is_never_looked_at_and_another_one_not_at_once() {
        let (used, unused) = (Path::new("/looks/used"), Path::new("/looks/unused"));
        note(used);
        assert!(!is_look_due(unused) && !is_look_due(used));
        let long_ago = Instant::now().checked_sub(Duration::from_millis(LOOK_AGAIN_MS)).unwrap();
        last().insert(used.to_owned(), long_ago);
        assert!(is_look_due(used) && !is_look_due(used), "one look for all who ask");
        assert!(!is_look_due(unused));
    }
}
