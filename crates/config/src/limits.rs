//! The bounds of what the configuration runs and keeps.

use std::time::Duration;

/// How long a command may take to print a key: a person may have to unlock a store of passwords.
pub(super) const KEY_COMMAND_TIME: Duration = Duration::from_secs(30);

/// How long a key that a command printed is used before the command is run again: long enough that a run does not start it for each
/// request, short enough that a changed key is noticed while one looks.
pub(super) const KEY_COMMAND_KEPT: Duration = Duration::from_mins(5);

/// Commands whose keys are kept at once; with more, all are forgotten and run again when they are needed.
pub(super) const KEY_COMMANDS: usize = 64;

const _: () = assert!(KEY_COMMAND_TIME.as_secs() < KEY_COMMAND_KEPT.as_secs(), "a key is used before it is old");
