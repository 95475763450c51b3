//! Detects whether the file has changed since it was read. It is checked when it is needed; nothing watches it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Config, ConfigError, FILE};

/// Identifies a version of a file: its times, its size and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: u64,
    inode: (u64, u64),
}

impl Stamp {
    /// The stamp of the file now; none = there is no file.
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
    /// The stamp of the file when it was read; none = there was no file.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// The stamp of the file as it is now.
    pub(crate) fn stamp_now(&self) -> Option<Stamp> {
        Stamp::of(&self.home.join(FILE))
    }

    /// Reads the configuration again, with the same variables and flags.
    pub fn again(&self) -> Result<Self, ConfigError> {
        Self::load(&self.home, &self.environment, self.flags.clone())
    }
}
