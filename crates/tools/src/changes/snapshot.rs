//! The last known state of each workspace: a listing, with all contents that it names in the store. A look at a workspace
//! reads only the files that are new or changed since the last one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Hash, NotKept};
use rustix::fs::{AtFlags, OFlags, fstat, readlinkat, statat};

use super::keeping::{Keeping, is_of_source};
use super::listing::{Entry, EntryKind, Known, Listing, is_fresh};
use super::scan::{Deadline, entry_kind, now_ns, scan, stamp};
use super::store::{FileStore, fresh_name, touch};
use super::trim;
use crate::limits::{LISTING_BYTES, PATH_BYTES, READ_TRIES};
use crate::openat;
use crate::paths::Workspace;

/// The folder of the listings, in that of the contents.
pub(super) const FOLDER: &str = "listings";

/// A look at a workspace.
pub(super) struct Snapshot {
    pub(super) listing: Listing,
    /// The file of the listing; not synced yet.
    pub(super) file: PathBuf,
}

/// Brings the last known state of a workspace up to date: all contents that it names are durable afterwards.
pub(super) fn refresh(store: &FileStore, workspace: &Workspace, deadline: &Deadline) -> Result<Snapshot, NotKept> {
    let lock = lock_of(&workspace.root);
    let _one_at_a_time = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let _in_use = trim::in_use();
    deadline.check()?;
    let file = place(store, &workspace.root);
    let known = read(&file).filter(|known| known.root == workspace.root);
    let mut listing = scan(workspace, deadline)?;
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::TimedOut { NotKept::TooSlow } else { NotKept::NotRecorded }
    };
    let is_changed = Look { store, workspace, deadline }.complete(&mut listing, known.as_ref()).map_err(failed)?;
    if is_changed {
        write(store, &file, &listing).map_err(failed)?;
    } else {
        let _ = File::open(&file).and_then(|file| file.set_modified(std::time::SystemTime::now()));
    }
    Ok(Snapshot { listing, file })
}

/// Whether a state of this workspace is known.
pub(super) fn is_known(store: &FileStore, root: &Path) -> bool {
    place(store, root).is_file()
}

/// The listing in a file; none if it is not whole. Never what a link leads to.
pub(super) fn read(path: &Path) -> Option<Listing> {
    Listing::from_bytes(&bytes(path)?)
}

/// The bytes of a listing.
pub(super) fn bytes(path: &Path) -> Option<Vec<u8>> {
    at_most(path, LISTING_BYTES)
}

/// The beginning of a listing, with the path of its workspace.
pub(super) fn head(path: &Path) -> Option<Vec<u8>> {
    at_most(path, 4 * PATH_BYTES as u64)
}

fn at_most(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let size = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    let mut bytes = Vec::with_capacity(size.min(most) as usize);
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn place(store: &FileStore, root: &Path) -> PathBuf {
    store.folder.join(FOLDER).join(Hash::of(root.as_os_str().as_bytes()).to_string())
}

/// The lock of a workspace: two looks at the same one would read the same files twice.
fn lock_of(root: &Path) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody holds those of which there is no other copy.
    locks.retain(|_, lock| Arc::strong_count(lock) > 1);
    Arc::clone(locks.entry(root.to_owned()).or_default())
}

/// Writes a listing beside the others, atomically.
fn write(store: &FileStore, file: &Path, listing: &Listing) -> io::Result<()> {
    let folder = store.folder.join(FOLDER);
    store.make()?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let fresh = folder.join(fresh_name());
    let written = File::options().write(true).create_new(true).mode(0o600).open(&fresh);
    let written = written.and_then(|mut to| to.write_all(&listing.to_bytes()));
    written.and_then(|()| fs::rename(&fresh, file)).inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// A look at a workspace while its contents are kept.
struct Look<'a> {
    store: &'a FileStore,
    workspace: &'a Workspace,
    deadline: &'a Deadline,
}

