//! Placeholders: empty files and folders on the host, over which the view attaches a mask for a protected name that does not
//! exist.
//!
//! Several commands in one workspace share a placeholder. Each holds a shared lock on it; who can turn it into an exclusive one
//! is the last, and removes it. The file of a socket cannot be locked, so for these the folder around them is, and all that one process
//! creates are names of one file. Its time of modification marks it, so one that a killed process has left is recognised and
//! removed by the next; and if anybody has put something into it, the mark is gone and it stays.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, flock, fstat,
    futimens, linkat, mkdirat, mknodat, openat, statat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::paths::{handle_path, open_handle_at};
use crate::profile::NameKind;
use crate::report::Unprotected;

/// When each placeholder was modified, seconds since 1970 UTC: no file of anybody has this time.
pub const PLACEHOLDER_S: i64 = 1;
const MARK: Timespec = Timespec { tv_sec: PLACEHOLDER_S, tv_nsec: 0 };
/// How often it is tried to hold what others create and remove at the same time.
const TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// A placeholder that this process holds.
#[derive(Debug)]
pub(super) struct Placeholder {
    lock: Lock,
    found: Stat,
    parent: OwnedFd,
    name: PathBuf,
    path: PathBuf,
    kind: NameKind,
}

/// What is locked as long as a placeholder is needed.
#[derive(Debug)]
enum Lock {
    Placeholder(OwnedFd),
    Folder(FolderLock),
}

impl Lock {
    /// Whether nobody else needs the placeholder any more.
    fn is_last(&self) -> bool {
        let locked = match self {
            Self::Placeholder(handle) => handle,
            Self::Folder(FolderLock(folder)) => folder,
        };
        flock(locked, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

/// A lock on the folder of placeholders that cannot be locked themselves.
#[derive(Debug, Clone)]
pub(super) struct FolderLock(Rc<OwnedFd>);

impl FolderLock {
    /// Takes a shared lock. Who has an exclusive one is removing placeholders, and about to end.
    pub(super) fn shared(folder: &OwnedFd) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(folder, ".", flags, Mode::empty())?;
        for _ in 0..TRIES {
            match flock(&handle, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(Self(Rc::new(handle))),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process locks the folder"))
    }
}

/// The file of a socket that this process holds. Further names of the same file are much cheaper for a file system than further
/// files, which the next command would create again.
#[derive(Debug, Default)]
pub(super) struct SocketFile(Option<OwnedFd>);

impl SocketFile {
    /// Gives the file a further name, or creates one there.
    fn create(&mut self, parent: &OwnedFd, name: &Path) -> rustix::io::Result<()> {
        if let Some(file) = &self.0 {
            match linkat(CWD, handle_path(file), parent, name, AtFlags::SYMLINK_FOLLOW) {
                // Another file system, one without such names, too many of them, or the file has none left.
                Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::NOENT) => {}
                linked => return linked,
            }
        }
        mknodat(parent, name, FileType::Socket, Mode::from_raw_mode(0o444), 0)?;
        utimensat(parent, name, &marked(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The next names are those of this file.
    fn remember(&mut self, parent: &OwnedFd, name: &Path, found: &Stat) {
        let same =
            |file: &OwnedFd| fstat(file).is_ok_and(|now| (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino));
        if self.0.is_none() && kind_of(found, NameKind::Socket).is_some() {
            self.0 = open_handle_at(parent, name).ok().filter(same);
        }
    }
}

impl Placeholder {
    /// Holds the file of a socket at a name, and creates it if nothing is there; none if something else is there.
    pub(super) fn hold_socket(
        lock: FolderLock,
        parent: &OwnedFd,
        (name, path): (&Path, &Path),
        file: &mut SocketFile,
    ) -> io::Result<Option<Self>> {
        match file.create(parent, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !FileType::from_raw_mode(found.st_mode).is_socket() {
            return Ok(None);
        }
        file.remember(parent, name, &found);
        let (parent, name, path) = (parent.try_clone()?, name.to_owned(), path.to_owned());
        Ok(Some(Self { lock: Lock::Folder(lock), found, parent, name, path, kind: NameKind::Socket }))
    }

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
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let held = fstat(&handle)?;
            if same(parent, name, &held).is_none() {
                continue;
            }
            let Some(kind) = kind_of(&held, kind) else { return Ok(None) };
            let (parent, name, path) = (parent.try_clone()?, name.to_owned(), path.to_owned());
            return Ok(Some(Self { lock: Lock::Placeholder(handle), found: held, parent, name, path, kind }));
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process locks the placeholder"))
    }

    /// Removes it if nobody else holds it and nobody has changed it. Says so if it was removed meanwhile, because the mask went
    /// with it.
    pub(super) fn release(self) -> Option<Unprotected> {
        let Some(now) = same(&self.parent, &self.name, &self.found) else {
            let reason = "somebody outside the sandbox removed it while the command ran".to_owned();
            return Some(Unprotected { path: self.path, reason });
        };
        if self.lock.is_last() && kind_of(&now, self.kind).is_some() {
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
        NameKind::File | NameKind::CommonDir | NameKind::Socket => {
            open(parent, name, kind, OFlags::CREATE | OFlags::EXCL)
        }
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
    futimens(&handle, &marked())?;
    Ok(Some(handle))
}

fn marked() -> Timestamps {
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: MARK }
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
        FileType::Socket if is_marked => Some(NameKind::Socket),
        FileType::RegularFile if is_marked && found.st_size == 0 => Some(NameKind::File),
        FileType::RegularFile if is_marked && found.st_size == 2 && wanted == NameKind::CommonDir => {
            Some(NameKind::CommonDir)
        }
        _ => None,
    }
}

/// What is at a name now, if it is what was held.
fn same(parent: &OwnedFd, name: &Path, held: &Stat) -> Option<Stat> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    ((found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)).then_some(found)
}
