//! Looks at every file and folder of a workspace, without reading a file. Nothing is followed: no link, no mount, no folder
//! that belongs to limulus. What the rules of `.gitignore` and the like leave out is listed, but not entered.

use std::ffi::OsStr;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::NotKept;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, StatxAttributes, StatxFlags, fstat, statat, statx};

use super::listing::{Entry, EntryKind, Known, Listing, Stamp, is_fresh};
use crate::cancel::Cancel;
use crate::guard::MODE_BITS;
use crate::ignored::{IgnoreRules, Ignored};
use crate::limits::{LISTED_BY_ONE, LISTED_DEPTH, LISTED_ENTRIES, LISTING_MS, LISTING_THREADS};
use crate::openat;
use crate::paths::Workspace;

/// When a look at a workspace ends at the latest.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    at: Instant,
    cancel: Cancel,
}

impl Deadline {
    pub(super) fn new(cancel: &Cancel) -> Self {
        Self { at: Instant::now() + Duration::from_millis(LISTING_MS), cancel: cancel.clone() }
    }

    /// An error if the time is over, or nobody waits any more.
    pub(super) fn check(&self) -> Result<(), NotKept> {
        if self.cancel.is_set() || Instant::now() >= self.at { Err(NotKept::TooSlow) } else { Ok(()) }
    }
}

/// Nanoseconds since 1970.
pub(super) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// Lists the workspace. The contents are not known yet: a file or link that is to be kept has [`Known::Nothing`].
pub(super) fn scan(workspace: &Workspace, deadline: &Deadline) -> Result<Listing, NotKept> {
    scan_alone_up_to(LISTED_BY_ONE, workspace, deadline)
}

/// The same; one thread lists up to `alone` entries, then several do.
fn scan_alone_up_to(alone: usize, workspace: &Workspace, deadline: &Deadline) -> Result<Listing, NotKept> {
    let taken_ns = now_ns();
    let root = workspace.open_root().map_err(|_| NotKept::NotRecorded)?;
    let root_changed_ns = fstat(&root).map(|stat| stamp(&stat).changed_ns).map_err(|_| NotKept::NotRecorded)?;
    let shared =
        Shared { workspace, root, taken_ns, deadline, listed: AtomicUsize::new(0), folders: Folders::default() };
    let mut first = Scan::new(&shared);
    first.folder(&shared.root, b"")?;
    first.until(|| shared.listed.load(Ordering::Relaxed) >= alone)?;
    let (mut entries, unread) = if shared.folders.is_empty() { first.found() } else { together(&shared, first)? };
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let mut listing = Listing { root: workspace.root.clone(), taken_ns, root_changed_ns, entries };
    for path in unread {
        listing.mark_unreadable(&path);
    }
    Ok(listing)
}

/// Has several threads list what is left of a large workspace.
fn together(shared: &Shared<'_>, first: Scan<'_>) -> Result<Found, NotKept> {
    let others = thread::available_parallelism().map_or(1, NonZero::get).min(LISTING_THREADS) - 1;
    thread::scope(|scope| {
        let spawn = |_| {
            let listing = thread::Builder::new().name("list".to_owned());
            listing.spawn_scoped(scope, || finished(Scan::new(shared)))
        };
        // Without a thread, the others list its part.
        let others: Vec<_> = (0..others).filter_map(|number| spawn(number).ok()).collect();
        let mut found = finished(first);
        for other in others {
            let other = other.join().unwrap_or(Err(NotKept::NotRecorded));
            found = found.and_then(|(mut entries, mut unread)| {
                let other = other?;
                entries.extend(other.0);
                unread.extend(other.1);
                Ok((entries, unread))
            });
        }
        found
    })
}

/// Lists what is left, as one of several threads.
fn finished(mut scan: Scan<'_>) -> Result<Found, NotKept> {
    let ended = scan.until(|| false);
    if ended.is_err() {
        // Nobody needs what the others would find.
        scan.shared.folders.close();
    }
    ended.map(|()| scan.found())
}

/// What a thread has listed, and the folders that it could not list to their ends.
type Found = (Vec<Entry>, Vec<Box<[u8]>>);

/// What the threads of one look share.
struct Shared<'a> {
    workspace: &'a Workspace,
    root: OwnedFd,
    taken_ns: i64,
    deadline: &'a Deadline,
    /// How many entries all of them have listed.
    listed: AtomicUsize,
    folders: Folders,
}

/// The folders that are still to be entered.
#[derive(Default)]
struct Folders {
    left: Mutex<Left>,
    changed: Condvar,
}

