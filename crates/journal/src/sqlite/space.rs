//! The space of a home: a reserve that is given up when the disk is full, so that runs can still be brought to their end.
//!
//! `journal.reserve` holds a mebibyte that nothing else may use. When a group finds no space the reserve is removed, and
//! from then on only what ends runs is taken, until there is room for the reserve and more; then it is made anew and all
//! goes on. What may not live here: appends.

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
/// Enough for the ends of some dozens of runs: each takes a few pages of 4 KiB.
const RESERVE_BYTES: u64 = 1 << 20;
/// What must be free on a full disk before all goes on: the reserve, and something for what then begins.
pub const SPACE_BYTES: u64 = RESERVE_BYTES + (256 << 10);

/// Whether there is space, as the writer knows it.
#[derive(Debug)]
pub(super) struct Space {
    home: PathBuf,
    /// Whether there is room again.
    has_space: fn(&Path) -> bool,
    tight: Arc<AtomicBool>,
}

/// The same as others of the process see it.
#[derive(Debug)]
pub(super) struct Outlook {
    home: PathBuf,
    has_space: fn(&Path) -> bool,
    tight: Arc<AtomicBool>,
}

impl Outlook {
    /// Whether all would be taken now.
    pub(super) fn is_clear(&self) -> bool {
        !self.tight.load(Ordering::Relaxed) || (self.has_space)(&self.home)
    }
}

impl Space {
    /// Sees to the reserve. A disk that has no room for it is full from the beginning.
    pub(super) fn open(home: &Path, has_space: fn(&Path) -> bool) -> Result<Self, Error> {
        let path = home.join(RESERVE);
        let space = Self { home: home.to_owned(), has_space, tight: Arc::default() };
        if !is_whole(&path) {
            match space.reserve() {
                Err(error) if is_full(&error) => space.set_tight(true),
                made => made.map_err(unwritable(&path))?,
            }
        }
        Ok(space)
    }

    /// For whoever waits for space.
    pub(super) fn outlook(&self) -> Outlook {
        Outlook { home: self.home.clone(), has_space: self.has_space, tight: Arc::clone(&self.tight) }
    }

    /// Whether only the ends of runs are taken.
    pub(super) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    fn set_tight(&self, tight: bool) {
        self.tight.store(tight, Ordering::Relaxed);
    }

    /// There was no space: the reserve is for the ends of runs now.
    pub(super) fn give_up(&self) {
        self.set_tight(true);
        give_up(&self.home);
    }

    /// Looks whether there is space again; if so, makes the reserve anew.
    pub(super) fn look(&self) {
        if self.is_tight() && (self.has_space)(&self.home) {
            // What cannot be made now is tried at the next look.
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

/// Gives the blocks of the reserve back; says whether there were any.
pub(super) fn give_up(home: &Path) -> bool {
    files::remove(&home.join(RESERVE)).is_ok()
}

/// Whether the disk of this home has room for the reserve and more.
pub(super) fn has_space(home: &Path) -> bool {
    statvfs(home).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= SPACE_BYTES)
}

/// Whether the reserve is there with its blocks.
fn is_whole(path: &Path) -> bool {
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
        assert_eq!(fs::metadata(&path).unwrap().ino(), meta.ino(), "it was made anew");
        // What a crash left of it is not the reserve.
        File::create(&path).unwrap().set_len(RESERVE_BYTES).unwrap();
        Space::open(folder.path(), has_space).unwrap();
        assert!(is_whole(&path));

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
        assert!(!space.is_tight() && is_whole(&path) && space.admits(&message));
    }
}
