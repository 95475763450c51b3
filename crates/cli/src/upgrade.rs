//! What an upgrade changes for a home that was used before: said once for each home.

use std::fs::{self, OpenOptions};
use std::path::Path;

use config::{Config, make_private};

/// The folder of what was said, in the home.
const SAID: &str = "notices";
/// Said of a policy that allows commands.
const SANDBOX: &str = "sandbox";

const ALLOWED_INSIDE: &str = "tools.exec.policy is allow, and commands run in a sandbox all the same now: docs/sandbox.md says what they reach; \
                              `limulus config set sandbox.mode off` runs them without one";

/// The notes that are due at this start.
pub(crate) fn notes(config: &Config, home: &Path) -> Option<String> {
    let is_due = config.allows_sandboxed_commands() && home.join("journal.db").exists() && is_first(home, SANDBOX);
    is_due.then(|| ALLOWED_INSIDE.to_owned())
}

/// Whether this was never said, and is said now.
fn is_first(home: &Path, what: &str) -> bool {
    let folder = home.join(SAID);
    let place = folder.join(what);
    if fs::symlink_metadata(&place).is_ok() || make_private(&folder).is_err() {
        return false;
    }
    // One of two processes says it.
    OpenOptions::new().write(true).create_new(true).open(place).is_ok()
}