#[derive(Default)]
struct Left {
    paths: Vec<Box<[u8]>>,
    /// Threads that list a folder, and so may add others.
    working: usize,
    is_closed: bool,
}

impl Folders {
    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.lock().paths.is_empty()
    }

    /// Adds folders. The caller is the one that lists the folder above.
    fn add(&self, paths: Vec<Box<[u8]>>) {
        if !paths.is_empty() {
            self.lock().paths.extend(paths);
            self.changed.notify_all();
        }
    }

    /// The next folder; none if there is none left. Waits for those who may add one.
    fn next(&self) -> Option<NextFolder<'_>> {
        let mut left = self.lock();
        loop {
            if left.is_closed {
                return None;
            }
            if let Some(path) = left.paths.pop() {
                left.working += 1;
                return Some(NextFolder { path, folders: self });
            }
            if left.working == 0 {
                return None;
            }
            left = self.changed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// A folder that a thread lists.
struct NextFolder<'a> {
    path: Box<[u8]>,
    folders: &'a Folders,
}

impl Drop for NextFolder<'_> {
    fn drop(&mut self) {
        let mut left = self.folders.lock();
        left.working -= 1;
        if left.working == 0 {
            self.folders.changed.notify_all();
        }
    }
}

/// The part of one thread.
struct Scan<'a> {
    shared: &'a Shared<'a>,
    rules: IgnoreRules,
    entries: Vec<Entry>,
    unread: Vec<Box<[u8]>>,
    /// Folders of the folder that is being listed.
    below: Vec<Box<[u8]>>,
}

impl<'a> Scan<'a> {
    fn new(shared: &'a Shared<'a>) -> Self {
        let rules = IgnoreRules::of(&shared.workspace.root);
        Self { shared, rules, entries: vec![], unread: vec![], below: vec![] }
    }

    fn found(self) -> Found {
        (self.entries, self.unread)
    }

