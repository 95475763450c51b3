//! Makes a copy: beside its place, which it takes when all of it is on the disk.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use engine::{NotKept, Sandbox, SandboxRoot, WorkspaceCopy};
use rustix::fs::{
    AtFlags, Dir, FileType, OFlags, SeekFrom, Stat, Timespec, Timestamps, fstat, fstatvfs, futimens, readlinkat, seek,
    statat, syncfs,
};
use rustix::io::Errno;

use super::super::listing::{Entry, EntryKind, Known, Listing, is_fresh};
use super::super::scan::{Deadline, is_mount, is_placeholder, now_ns, scan, stamp};
use super::super::version::{named, version};
use super::{MADE, ORIGINAL, Place, git, remove_all};
use crate::cancel::{Cancel, in_process};
use crate::guard::{MODE_BITS, Protected};
use crate::limits::{
    COPIED_AT_ONCE_BYTES, COPIED_ENTRIES, FRESH_BYTES, LEFT_FREE_BYTES, LISTED_DEPTH, LISTED_ENTRIES, READ_TRIES,
};
use crate::openat;
use crate::paths::Workspace;

/// Makes the copy in which a run works, unless it is there. What is hidden from commands is not copied, nor are pipes, sockets,
/// devices and other mounts. Dropping the future ends it, and leaves nothing that counts.
///
/// # Errors
/// Returns why there is no copy, and what to do.
pub async fn make_copy(sandbox: Sandbox, copy: WorkspaceCopy, protected: Protected) -> Result<(), String> {
    let made = in_process("copy", move |cancel| Ok(make(&sandbox, &copy, &protected, cancel)));
    made.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// The same. May block for as long as copying takes.
pub(super) fn make(
    sandbox: &Sandbox,
    copy: &WorkspaceCopy,
    protected: &Protected,
    cancel: &Cancel,
) -> Result<(), String> {
    let failed = |why: String| format!("the copy of {} could not be made: {why}", copy.of);
    let place = Place::of(copy).map_err(|error| failed(error.to_string()))?;
    let _lock = place.lock(cancel).map_err(|error| failed(error.to_string()))?;
    if place.is_whole() {
        return Ok(());
    }
    if place.folder.symlink_metadata().is_ok() {
        let path = place.folder.display();
        return Err(format!(
            "the copy {path} is damaged: take what you need out of it; `limulus diff --discard` removes it"
        ));
    }
    let protected = protected.clone().and(&crate::sandbox::hidden(sandbox));
    let workspace = Workspace::open(Path::new(&copy.of), &protected).map_err(|error| failed(error.to_string()))?;
    if place.folder.starts_with(&workspace.root) {
        let hint = "choose another workspace, or set XDG_STATE_HOME to a folder outside of it";
        return Err(failed(format!("its place {} is in it; {hint}", place.folder.display())));
    }
    let made = Making { copy, place: &place, workspace: &workspace, cancel, copied: 0, folders: vec![] }.make();
    made.map_err(|why| {
        // What is left is removed when the next copy is made here.
        let _ = remove_all(&place.beside(".making"));
        failed(why)
    })
}

struct Making<'a> {
    copy: &'a WorkspaceCopy,
    place: &'a Place,
    workspace: &'a Workspace,
    cancel: &'a Cancel,
    copied: usize,
    /// The folders that were made, with the permissions that they are to have.
    folders: Vec<(PathBuf, u32)>,
}

