//! The folder of a journal: its modes, its lock, the name of its owner.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{Position, Timestamp};

use rustix::process::{Pid, test_kill_process};

use super::files::{self, Open};
use super::mark::Mark;
use crate::Error;

/// The name of the database in its home.
pub(super) const DATABASE: &str = "journal.db";
const LOCK: &str = "owner.lock";
/// The beginning of the name of a folder in which a backup is unpacked. While one is there, the home has no other owner.
pub const RESTORING: &str = ".restoring-";
pub(super) const MARK: &str = "journal.mark";
const PRIVATE_FOLDER: u32 = 0o700;
pub(super) const PRIVATE_FILE: u32 = 0o600;
const STICKY: u32 = 0o1000;
/// How often taking a lock whose owner is dead is retried, and the delay after each attempt.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

/// A home that this process owns until this value is dropped.
#[derive(Debug)]
pub(super) struct Owned {
    path: PathBuf,
    mark: Mark,
    _lock: Lock,
}

/// A file that was quarantined under another name.
#[derive(Debug)]
pub(super) struct Quarantined {
    pub(super) name: String,
}

/// The lock of a home; dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Lock(Open);

/// A home that this process holds to restore it: it has no other owner until this is dropped.
#[derive(Debug)]
pub struct HomeLock(#[allow(dead_code, reason = "it is held")] Lock);

impl HomeLock {
    /// Makes the folder if it does not exist, and locks it.
    pub fn take(home: &Path) -> Result<Self, Error> {
        make_folder(home).map_err(unwritable(home))?;
        lock(home).map(Self)
    }

    /// The names in a home that are there without a home: the lock itself.
    pub fn is_its_file(name: &std::ffi::OsStr) -> bool {
        name == LOCK
    }
}

/// Whether a restore was cut off there.
fn is_being_restored(home: &Path) -> bool {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(RESTORING))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being forked at this moment has the file open until its exec.
        self.0.unlock();
    }
}

impl Owned {
    /// Makes the folder if it does not exist, and locks it.
    pub(super) fn take(home: &Path) -> Result<Self, Error> {
        make_folder(home).map_err(unwritable(home))?;
        let lock = lock(home)?;
        if is_being_restored(home) {
            return Err(Error::Unrestored { home: home.to_owned() });
        }
        Self::locked(home, lock)
    }

    /// Locks an existing home for a repair; an invalid mark is quarantined.
    pub(super) fn take_to_repair(home: &Path) -> Result<(Self, Option<Quarantined>), Error> {
        let lock = lock(home)?;
        let mark = home.join(MARK);
        let quarantined = match Mark::open(&mark) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let kept = copy_name(&mark, "damaged");
                files::rename(&mark, &kept).map_err(unwritable(&mark))?;
                Some(Quarantined { name: kept.file_name().unwrap_or_default().to_string_lossy().into_owned() })
            }
            _ => None,
        };
        Ok((Self::locked(home, lock)?, quarantined))
    }

    fn locked(home: &Path, lock: Lock) -> Result<Self, Error> {
        let database = home.join(DATABASE);
        keep_private(&database).map_err(unwritable(&database))?;
        let mark = home.join(MARK);
        make_private(&mark).map_err(unwritable(&mark))?;
        let mark = Mark::open(&mark).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Error::Damaged { path: mark, detail: error.to_string() },
            _ => unwritable(&mark)(error),
        })?;
        Ok(Self { path: home.to_owned(), mark, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The position and chain value that were acknowledged last.
    pub(super) fn mark(&self) -> Result<Option<(Position, engine::Hash)>, Error> {
        self.mark.read().map_err(unwritable(&self.path))
    }

    /// Records what is acknowledged from now on. It needs no space: the file has its full size since it was opened.
    pub(super) fn set_mark(&self, position: Position, chain: engine::Hash) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Failed { path: self.path.join(MARK), detail: error.to_string() };
        self.mark.write(position, chain).map_err(failed)
    }
}

/// Sets the mark to a synced entry and syncs it: then even a loss of power cannot leave a mark that names an earlier
/// entry.
pub(super) fn sync_mark(home: &Path, position: Position, chain: engine::Hash) -> Result<(), Error> {
    let path = home.join(MARK);
    let write = || {
        let mark = Mark::open(&path)?;
        mark.write(position, chain)?;
        mark.sync()
    };
    write().map_err(|error| Error::Failed { path: path.clone(), detail: error.to_string() })
}

