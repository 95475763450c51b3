//! Whether the file has changed since it was read. It is looked at when it is needed; nothing watches it. What may not
//! live here: what a change means for a run.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Config, ConfigError, FILE};

/// By what a file is told from what it was: when it was written, how long it is, which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: u64,
    inode: (u64, u64),
}

impl Stamp {
    /// That of the file now; none = it is not there.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let meta = fs::metadata(file).ok()?;
        Some(Self {
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            bytes: meta.size(),
            inode: (meta.dev(), meta.ino()),
        })
    }
}

impl Config {
    /// The stamp of the file that this was read from; none = there was none.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// The stamp of the file as it is now.
    pub(crate) fn stamp_now(&self) -> Option<Stamp> {
        Stamp::of(&self.home.join(FILE))
    }

    /// The same, read again: the variables and flags are those of this process.
    pub(crate) fn again(&self) -> Result<Self, ConfigError> {
        Self::load_quietly(&self.home, &self.environment, self.flags.clone())
    }
}
