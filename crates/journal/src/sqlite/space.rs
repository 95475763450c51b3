//! The space of a home: a reserve that is released when the disk is full, so that runs can still be ended.
//!
//! `journal.reserve` holds one mebibyte that nothing else may use. When a group finds no space, the reserve is removed,
//! and from then on the journal accepts only batches that end runs, until there is space for the reserve and some more;
//! then the reserve is created again and everything is accepted.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Batch;
use rustix::fs::statvfs;

use super::files::{self, Open};
use super::home::{PRIVATE_FILE, is_full, unwritable};
use crate::Error;
use crate::ends::only_ends;

const RESERVE: &str = "journal.reserve";
/// Enough for the ends of some dozens of runs: each takes a few pages of 4 KiB. In bytes.
const RESERVE_BYTES: u64 = 1 << 20;
/// Bytes that must be free on a full disk before everything is accepted again: the reserve, and some for what starts
/// then.
pub const SPACE_BYTES: u64 = RESERVE_BYTES + (256 << 10);

/// Whether there is space, as the writer knows it.
#[derive(Debug)]
pub(super) struct Space {
    home: PathBuf,
    /// Whether the disk has space again.
    probe: fn(&Path) -> bool,
    tight: Arc<AtomicBool>,
}

/// A view of the same for other threads of the process.
#[derive(Debug)]
pub(super) struct Outlook {
    home: PathBuf,
    probe: fn(&Path) -> bool,
    tight: Arc<AtomicBool>,
}

impl Outlook {
    /// Whether everything would be accepted now.
    pub(super) fn is_clear(&self) -> bool {
        !self.tight.load(Ordering::Relaxed) || (self.probe)(&self.home)
    }
}

impl Space {
    /// Opens or creates the reserve. A disk without space for it counts as full from the beginning.
    pub(super) fn open(home: &Path, has_space: fn(&Path) -> bool) -> Result<Self, Error> {
        let path = home.join(RESERVE);
        let space = Self { home: home.to_owned(), probe: has_space, tight: Arc::default() };
        if !is_intact(&path) {
            match space.reserve() {
                Err(error) if is_full(&error) => space.set_tight(true),
                made => made.map_err(unwritable(&path))?,
            }
        }
        Ok(space)
    }

    /// A view for threads that wait for space.
    pub(super) fn outlook(&self) -> Outlook {
        Outlook { home: self.home.clone(), probe: self.probe, tight: Arc::clone(&self.tight) }
    }

    /// Whether only batches that end runs are accepted.
    pub(super) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    fn set_tight(&self, tight: bool) {
        self.tight.store(tight, Ordering::Relaxed);
    }

    /// Releases the reserve for the ends of runs: there was no space.
    pub(super) fn give_up(&self) {
        self.set_tight(true);
        give_up(&self.home);
    }

    /// Checks whether there is space again; if so, creates the reserve again.
    pub(super) fn look(&self) {
        if self.is_tight() && (self.probe)(&self.home) {
            // If it cannot be created now, the next check tries again.
            self.set_tight(self.reserve().is_err());
        }
    }

    /// Whether this batch may be written now.
    pub(super) fn admits(&self, batch: &Batch) -> bool {
        !self.is_tight() || only_ends(batch)
    }

    fn reserve(&self) -> io::Result<()> {
        let path = self.home.join(RESERVE);
        let mut options = files::private(PRIVATE_FILE);
        let made = Open::new(options.create(true).truncate(true), &path).and_then(|file| file.reserve(RESERVE_BYTES));
        if made.is_err() {
            let _ = files::remove(&path);
        }
        made
    }
}

/// Removes the reserve; returns whether it had any blocks.
pub(super) fn give_up(home: &Path) -> bool {
    files::remove(&home.join(RESERVE)).is_ok()
}

/// Whether the disk of this home has space for the reserve and some more.
pub(super) fn has_space(home: &Path) -> bool {
    statvfs(home).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= SPACE_BYTES)
}

/// Whether the reserve exists with all of its blocks.
fn is_intact(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() >= RESERVE_BYTES && meta.blocks() * 512 >= RESERVE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use engine::{Closed, EndingSet, Epoch, Outcome};

    use super::*;
    use crate::suite::Script;
    use crate::suite::samples::{accepted, text};

    #[test]
    fn the_reserve_holds_its_blocks_and_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RESERVE);
        let space = Space::open(folder.path(), has_space).unwrap();
        assert!(!space.is_tight());
        let meta = fs::metadata(&path).unwrap();
        assert!(meta.blocks() * 512 >= RESERVE_BYTES);
        assert_eq!(meta.mode() & 0o777, 0o600);
        Space::open(folder.path(), has_space).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), meta.ino(), "it was created again");
        // A partly written reserve, as a crash leaves it, is not the reserve.
        File::create(&path).unwrap().set_len(RESERVE_BYTES).unwrap();
        Space::open(folder.path(), has_space).unwrap();
        assert!(is_intact(&path));

        space.give_up();
        assert!(space.is_tight() && !path.exists());
        let mut script = Script::new(1);
        let message = script.batch(vec![accepted(text("hello").body)], vec![text("hello")]);
        assert!(!space.admits(&message));
        assert!(space.admits(
            &script.batch(vec![EndingSet { outcome: Outcome::Aborted, terminate: false, reset: false }.into()], vec![])
        ));
        assert!(space.admits(&script.batch(vec![Closed { epoch: Epoch(1) }.into()], vec![])));
        space.look();
        assert!(!space.is_tight() && is_intact(&path) && space.admits(&message));
    }
}