impl Making<'_> {
    fn make(mut self) -> Result<(), String> {
        let making = self.place.beside(".making");
        remove_all(&making).map_err(|error| at(&making, &error))?;
        let to = self.place.copy_in(&making);
        DirBuilder::new().recursive(true).mode(0o700).create(&to).map_err(|error| error.to_string())?;
        if self.copy.root == SandboxRoot::Worktree {
            git::add(Path::new(&self.copy.of), &to, self.cancel)?;
        }
        let deadline = Deadline::new(self.cancel);
        let mut listing = scan(self.workspace, &deadline).map_err(not_listed)?;
        self.entries(&mut listing, &to)?;
        for (folder, mode) in self.folders.iter().rev() {
            fs::set_permissions(folder, Permissions::from_mode(*mode)).map_err(|error| at(folder, &error))?;
        }
        // Nobody but a command changes it, in a folder that is its own.
        let copied = Workspace::open(&to, &Protected::default()).map_err(|error| error.to_string())?;
        let made = scan(&copied, &Deadline::new(self.cancel)).map_err(not_listed)?;
        know_fresh(&mut listing, &copied, self.cancel);
        for (name, listing) in [(ORIGINAL, &listing), (MADE, &made)] {
            let path = making.join(name);
            let written = File::create_new(&path).and_then(|mut file| file.write_all(&listing.to_bytes()));
            written.map_err(|error| at(&path, &error))?;
        }
        // Else a loss of power could leave empty files, which would count as changes.
        let folder = File::open(&making).and_then(|folder| Ok(syncfs(&folder)?));
        folder.map_err(|error| at(&making, &error))?;
        fs::rename(&making, &self.place.folder).map_err(|error| at(&self.place.folder, &error))?;
        if self.copy.root == SandboxRoot::Worktree {
            git::moved(Path::new(&self.copy.of), Path::new(&self.copy.folder), self.cancel);
        }
        Ok(())
    }

    /// Copies what the listing names; with a copy of all, also what is in the folders that it does not enter.
    fn entries(&mut self, listing: &mut Listing, to: &Path) -> Result<(), String> {
        let root = self.workspace.open_root().map_err(|error| error.to_string())?;
        for entry in &mut listing.entries {
            let path = entry.path.clone();
            let relative = Path::new(OsStr::from_bytes(&path));
            let is_left_out = match entry.known {
                Known::Not(NotKept::Ignored) => self.copy.root == SandboxRoot::Worktree,
                Known::Not(NotKept::Special | NotKept::Unreadable) => true,
                _ => false,
            };
            if is_left_out {
                continue;
            }
            let below = to.join(relative);
            match entry.kind {
                EntryKind::Folder if entry.known == Known::Nothing => self.folder(&below, entry.mode)?,
                EntryKind::Folder => self.tree(&root, relative, to, 0)?,
                EntryKind::File => self.listed_file(&root, relative, entry, &below)?,
                EntryKind::Link => self.link(&root, relative, &below)?,
                EntryKind::Special => {}
            }
        }
        Ok(())
    }

    /// A folder that the listing does not enter, such as `.git` and `node_modules`.
    fn tree(&mut self, root: &OwnedFd, relative: &Path, to: &Path, depth: usize) -> Result<(), String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        // What is gone by now, or may not be read, is left out.
        let Ok(folder) = openat::open(root, relative, flags) else { return Ok(()) };
        if !self.workspace.may_enter(&folder) || depth > LISTED_DEPTH {
            return Ok(());
        }
        let found = fstat(&folder).map_err(|error| at(relative, &error.into()))?;
        self.folder(&to.join(relative), found.st_mode & MODE_BITS)?;
        let entries = Dir::read_from(&folder).map_err(|error| at(relative, &error.into()))?;
        for entry in entries {
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = relative.join(name);
            let Ok(found) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if is_placeholder(&found) {
                continue;
            }
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if is_mount(&folder, name.as_bytes()) => {}
                FileType::Directory => self.tree(root, &path, to, depth + 1)?,
                FileType::RegularFile => drop(self.file(root, &path, &to.join(&path))?),
                FileType::Symlink => self.link(root, &path, &to.join(&path))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A file of the listing, which then says what was copied.
    fn listed_file(&mut self, root: &OwnedFd, path: &Path, entry: &mut Entry, to: &Path) -> Result<(), String> {
        match self.file(root, path, to)? {
            Some(found) => {
                entry.stamp = stamp(&found);
                entry.mode = found.st_mode & MODE_BITS;
                entry.is_fresh = is_fresh(entry.stamp.changed_ns, now_ns());
            }
            None => entry.known = Known::Not(NotKept::Unreadable),
        }
        Ok(())
    }

    /// Copies a file, once more if it changed meanwhile. None if it may not be read, or is gone.
    fn file(&mut self, root: &OwnedFd, path: &Path, to: &Path) -> Result<Option<Stat>, String> {
        self.count()?;
        for _ in 0..READ_TRIES {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
            let Ok(from) = openat::open(root, path, flags) else { return Ok(None) };
            let Ok(found) = fstat(&from) else { return Ok(None) };
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || !self.workspace.may_read(&from) {
                return Ok(None);
            }
            let from = File::from(from);
            copy_content(&from, to, &found, self.cancel).map_err(|error| at(to, &error))?;
            if fstat(&from).is_ok_and(|now| stamp(&now) == stamp(&found)) {
                return Ok(Some(found));
            }
        }
        Err(format!("{} changes all the time; try again when it does not", path.display()))
    }

    fn link(&mut self, root: &OwnedFd, path: &Path, to: &Path) -> Result<(), String> {
        self.count()?;
        let (above, name) = openat::split(path);
        let target =
            openat::open(root, above, openat::FOLDER).and_then(|folder| Ok(readlinkat(&folder, name, vec![])?));
        // It may have become something else, or be gone.
        let Ok(target) = target else { return Ok(()) };
        symlink(OsStr::from_bytes(target.to_bytes()), to).map_err(|error| at(to, &error))
    }

    fn folder(&mut self, to: &Path, mode: u32) -> Result<(), String> {
        self.count()?;
        DirBuilder::new().mode(0o700).create(to).map_err(|error| at(to, &error))?;
        self.folders.push((to.to_owned(), mode));
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.cancel.check().map_err(|error| error.to_string())?;
        self.copied += 1;
        if self.copied > COPIED_ENTRIES {
            return Err(format!(
                "it has over {COPIED_ENTRIES} files and folders; sandbox.root = \"worktree\" leaves out what git ignores"
            ));
        }
        Ok(())
    }
}