    /// Lists folders until none is left, or until `is_enough`.
    fn until(&mut self, is_enough: impl Fn() -> bool) -> Result<(), NotKept> {
        while !is_enough() {
            let Some(next) = self.shared.folders.next() else { return Ok(()) };
            if !self.enter(&next.path)? {
                // It is gone or replaced, or nobody may read it: not all is known of what is in it.
                self.unread.push(next.path.clone());
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: &[u8]) -> Result<bool, NotKept> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match openat::open(&self.shared.root, Path::new(OsStr::from_bytes(path)), flags) {
            Ok(folder) if self.shared.workspace.may_enter(&folder) => self.folder(&folder, path),
            _ => Ok(false),
        }
    }

    /// Lists a folder; false if it could not be read to its end.
    fn folder(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<bool, NotKept> {
        let is_whole = self.list(folder, path)?;
        self.shared.folders.add(std::mem::take(&mut self.below));
        Ok(is_whole)
    }

    fn list(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<bool, NotKept> {
        self.shared.deadline.check()?;
        let Ok(entries) = Dir::read_from(folder) else { return Ok(false) };
        let real = self.shared.workspace.root.join(OsStr::from_bytes(path));
        self.rules.enter(&real);
        for (number, entry) in entries.enumerate() {
            if number % 4_096 == 4_095 {
                self.shared.deadline.check()?;
            }
            let Ok(entry) = entry else { return Ok(false) };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // What is gone by now was never there.
            let Ok(stat) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if is_placeholder(&stat) {
                continue;
            }
            if self.shared.listed.fetch_add(1, Ordering::Relaxed) >= LISTED_ENTRIES {
                return Err(NotKept::TooManyFiles);
            }
            self.entry((folder, &real), path, name, &stat);
        }
        Ok(true)
    }

    fn entry(&mut self, folder: (&OwnedFd, &Path), above: &[u8], name: &[u8], stat: &Stat) {
        let path: Box<[u8]> = if above.is_empty() { name.into() } else { [above, b"/", name].concat().into() };
        let kind = entry_kind(stat);
        let known = self.left_out(folder, &path, name, kind).map_or(Known::Nothing, Known::Not);
        let is_entered = kind == EntryKind::Folder && known == Known::Nothing;
        if is_entered {
            self.below.push(path.clone());
        }
        let stamp = stamp(stat);
        let is_fresh = is_fresh(stamp.changed_ns, self.shared.taken_ns);
        self.entries.push(Entry { path, kind, mode: stat.st_mode & MODE_BITS, stamp, known, is_fresh });
    }

    /// Why an entry is neither read nor entered.
    fn left_out(
        &self,
        (folder, real): (&OwnedFd, &Path),
        path: &[u8],
        name: &[u8],
        kind: EntryKind,
    ) -> Option<NotKept> {
        let real = real.join(OsStr::from_bytes(name));
        if name == b".git" || self.rules.judge_here(&real, kind == EntryKind::Folder) == Ignored::Yes {
            return Some(NotKept::Ignored);
        }
        match kind {
            EntryKind::Special => Some(NotKept::Special),
            _ if std::str::from_utf8(name).is_err() => Some(NotKept::Name),
            EntryKind::Folder => {
                let is_deep = Path::new(OsStr::from_bytes(path)).components().count() > LISTED_DEPTH;
                (is_deep || is_mount(folder, name)).then_some(NotKept::Unreadable)
            }
            EntryKind::File | EntryKind::Link => None,
        }
    }
}

/// Whether it stands in for a name that a sandbox protects, as long as a command runs in that sandbox.
pub(super) fn is_placeholder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
        && (stat.st_mtime, stat.st_mtime_nsec) == (confine::PLACEHOLDER_S, 0)
}

/// Whether something else is mounted there.
pub(super) fn is_mount(folder: &OwnedFd, name: &[u8]) -> bool {
    let found = statx(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

pub(super) fn entry_kind(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Special,
    }
}

pub(super) fn stamp(stat: &Stat) -> Stamp {
    let time = |seconds: i64, nanoseconds: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    Stamp {
        size: stat.st_size as u64,
        modified_ns: time(stat.st_mtime, stat.st_mtime_nsec as i64),
        changed_ns: time(stat.st_ctime, stat.st_ctime_nsec as i64),
        inode: stat.st_ino,
    }
}

/// What is at this path of a workspace now, without its content; none if nothing is.
pub(super) fn look(root: impl AsFd, path: &[u8]) -> Option<Entry> {
    let (above, name) = openat::split(Path::new(OsStr::from_bytes(path)));
    let folder = openat::open(root, above, openat::FOLDER).ok()?;
    let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let (kind, stamp) = (entry_kind(&stat), stamp(&stat));
    let known = if kind == EntryKind::Folder { Known::Nothing } else { Known::Not(NotKept::Ignored) };
    Some(Entry { path: path.into(), kind, mode: stat.st_mode & MODE_BITS, stamp, known, is_fresh: true })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::guard::Protected;

    #[test]
    fn r17_several_threads_list_what_one_lists() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..300 {
            let at = folder.path().join(format!("a{}/b{}/c{number}", number % 3, number % 7));
            fs::create_dir_all(at.join("target")).unwrap();
            fs::write(at.join("file"), "x").unwrap();
            fs::write(at.join("file.log"), "x").unwrap();
            fs::write(at.join(".gitignore"), if number % 2 == 0 { "*.log" } else { "target/" }).unwrap();
        }
        let locked = folder.path().join("a0/b0/c0/locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        let workspace = Workspace::open(folder.path(), &Protected::default()).unwrap();
        let deadline = Deadline::new(&Cancel::default());
        let listed = |alone| {
            let listing = scan_alone_up_to(alone, &workspace, &deadline).unwrap();
            assert!(listing.entries.is_sorted_by(|a, b| a.path < b.path));
            let known = |entry: Entry| (entry.path, entry.kind, entry.mode, entry.stamp, entry.known);
            listing.entries.into_iter().map(known).collect::<Vec<_>>()
        };
        let one = listed(usize::MAX);
        assert_eq!(one.len(), 1_525, "3 folders, 21 in them, 300 with four entries each, and one that nobody may read");
        for alone in [0, 1, 100] {
            assert_eq!(listed(alone), one);
        }
    }

    #[test]
    fn r17_all_threads_stop_when_one_gives_up() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            fs::create_dir(folder.path().join(format!("d{number}"))).unwrap();
        }
        let workspace = Workspace::open(folder.path(), &Protected::default()).unwrap();
        let deadline = Deadline::new(&Cancel::cancelled());
        let shared = Shared {
            workspace: &workspace,
            root: workspace.open_root().unwrap(),
            taken_ns: now_ns(),
            deadline: &deadline,
            listed: AtomicUsize::new(0),
            folders: Folders::default(),
        };
        shared.folders.add((0..50).map(|number| format!("d{number}").into_bytes().into()).collect());
        assert_eq!(together(&shared, Scan::new(&shared)).err(), Some(NotKept::TooSlow));
    }
}