impl Look<'_> {
    /// Keeps what is new, and says of each entry where its content is. Returns whether anything differs from what was known.
    fn complete(&self, listing: &mut Listing, known: Option<&Listing>) -> io::Result<bool> {
        let limits = self.store.limits.workspace.unwrap_or_default();
        let root = self.workspace.open_root()?;
        let mut keeping = Keeping::begin(self.store)?;
        let (mut files, mut bytes, mut is_changed) = (0, 0, false);
        let mut before = Old { entries: known.map_or(&[], |known| &known.entries), gone: vec![] };
        let looked_ns = listing.taken_ns;
        for entry in &mut listing.entries {
            let old = before.up_to(&entry.path);
            entry.is_fresh &= matches!(entry.kind, EntryKind::File | EntryKind::Link);
            if entry.known == Known::Nothing && matches!(entry.kind, EntryKind::File | EntryKind::Link) {
                files += 1;
                bytes += entry.stamp.size;
                let is_within = files <= limits.files && bytes <= limits.bytes;
                let kept = old.filter(|old| old.is_unchanged(entry.kind, entry.stamp)).map(|old| old.known);
                entry.known = match kept {
                    Some(Known::Kept(hash)) => Known::Kept(hash),
                    _ if entry.kind == EntryKind::File && entry.stamp.size > self.store.limits.file_bytes => {
                        bytes -= entry.stamp.size;
                        Known::Not(NotKept::TooLarge)
                    }
                    _ if !is_within => Known::Not(NotKept::PastLimits),
                    // A file that cannot be read is tried again: that it can be read now changes no time.
                    _ => self.keep(&root, entry, looked_ns, &mut keeping)?,
                };
            }
            is_changed |= old != Some(&*entry);
            if let Some(Known::Kept(hash)) = old.map(|old| old.known)
                && entry.known != Known::Kept(hash)
            {
                before.gone.push(hash);
            }
        }
        before.rest();
        is_changed |= !before.gone.is_empty() || known.is_none_or(|known| known.entries.len() != listing.entries.len());
        keeping.finish()?;
        // From now on no listing names it, and it is as old as this.
        let contents = self.store.open()?;
        for hash in &before.gone {
            touch(&contents, hash);
        }
        Ok(is_changed)
    }

    /// Reads a file or a link, and keeps it.
    fn keep(&self, root: &OwnedFd, entry: &mut Entry, looked_ns: i64, keeping: &mut Keeping<'_>) -> io::Result<Known> {
        self.deadline.check().map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let (above, name) = openat::split(Path::new(OsStr::from_bytes(&entry.path)));
        let Ok(folder) = openat::open(root, above, openat::FOLDER) else { return Ok(Known::Not(NotKept::Unstable)) };
        if entry.kind == EntryKind::Link {
            let Ok(target) = readlinkat(&folder, name, Vec::new()) else { return Ok(Known::Not(NotKept::Unstable)) };
            let is_same =
                statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stamp(&stat) == entry.stamp);
            return if is_same {
                keeping.content(target.as_bytes()).map(Known::Kept)
            } else {
                Ok(Known::Not(NotKept::Unstable))
            };
        }
        let mut looked_ns = looked_ns;
        for _ in 0..READ_TRIES {
            // If it has become a pipe meanwhile, do not wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let Ok(file) = openat::open(&folder, openat::below(name), flags) else {
                return Ok(Known::Not(NotKept::Unreadable));
            };
            let stat = fstat(&file)?;
            if entry_kind(&stat) != EntryKind::File || stat.st_size as u64 > self.store.limits.file_bytes {
                return Ok(Known::Not(NotKept::Unstable));
            }
            if !self.workspace.may_read(&file) {
                return Ok(Known::Not(NotKept::Unreadable));
            }
            (entry.stamp, entry.mode) = (stamp(&stat), stat.st_mode & crate::guard::MODE_BITS);
            entry.is_fresh = is_fresh(entry.stamp.changed_ns, looked_ns);
            let file = File::from(file);
            let hash = match keeping.file(&file, entry.stamp.size) {
                Err(error) if is_of_source(&error) => return Ok(Known::Not(NotKept::Unreadable)),
                kept => kept?,
            };
            if stamp(&fstat(file.as_fd())?) == entry.stamp {
                return Ok(Known::Kept(hash));
            }
            looked_ns = now_ns();
        }
        Ok(Known::Not(NotKept::Unstable))
    }
}

/// The entries of the last listing, which are passed in the order of their paths.
struct Old<'a> {
    entries: &'a [Entry],
    /// The contents of entries that are gone or changed.
    gone: Vec<Hash>,
}

impl<'a> Old<'a> {
    /// Passes all before this path; returns the entry of it.
    fn up_to(&mut self, path: &[u8]) -> Option<&'a Entry> {
        while let Some((first, rest)) = self.entries.split_first() {
            match (*first.path).cmp(path) {
                std::cmp::Ordering::Less => self.pass(first),
                std::cmp::Ordering::Equal => {
                    self.entries = rest;
                    return Some(first);
                }
                std::cmp::Ordering::Greater => return None,
            }
            self.entries = rest;
        }
        None
    }

    fn rest(&mut self) {
        for entry in std::mem::take(&mut self.entries) {
            self.pass(entry);
        }
    }

    fn pass(&mut self, entry: &Entry) {
        if let Known::Kept(hash) = entry.known {
            self.gone.push(hash);
        }
    }
}
