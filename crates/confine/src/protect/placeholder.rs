//! Placeholders: empty files and folders on the host, over which the view attaches a mask for a protected name that does not
//! exist.
//!
//! Several commands in one workspace share a placeholder. Each holds a shared lock on it; who can turn it into an exclusive one
//! is the last, and removes it. Its time of modification marks it, so one that a killed process has left is recognised and
//! removed by the next; and if anybody has put something into it, the mark is gone and it stays.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, flock, fstat, futimens,
    mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::profile::NameKind;
use crate::report::Unprotected;

/// One second after the epoch: no file of anybody has it.
const MARK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often it is tried to hold what others create and remove at the same time.
const TRIES: u32 = 100;

/// A placeholder that this process holds.
#[derive(Debug)]
pub(super) struct Placeholder {
    /// Open, with a shared lock.
    handle: OwnedFd,
    parent: OwnedFd,
    name: PathBuf,
    path: PathBuf,
    kind: NameKind,
}

impl Placeholder {
    pub(super) fn kind(&self) -> NameKind {
        self.kind
    }

    /// Holds the placeholder of a name, and creates it if nothing is there; none if something else is there.
    pub(super) fn hold(parent: &OwnedFd, name: &Path, path: &Path, kind: NameKind) -> io::Result<Option<Self>> {
        for _ in 0..TRIES {
            let Some(handle) = create_or_open(parent, name, kind)? else { return Ok(None) };
            match flock(&handle, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {}
                // Its last holder is about to remove it.
                Err(Errno::WOULDBLOCK) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let held = fstat(&handle)?;
            if !is_same(parent, name, &held) {
                continue;
            }
            let Some(kind) = kind_of(&held, kind) else { return Ok(None) };
            let (parent, name, path) = (parent.try_clone()?, name.to_owned(), path.to_owned());
            return Ok(Some(Self { handle, parent, name, path, kind }));
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process locks the placeholder"))
    }

    /// Removes it if nobody else holds it and nobody has changed it. Says so if it was removed meanwhile, because the mask went
    /// with it.
    pub(super) fn release(self) -> Option<Unprotected> {
        let held = fstat(&self.handle).ok()?;
        if !is_same(&self.parent, &self.name, &held) {
            let reason = "somebody outside the sandbox removed it while the command ran".to_owned();
            return Some(Unprotected { path: self.path, reason });
        }
        let is_last = flock(&self.handle, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_last && kind_of(&held, self.kind).is_some() {
            let flags = if self.kind == NameKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // A folder with something in it stays.
            let _ = unlinkat(&self.parent, &self.name, flags);
        }
        None
    }
}

/// None if something is there that is no placeholder, which is not opened.
fn create_or_open(parent: &OwnedFd, name: &Path, kind: NameKind) -> io::Result<Option<OwnedFd>> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => {
            let Some(kind) = kind_of(&found, kind) else { return Ok(None) };
            match open(parent, name, kind, OFlags::empty()) {
                // It was removed or replaced just now.
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => create_or_open(parent, name, kind),
                other => Ok(Some(other?)),
            }
        }
        Err(Errno::NOENT) => create(parent, name, kind),
        Err(error) => Err(error.into()),
    }
}

fn create(parent: &OwnedFd, name: &Path, kind: NameKind) -> io::Result<Option<OwnedFd>> {
    let created = match kind {
        NameKind::Folder => {
            mkdirat(parent, name, Mode::from_raw_mode(0o755)).and_then(|()| open(parent, name, kind, OFlags::empty()))
        }
        NameKind::File | NameKind::CommonDir => open(parent, name, kind, OFlags::CREATE | OFlags::EXCL),
    };
    let handle = match created {
        Ok(handle) => handle,
        // Another process was faster.
        Err(Errno::EXIST) => return create_or_open(parent, name, kind),
        Err(error) => return Err(error.into()),
    };
    // Locked before it is marked: what is marked may be removed.
    flock(&handle, FlockOperation::NonBlockingLockShared)?;
    if kind == NameKind::CommonDir {
        rustix::io::write(
            openat(parent, name, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?,
            b".\n",
        )?;
    }
    let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(&handle, &Timestamps { last_access: unchanged, last_modification: MARK })?;
    Ok(Some(handle))
}

fn open(parent: &OwnedFd, name: &Path, kind: NameKind, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let folder = if kind == NameKind::Folder { OFlags::DIRECTORY } else { OFlags::empty() };
    let flags = flags | folder | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::from_raw_mode(0o644))
}

/// The kind of placeholder that something is; none if it is none. A folder changes its time when anything is created in it.
fn kind_of(found: &Stat, wanted: NameKind) -> Option<NameKind> {
    let is_marked = found.st_mtime == MARK.tv_sec && found.st_mtime_nsec == 0;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if is_marked => Some(NameKind::Folder),
        FileType::RegularFile if is_marked && found.st_size == 0 => Some(NameKind::File),
        FileType::RegularFile if is_marked && found.st_size == 2 && wanted == NameKind::CommonDir => {
            Some(NameKind::CommonDir)
        }
        _ => None,
    }
}

fn is_same(parent: &OwnedFd, name: &Path, held: &Stat) -> bool {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino))
}
