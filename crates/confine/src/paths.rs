//! How paths are opened: never through a symbolic link that a command could have planted.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// Opens what an absolute path names, as a handle without rights. No part of the path may be a symbolic link but the last
/// one, which is opened itself.
pub(crate) fn open_handle(path: &Path) -> io::Result<OwnedFd> {
    open_handle_at(CWD, path)
}

/// The same below an open folder.
pub(crate) fn open_handle_at(folder: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(folder, path, flags, Mode::empty(), resolve)?)
}

/// A path that names what a handle refers to, whatever its own path is now.
pub(crate) fn handle_path(handle: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()))
}

/// What a path of the profile refers to, with its symbolic links resolved. None if it does not exist, or if this user cannot
/// reach it, in which case the command cannot either.
pub(crate) fn resolved(path: &Path) -> io::Result<Option<PathBuf>> {
    // Most of what a profile hides does not exist: one call says so, and the other one needs a call for each part of the path.
    match fs::metadata(path).and_then(|_| path.canonicalize()) {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_unreachable(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error means that there is nothing that a command of this user could reach.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | NotADirectory)
}
