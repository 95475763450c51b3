//! Looks at every file and folder of a workspace, without reading a file. Nothing is followed: no link, no mount, no folder
//! that belongs to limulus. What the rules of `.gitignore` and the like leave out is listed, but not entered.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::NotKept;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, StatxAttributes, StatxFlags, fstat, statat, statx};

use super::listing::{Entry, EntryKind, Known, Listing, Stamp, is_fresh};
use crate::cancel::Cancel;
use crate::guard::MODE_BITS;
use crate::ignored::{IgnoreRules, Ignored};
use crate::limits::{LISTED_DEPTH, LISTED_ENTRIES, LISTING_MS};
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
    let taken_ns = now_ns();
    let root = workspace.open_root().map_err(|_| NotKept::NotRecorded)?;
    let root_changed_ns = fstat(&root).map(|stat| stamp(&stat).changed_ns).map_err(|_| NotKept::NotRecorded)?;
    let listing = Listing { root: workspace.root.clone(), taken_ns, root_changed_ns, entries: vec![] };
    let mut scan = Scan { workspace, rules: IgnoreRules::of(&workspace.root), listing, folders: vec![], deadline };
    scan.folder(&root, b"")?;
    while let Some(at) = scan.folders.pop() {
        let path = scan.listing.entries[at].path.clone();
        let opened = openat::open(&root, Path::new(OsStr::from_bytes(&path)), OFlags::RDONLY | OFlags::DIRECTORY);
        let is_listed = match opened {
            Ok(folder) if workspace.may_enter(&folder) => scan.folder(&folder, &path)?,
            _ => false,
        };
        if !is_listed {
            // It is gone or replaced, or nobody may read it: not all is known of what is in it.
            scan.listing.entries[at].known = Known::Not(NotKept::Unreadable);
        }
    }
    let mut listing = scan.listing;
    listing.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

struct Scan<'a> {
    workspace: &'a Workspace,
    rules: IgnoreRules,
    listing: Listing,
    /// The places of the folders that are still to be entered.
    folders: Vec<usize>,
    deadline: &'a Deadline,
}

impl Scan<'_> {
    /// Lists a folder; false if it could not be read to its end.
    fn folder(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<bool, NotKept> {
        self.deadline.check()?;
        let Ok(entries) = Dir::read_from(folder) else { return Ok(false) };
        let real = self.workspace.root.join(OsStr::from_bytes(path));
        self.rules.enter(&real);
        for (number, entry) in entries.enumerate() {
            if number % 4_096 == 4_095 {
                self.deadline.check()?;
            }
            let Ok(entry) = entry else { return Ok(false) };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // What is gone by now was never there.
            let Ok(stat) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if self.listing.entries.len() >= LISTED_ENTRIES {
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
            self.folders.push(self.listing.entries.len());
        }
        let stamp = stamp(stat);
        let is_fresh = is_fresh(stamp.changed_ns, self.listing.taken_ns);
        self.listing.entries.push(Entry { path, kind, mode: stat.st_mode & MODE_BITS, stamp, known, is_fresh });
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

/// Whether something else is mounted there.
fn is_mount(folder: &OwnedFd, name: &[u8]) -> bool {
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
