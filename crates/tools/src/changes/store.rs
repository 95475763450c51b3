//! The contents of files before they were changed, each under its hash, in one folder of the home (`files/`), readable by
//! its user alone. A content is durable before the change that needs it is made.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use engine::Hash;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fsync, openat, renameat, unlinkat,
    utimensat,
};

use super::trim;
use crate::limits::HASHED_AT_ONCE_BYTES;

/// One part of the largest size that is written between two looks at the whole.
const LOOKS: u64 = 16;

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// The largest file whose content is kept, bytes.
    pub file_bytes: u64,
    /// The largest size of all contents, bytes; the oldest are removed past it.
    pub most_bytes: u64,
    /// How long a content is kept, milliseconds.
    pub keep_ms: u64,
    /// What is kept of a workspace before a command; none = what commands change is not recorded.
    pub workspace: Option<WorkspaceLimits>,
}

/// How much of one workspace is kept before a command may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceLimits {
    /// The number of files.
    pub files: usize,
    /// All of them together, bytes.
    pub bytes: u64,
}

impl Default for WorkspaceLimits {
    fn default() -> Self {
        Self { files: 50_000, bytes: 500 << 20 }
    }
}

impl StoreLimits {
    /// No limits.
    pub const NONE: Self = Self {
        file_bytes: u64::MAX,
        most_bytes: u64::MAX,
        keep_ms: u64::MAX,
        workspace: Some(WorkspaceLimits { files: usize::MAX, bytes: u64::MAX }),
    };
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            file_bytes: 10 << 20,
            most_bytes: 2000 << 20,
            keep_ms: 30 * 24 * 60 * 60 * 1000,
            workspace: Some(WorkspaceLimits::default()),
        }
    }
}

/// The kept contents of a home.
#[derive(Debug, Clone)]
pub struct FileStore {
    pub(super) folder: PathBuf,
    pub(super) limits: StoreLimits,
}

/// Contents that were written and are not durable before this is synced.
#[derive(Debug)]
pub(crate) struct Unsynced(OwnedFd);

impl Unsynced {
    /// Makes them durable.
    pub(crate) fn sync(self) -> io::Result<()> {
        Ok(fsync(self.0)?)
    }
}

impl FileStore {
    /// The store in this folder, which is created when it is needed.
    pub fn new(folder: PathBuf, limits: StoreLimits) -> Self {
        Self { folder, limits }
    }

    /// The same store, which keeps files of any size.
    pub(crate) fn unlimited(&self) -> Self {
        Self { folder: self.folder.clone(), limits: StoreLimits { file_bytes: u64::MAX, ..self.limits } }
    }

    /// The content of this hash; none if it is not kept or not whole. May block.
    pub fn content(&self, hash: &Hash) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(self.open().ok()?, name(hash), flags, Mode::empty()).ok()?);
        let mut content = vec![];
        file.read_to_end(&mut content).ok()?;
        (Hash::of(&content) == *hash).then_some(content)
    }

    /// The same if it has at most this many bytes.
    pub fn content_within(&self, hash: &Hash, most_bytes: u64) -> Option<Vec<u8>> {
        let found = rustix::fs::statat(self.open().ok()?, name(hash), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (found.st_size as u64 <= most_bytes).then(|| self.content(hash)).flatten()
    }

    /// Whether a content is kept.
    pub fn has(&self, hash: &Hash) -> bool {
        fs::symlink_metadata(self.folder.join(name(hash))).is_ok_and(|found| found.is_file())
    }

    /// Keeps the content of an open file of this size, unless that is too large. An error if it does not have this hash.
    pub(crate) fn keep(&self, from: impl Read, bytes: u64, hash: &Hash) -> io::Result<Unsynced> {
        let _in_use = trim::in_use();
        let folder = self.make()?;
        // What is kept already is kept for longer.
        if !touch(&folder, hash) && bytes <= self.limits.file_bytes {
            Self::write(&folder, from, hash)?;
            self.trim_at_times(bytes);
        }
        Ok(Unsynced(folder))
    }

    fn write(folder: &OwnedFd, mut from: impl Read, hash: &Hash) -> io::Result<()> {
        let fresh = fresh_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(folder, &fresh, flags, Mode::RUSR | Mode::WUSR)?);
        let written = copy(&mut from, &mut file, hash).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| Ok(renameat(folder, &fresh, folder, name(hash))?));
        placed.inspect_err(|_| {
            let _ = unlinkat(folder, &fresh, AtFlags::empty());
        })
    }

    /// Trims on another thread: at first, and whenever a part of the largest size was written.
    pub(super) fn trim_at_times(&self, bytes: u64) {
        static WRITTEN: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let since = written.get(&self.folder).map_or(u64::MAX, |since| since.saturating_add(bytes));
        let is_due = since >= self.limits.most_bytes / LOOKS;
        written.insert(self.folder.clone(), if is_due { 0 } else { since });
        if is_due {
            let store = self.clone();
            // Without a thread, the next look removes it.
            let _ = thread::Builder::new().name("trim".to_owned()).spawn(move || store.trim());
        }
    }

    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(CWD, &self.folder, flags, Mode::empty())?)
    }

    pub(super) fn make(&self) -> io::Result<OwnedFd> {
        match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match DirBuilder::new().mode(0o700).create(&self.folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
                if let Some(home) = self.folder.parent() {
                    File::open(home)?.sync_all()?;
                }
                self.open()
            }
            opened => opened,
        }
    }
}

