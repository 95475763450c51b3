//! Copies of a workspace, in which the runs of a session work until a person takes their changes over or discards them.
//!
//! ```text
//! STATE/copies/ID/
//!   NAME/             the copy (WorkspaceCopy::folder)
//!   original.listing  what it was copied from, as it was
//!   copy.listing      the copy, as it was made
//! ```
//!
//! `make.rs` makes one, whole or not at all. `compare.rs` finds what changed in it, and whether the same place of the workspace
//! changed since. `git.rs` makes it a worktree.

mod compare;
mod git;
mod make;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use engine::{SandboxRoot, WorkspaceCopy};
use rustix::fs::{FlockOperation, OFlags, flock};

pub use compare::{CopyChange, copy_changes};
pub use make::make_copy;

use crate::cancel::Cancel;

/// The listing of what was copied.
const ORIGINAL: &str = "original.listing";
/// The listing of the copy as it was made.
const MADE: &str = "copy.listing";
/// Between two looks whether another process has let go of a copy.
const AGAIN: Duration = Duration::from_millis(20);

/// Where the parts of a copy are.
#[derive(Debug)]
struct Place {
    /// The folder of all that belongs to this copy.
    folder: PathBuf,
    /// The name of the copy in it.
    name: PathBuf,
}

impl Place {
    fn of(copy: &WorkspaceCopy) -> io::Result<Self> {
        let path = Path::new(&copy.folder);
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if path.is_absolute() => {
                Ok(Self { folder: folder.to_owned(), name: name.into() })
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the copy has no folder of its own")),
        }
    }

    /// The copy, while all of this is at `folder`.
    fn copy_in(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }

    /// Whether the copy was made.
    fn is_whole(&self) -> bool {
        self.folder.join(MADE).is_file() && self.copy_in(&self.folder).is_dir()
    }

    /// The path beside it with this end, for what is not whole.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.folder.clone().into_os_string();
        name.push(end);
        name.into()
    }

    /// Waits until no other process makes or removes this copy. The copies are readable by their user alone.
    fn lock(&self, cancel: &Cancel) -> io::Result<File> {
        if let Some(all) = self.folder.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(all)?;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = options.open(self.beside(".lock"))?;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) if !cancel.is_set() => thread::sleep(AGAIN),
                taken => return taken.map(|()| lock).map_err(Into::into),
            }
        }
    }
}

/// Whether the copy is there, also if it is damaged.
pub fn has_copy(copy: &WorkspaceCopy) -> bool {
    Path::new(&copy.folder).is_dir()
}

/// Removes a copy with all that is in it. May block.
///
/// # Errors
/// Returns why something of it is left.
pub fn remove_copy(copy: &WorkspaceCopy) -> Result<(), String> {
    let failed = |error: io::Error| format!("the copy {} cannot be removed: {error}", copy.folder);
    let place = Place::of(copy).map_err(failed)?;
    let _lock = place.lock(&Cancel::default()).map_err(failed)?;
    let gone = place.beside(".gone");
    remove_all(&gone).map_err(failed)?;
    match fs::rename(&place.folder, &gone) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(failed)?,
    }
    if copy.root == SandboxRoot::Worktree {
        // Git knows it by its `.git`, and has nothing else to remove: that may take longer than git is given.
        let folder = Path::new(&copy.folder);
        let moved = fs::create_dir_all(folder)
            .and_then(|()| fs::rename(place.copy_in(&gone).join(".git"), folder.join(".git")));
        if moved.is_ok() {
            git::forget(Path::new(&copy.of), folder);
        }
        remove_all(&place.folder).map_err(failed)?;
    }
    remove_all(&gone).map_err(failed)
}

/// Removes a folder, also where its owner may not change what is in it. It follows no link.
fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

/// Lets the owner change what is in a folder and below.
fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