fn copy_content(from: &File, to: &Path, found: &Stat, cancel: &Cancel) -> io::Result<()> {
    let mode = found.st_mode & MODE_BITS;
    let mut copied = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    copy_data(from, &mut copied, found.st_size as u64, cancel)?;
    copied.set_permissions(Permissions::from_mode(mode))?;
    // A build tool would else take everything as changed.
    let time = |tv_sec: i64, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(found.st_atime, found.st_atime_nsec as _),
        last_modification: time(found.st_mtime, found.st_mtime_nsec as _),
    };
    Ok(futimens(copied.as_fd(), &times)?)
}

/// Copies what has blocks, as long as the disk has space: a hole stays one, since a file of a terabyte may have no block at all.
fn copy_data(mut from: &File, to: &mut File, bytes: u64, cancel: &Cancel) -> io::Result<()> {
    let (mut at, mut hole) = (0, 0);
    while at < bytes {
        if at == hole {
            at = match seek(from, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                // A file system that knows no holes.
                Err(Errno::INVAL) => at,
                Err(error) => return Err(error.into()),
            };
            hole = seek(from, SeekFrom::Hole(at)).unwrap_or(bytes).min(bytes);
            if hole <= at {
                break;
            }
            io::Seek::seek(&mut from, io::SeekFrom::Start(at))?;
            io::Seek::seek(to, io::SeekFrom::Start(at))?;
        }
        if cancel.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let disk = fstatvfs(&*to)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < LEFT_FREE_BYTES {
            let why = format!("the disk has less than {} MiB left", LEFT_FREE_BYTES >> 20);
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        let copied = io::copy(&mut from.take(COPIED_AT_ONCE_BYTES.min(hole - at)), to)?;
        if copied == 0 {
            break;
        }
        at += copied;
    }
    // It may end with a hole. One that became shorter meanwhile is copied once more.
    to.set_len(bytes)
}

/// Says of the files that changed a moment ago what their contents are: another change could have the same stamp.
fn know_fresh(listing: &mut Listing, copied: &Workspace, cancel: &Cancel) {
    let is_unsure = |entry: &&mut Entry| entry.is_fresh && entry.known == Known::Nothing;
    // A larger one that changes in both counts as changed in the workspace: that is asked about, and loses nothing.
    let fresh = listing.entries.iter_mut().filter(is_unsure).filter(|entry| entry.stamp.size <= FRESH_BYTES);
    for entry in fresh.filter(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Link)) {
        let path = std::str::from_utf8(&entry.path).ok().map(|path| named(copied, path));
        let found = path.and_then(|path| version(&path.ok()?, cancel).ok()?);
        if let Some(hash) = found.and_then(|found| found.content.hash) {
            entry.known = Known::Kept(hash);
        }
    }
}

pub(super) fn not_listed(why: NotKept) -> String {
    match why {
        NotKept::TooManyFiles => format!("it has over {LISTED_ENTRIES} files and folders that git does not ignore"),
        NotKept::TooSlow => "looking at it takes too long".to_owned(),
        _ => "it could not be read".to_owned(),
    }
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
