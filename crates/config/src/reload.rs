//! Detects whether a file has changed since it was read. It is checked when it is needed; nothing watches it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

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
    fn of(file: &Path) -> Option<Self> {
        let meta = fs::metadata(file).ok()?;
        Some(Self {
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            bytes: meta.size(),
            inode: (meta.dev(), meta.ino()),
        })
    }
}

/// The stamps of files in their order; none = there is no file.
pub(crate) type Stamps = Vec<Option<Stamp>>;

/// The stamps of these files now.
pub(super) fn stamps(files: &[PathBuf]) -> Stamps {
    files.iter().map(|file| Stamp::of(file)).collect()
}

impl Config {
    /// The stamps of the user's files when they were read.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// The stamps of these files as they are now.
    pub(crate) fn stamps_now(&self) -> Stamps {
        stamps(self.user_files())
    }

    /// Reads the configuration again, with the same variables and flags.
    pub fn again(&self) -> Result<Self, ConfigError> {
        Self::load(&self.home, &self.environment, self.flags.clone())
    }
}