pub(super) fn name(hash: &Hash) -> String {
    hash.to_string()
}

/// A name for a file that is being written.
pub(super) fn fresh_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!(".{}.{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Keeps a content for longer; false if it is not kept.
pub(super) fn touch(folder: &OwnedFd, hash: &Hash) -> bool {
    let all = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    utimensat(folder, name(hash), &all, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Copies everything. An error if it does not have this hash: somebody changed the file meanwhile.
fn copy(from: &mut impl Read, to: &mut File, hash: &Hash) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; HASHED_AT_ONCE_BYTES as usize];
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            break;
        }
        hasher.update(&piece[..read]);
        to.write_all(&piece[..read])?;
    }
    if Hash(*hasher.finalize().as_bytes()) == *hash {
        return Ok(());
    }
    Err(io::Error::other("somebody changed it while its content was copied; look at it again"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn kept(store: &FileStore, content: &str) -> Hash {
        let hash = Hash::of(content.as_bytes());
        store.keep(content.as_bytes(), content.len() as u64, &hash).unwrap().sync().unwrap();
        hash
    }

    #[test]
    fn r17_a_content_is_kept_once_for_its_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let store = FileStore::new(home.path().join("files"), StoreLimits { file_bytes: 5, ..StoreLimits::NONE });
        let hash = kept(&store, "one");
        assert_eq!(kept(&store, "one"), hash);
        assert_eq!(store.content(&hash).as_deref(), Some(&b"one"[..]));
        assert!(!store.has(&kept(&store, "too large")));
        let wrong = store.keep(&b"two"[..], 3, &Hash::of(b"2"));
        assert!(wrong.is_err(), "a content that is not what the check saw is no content before the change");
        let files: Vec<_> = fs::read_dir(home.path().join("files")).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let modes = [home.path().join("files"), files[0].path()].map(|path| fs::metadata(path).unwrap().mode() & 0o777);
        assert_eq!(modes, [0o700, 0o600]);
        // A damaged content is none.
        fs::write(files[0].path(), "two").unwrap();
        assert_eq!(store.content(&hash), None);
    }

    #[test]
    fn r17_an_empty_content_is_kept_too() {
        let home = tempfile::tempdir().unwrap();
        let store = FileStore::new(home.path().join("files"), StoreLimits::default());
        let mut keeping = super::super::keeping::Keeping::begin(&store).unwrap();
        let hash = keeping.content(b"").unwrap();
        keeping.finish().unwrap();
        assert_eq!(store.content(&hash), Some(vec![]));
    }

    #[test]
    fn r21_contents_go_when_they_are_old_and_the_oldest_when_they_are_too_many() {
        let home = tempfile::tempdir().unwrap();
        let all = FileStore::new(home.path().join("files"), StoreLimits::NONE);
        let aged = |content: &str, days: u64| {
            let hash = kept(&all, content);
            let at = SystemTime::now() - Duration::from_hours(24 * days);
            File::options()
                .write(true)
                .open(home.path().join("files").join(name(&hash)))
                .unwrap()
                .set_modified(at)
                .unwrap();
            hash
        };
        let hashes = [aged("aaaa", 31), aged("bbbb", 9), aged("cccc", 8), aged("dddd", 7)];
        let limits = StoreLimits { most_bytes: 8, ..StoreLimits::default() };
        FileStore::new(home.path().join("files"), limits).trim().unwrap();
        assert_eq!(hashes.map(|hash| all.has(&hash)), [false, false, true, true]);
    }
}