/// The name under which a file is kept: `journal.db.damaged-20261121T123456Z`.
pub(super) fn copy_name(path: &Path, what: &str) -> PathBuf {
    let seconds = super::now().0.div_euclid(1000);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{what}-{}", time.strftime("%Y%m%dT%H%M%SZ")))
}

pub(super) fn unwritable(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| {
        let path = path.to_owned();
        if is_full(&error) { Error::Full { path } } else { Error::Unwritable { path, detail: error.to_string() } }
    }
}

/// Whether space is missing: on the disk, in the user's quota, or under a limit on file size.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Makes the folder private. A folder that others share (one with the sticky bit, or another user's) keeps its mode:
/// the files are private anyway.
fn make_folder(home: &Path) -> io::Result<()> {
    files::make_folder(home, PRIVATE_FOLDER).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(error.kind(), "it is a file and not a folder"),
        _ => error,
    })?;
    let meta = fs::metadata(home)?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & STICKY == 0;
    if ours && meta.mode() & 0o077 != 0 {
        files::set_mode(home, PRIVATE_FOLDER)?;
    }
    Ok(())
}

/// Creates the file if it does not exist. Never opens an existing one: closing it would release the locks that this
/// process' SQLite has on it.
fn make_private(path: &Path) -> io::Result<()> {
    match Open::new(files::private(PRIVATE_FILE).create_new(true), path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => keep_private(path),
        Err(error) => Err(error),
    }
}

/// Sets the mode of an existing file.
fn keep_private(path: &Path) -> io::Result<()> {
    match files::set_mode(path, PRIVATE_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        set => set,
    }
}

/// Replaces whatever is there by an empty private file.
pub(super) fn renew(path: &Path) -> Result<(), Error> {
    match files::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => make_private(path),
    }
    .map_err(unwritable(path))
}

/// Renames a finished file to its final name, durably.
pub(super) fn put(finished: &Path, path: &Path) -> Result<(), Error> {
    files::sync(finished)
        .and_then(|()| files::rename(finished, path))
        .and_then(|()| files::sync_name(path))
        .map_err(unwritable(path))
}

/// Takes the lock and writes this process' name into it: pid, time and host, one per line.
fn lock(home: &Path) -> Result<Lock, Error> {
    lock_or_wait(home, |_| std::thread::sleep(BETWEEN))
}

/// Takes the lock. While the named owner is dead it calls `wait` and retries, at most [`TRIES`] times: a child that the
/// owner was about to start holds the lock until its exec.
pub(super) fn lock_or_wait(home: &Path, wait: impl Fn(u32)) -> Result<Lock, Error> {
    let path = home.join(LOCK);
    let mut options = files::private(PRIVATE_FILE);
    let file = Open::new(options.read(true).create(true).truncate(false), &path).map_err(unwritable(&path))?;
    for tried in 1.. {
        match file.lock() {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let owner = Name::read(&path);
                if tried == TRIES || !owner.is_dead() {
                    return Err(Error::Owned { home: home.to_owned(), pid: owner.pid, since: owner.since });
                }
                wait(tried);
            }
            Err(error) => return Err(unwritable(&path)(error)),
        }
    }
    let name = format!("{}\n{}\n{}\n", std::process::id(), rfc3339(super::now()), host());
    // Written over the previous name, which needs no space. On a full disk the name may be missing: it is only for
    // people.
    match file.write_all_at(name.as_bytes(), 0).and_then(|()| file.resize(name.len() as u64)) {
        Err(error) if !is_full(&error) => Err(unwritable(&path)(error)),
        _ => Ok(Lock(file)),
    }
}

/// The name that an owner wrote into its lock.
struct Name {
    pid: Option<u32>,
    since: Option<String>,
    host: Option<String>,
}

impl Name {
    /// Reads the name of the holder. A lock without a name is valid too: the name is only for people.
    fn read(path: &Path) -> Self {
        let name = fs::read_to_string(path).unwrap_or_default();
        let mut lines = name.lines();
        Self {
            pid: lines.next().and_then(|pid| pid.parse().ok()),
            since: lines.next().map(str::to_owned),
            host: lines.next().map(str::to_owned),
        }
    }

    /// Whether this owner has certainly ended: it ran on this machine, and no such process exists.
    fn is_dead(&self) -> bool {
        let pid = self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        self.host == Some(host()) && pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }
}

fn rfc3339(time: Timestamp) -> String {
    jiff::Timestamp::from_second(time.0 / 1000).map_or_else(|_| time.to_string(), |time| time.to_string())
}

/// The name of this machine.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
