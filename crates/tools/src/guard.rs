//! What belongs to limulus itself: its home, its configuration and the files of keys. No tool reads or writes it, and no
//! policy allows it. What is compared is the device and the inode of what was opened, so that no link, no mount and no
//! other spelling of a name leads around it. `exec` is not part of this: an approved command does what its user can do.
//!
//! Each call costs as few system calls as that needs:
//! - Once a call, one look at each protected path: it still is what it was, or it is looked for anew. Of a path that is a
//!   link, or at which nothing is, the folder is looked at as well.
//! - Each folder that is opened is followed upwards by its `..` until one is reached that is known to be clear: it was passed
//!   before in this call, or a protected folder is in it. The workspace is such a folder, so below it one look for each name
//!   suffices, and none for what is in the workspace itself.
//! - Each entry is looked at once before it is opened, and what was opened once more. Both looks also say what it is and how
//!   long, so no tool asks again.
//!
//! What the sandbox of commands hides (keys of the user) is kept from tools for files too, by its device and inode. It is usually not
//! below the workspace, so it is only looked for once a call, and compared.
//!
//! What must not be left out: the look before, since opening a pipe or a device has effects; and the look after, since the
//! name may lead elsewhere by then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, major, minor, openat, statat, statx,
};
use rustix::io::Errno;

use crate::limits::GUARDED_ENTRIES;
use crate::paths::follow_links;

/// Folders and files that no tool may read or write, with all that is in the folders. They need not exist. Clones share
/// what the last call found there.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    folders: Vec<Arc<ProtectedPath>>,
    files: Vec<Arc<ProtectedPath>>,
    /// What the sandbox of commands hides: files or folders, which may be around the workspace.
    hidden: Vec<Arc<ProtectedPath>>,
}

impl Protected {
    /// Protects these files. The paths are absolute.
    pub fn files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { files: files.into_iter().map(ProtectedPath::new).collect(), ..Self::default() }
    }

    /// Protects this folder. The path is absolute.
    pub fn folder(folder: PathBuf) -> Self {
        Self { folders: vec![ProtectedPath::new(folder)], ..Self::default() }
    }

    /// Protects these files and folders as the sandbox of commands hides them. The paths are absolute.
    pub(crate) fn hidden(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { hidden: paths.into_iter().map(ProtectedPath::new).collect(), ..Self::default() }
    }

    /// All paths that belong to limulus, as they were configured.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().chain(&self.files).map(|protected| protected.path.as_path())
    }

    /// Also protects what the other one protects.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.folders.extend_from_slice(&other.folders);
        self.files.extend_from_slice(&other.files);
        self.hidden.extend_from_slice(&other.hidden);
        self
    }
}

/// A path as it is configured, with what was there when a call last looked: most calls find the same.
#[derive(Debug)]
struct ProtectedPath {
    path: PathBuf,
    last: Mutex<Option<Arc<Place>>>,
}

impl ProtectedPath {
    fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, last: Mutex::default() })
    }

    /// What is there now.
    fn place(&self) -> Arc<Place> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(place) if place.is_at(&self.path) => Arc::clone(place),
            _ => Arc::clone(last.insert(Arc::new(Place::of(&self.path)))),
        }
    }

    /// The same with one look if nothing is there, as is usual for what is hidden, and with the folders of what was looked for
    /// before: a hundred paths are in a few folders.
    fn place_of_hidden(&self, known: &mut KnownFolders) -> Arc<Place> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_absent = || matches!(Seen::at(CWD, self.path.as_os_str()), Err(Errno::NOENT));
        match last {
            Some(place) if place.identity.is_none() && is_absent() => place,
            Some(_) => self.place(),
            None => {
                let place = Arc::new(known.place_in(&self.path).unwrap_or_else(|| Place::of(&self.path)));
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&place));
                place
            }
        }
    }
}

/// Folders of protected paths with those above each, the nearest first, by the path that was given.
#[derive(Default)]
struct KnownFolders(BTreeMap<PathBuf, FoldersAbove>);

/// The folders that something is in, without links, the nearest first.
type FoldersAbove = Arc<[(PathBuf, Option<Identity>)]>;

impl KnownFolders {
    /// What is at this path; none if it is a link, whose folder is another one.
    fn place_in(&mut self, path: &Path) -> Option<Place> {
        let (folder, name) = path.parent().zip(path.file_name())?;
        if !self.0.contains_key(folder) {
            let real = follow_links(Path::new("/"), folder)?;
            self.0.insert(folder.to_owned(), folders(&real));
        }
        let above = Arc::clone(self.0.get(folder)?);
        let real = above.first()?.0.join(name);
        let seen = Seen::at(CWD, real.as_os_str()).ok();
        let is_link = seen.is_some_and(|seen| seen.kind == FileType::Symlink);
        (!is_link).then(|| Place { real, identity: seen.map(|seen| seen.identity), above })
    }
}

/// A folder without links in its path, and those above it.
fn folders(folder: &Path) -> FoldersAbove {
    folder.ancestors().map(|path| (path.to_owned(), identity(path))).collect()
}

/// The permission bits of a mode.
pub(crate) const MODE_BITS: u32 = 0o7777;
/// The longest way upwards that is named at once; a path of the kernel has at most 4,096 bytes.
const LONGEST_STEP_BYTES: usize = 3_000;

/// Judges what the tools of one call open.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    folders: Vec<Arc<Place>>,
    files: Vec<Arc<Place>>,
    hidden: Hidden,
    /// Folders that are neither protected nor below a protected one.
    clear: Mutex<BTreeSet<Identity>>,
    /// Everything below the protected folders; read only for what may have a second name.
    contents: OnceLock<BTreeSet<Identity>>,
}

/// What the sandbox of commands hides.
#[derive(Debug, Default)]
struct Hidden {
    identities: BTreeSet<Identity>,
    paths: Vec<PathBuf>,
}

impl Hidden {
    /// Without what is around the workspace: there commands see it too.
    fn of(paths: &[Arc<ProtectedPath>], workspace: Option<&Path>) -> Self {
        let (mut hidden, mut known) = (Self::default(), KnownFolders::default());
        for place in paths.iter().map(|path| path.place_of_hidden(&mut known)) {
            if workspace.is_none_or(|workspace| !workspace.starts_with(&place.real)) {
                hidden.identities.extend(place.identity);
                hidden.paths.push(place.real.clone());
            }
        }
        hidden
    }

    fn has(&self, path: &Path) -> bool {
        self.paths.iter().any(|hidden| is_in(path, hidden))
    }
}

/// A protected path as it was when the call began.
#[derive(Debug)]
struct Place {
    /// The path with all links resolved.
    real: PathBuf,
    /// What is there.
    identity: Option<Identity>,
    /// The folders that it is in, the nearest first: a file that is replaced in the nearest is protected as well.
    above: FoldersAbove,
}

/// What tells two files apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    device: (u32, u32),
    inode: u64,
}

/// A file or folder that was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    identity: Identity,
    pub(crate) kind: FileType,
    /// Its permission bits.
    pub(crate) mode: u32,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// Whether it can be there under a second name: by a hard link or a mount.
    may_be_alias: bool,
}

/// The error for what is protected.
#[derive(Debug, thiserror::Error)]
#[error("it belongs to limulus itself (its home, its configuration or a key), and no tool may read or write it")]
struct OwnFile;

/// The error for what the sandbox hides.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox hides it (a key of the user, or what `sandbox.hidden` names), and no tool may read or write it")]
struct HiddenFile;

/// Whether an error says that something is protected.
pub(crate) fn is_own(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<OwnFile>()) || is_hidden(error)
}

/// Whether an error says that the sandbox hides something.
pub(crate) fn is_hidden(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<HiddenFile>())
}

fn refused() -> io::Error {
    io::Error::other(OwnFile)
}

impl Guard {
    /// For the tools of a call in this workspace, which has no links in its path.
    pub(crate) fn of(protected: &Protected, workspace: Option<&Path>) -> Self {
        let folders: Vec<_> = protected.folders.iter().map(|path| path.place()).collect();
        let files = protected.files.iter().map(|path| path.place()).collect();
        let hidden = Hidden::of(&protected.hidden, workspace);
        Self { folders, files, hidden, clear: Mutex::default(), contents: OnceLock::new() }
    }

    /// Whether a protected folder is in this one, and so not the other way round. Most walks upwards end there.
    fn is_above(&self, identity: Identity) -> bool {
        let above = self.folders.iter().flat_map(|folder| &*folder.above);
        above.filter(|(_, known)| *known == Some(identity)).any(|(path, _)| {
            !self.hidden.has(path) && !self.folders.iter().any(|folder| path.starts_with(&folder.real))
        })
    }

    fn is_off(&self) -> bool {
        self.folders.is_empty() && self.files.is_empty() && self.hidden.paths.is_empty()
    }

    /// An error if this open folder is protected, or below a protected one.
    pub(crate) fn folder(&self, folder: impl AsFd) -> io::Result<()> {
        if self.is_off() {
            return Ok(());
        }
        let (mut base, mut above) = (None, String::new());
        let mut passed = Vec::new();
        loop {
            let from = base.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
            let seen = Seen::at(from, OsStr::new(&above))?;
            // A folder that was passed before is the root: it is above itself.
            let is_clear = self.is_above(seen.identity) || self.clear().contains(&seen.identity);
            if is_clear || passed.contains(&seen.identity) {
                self.clear().extend(passed);
                return Ok(());
            }
            self.judge(&seen)?;
            passed.push(seen.identity);
            above += if above.is_empty() { ".." } else { "/.." };
            if above.len() > LONGEST_STEP_BYTES {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                base = Some(openat(from, std::mem::take(&mut above), flags, Mode::empty())?);
                "..".clone_into(&mut above);
            }
        }
    }

    /// An error if this name in this open folder is protected, whether it exists or not. Returns what is there.
    pub(crate) fn entry(&self, folder: impl AsFd, name: &OsStr) -> io::Result<Option<Seen>> {
        self.folder(folder.as_fd())?;
        self.entry_of_judged(folder, name)
    }

    /// The same for a folder that was judged.
    pub(crate) fn entry_of_judged(&self, folder: impl AsFd, name: &OsStr) -> io::Result<Option<Seen>> {
        let folder = folder.as_fd();
        let mut named = self.files.iter().filter(|file| file.real.file_name().is_some_and(same(name))).peekable();
        if named.peek().is_some() {
            let above = Some(Seen::at(folder, OsStr::new(""))?.identity);
            if named.any(|file| file.parent() == above) {
                return Err(refused());
            }
        }
        match Seen::at(folder, name) {
            Ok(seen) => self.judge(&seen).map(|()| Some(seen)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// An error if this open file is protected. Its folder was judged before it was opened. Returns what it is.
    pub(crate) fn opened(&self, file: impl AsFd) -> io::Result<Seen> {
        let seen = Seen::at(file.as_fd(), OsStr::new(""))?;
        self.judge(&seen).map(|()| seen)
    }

    /// An error if this path, which contains no links, is protected by its name.
    pub(crate) fn path(&self, real: &Path) -> io::Result<()> {
        let is_own = self.folders.iter().any(|folder| is_in(real, &folder.real))
            || self.files.iter().any(|file| same(real.as_os_str())(file.real.as_os_str()));
        if is_own {
            return Err(refused());
        }
        if self.hidden.has(real) { Err(io::Error::other(HiddenFile)) } else { Ok(()) }
    }

    /// Whether a folder is one of the protected ones. For walks, which do not enter it.
    pub(crate) fn is_protected_folder(&self, folder: &Path) -> bool {
        let here = |seen: Seen| self.folders.iter().any(|protected| protected.identity == Some(seen.identity));
        let hidden = |seen: &Seen| self.hidden.identities.contains(&seen.identity);
        !self.is_off() && Seen::at(CWD, folder.as_os_str()).is_ok_and(|seen| hidden(&seen) || here(seen))
    }

    fn judge(&self, seen: &Seen) -> io::Result<()> {
        let known = if seen.kind.is_dir() { &self.folders } else { &self.files };
        let is_known = known.iter().any(|protected| protected.identity == Some(seen.identity));
        if is_known || (seen.may_be_alias && self.contents().contains(&seen.identity)) {
            return Err(refused());
        }
        if self.hidden.identities.contains(&seen.identity) {
            return Err(io::Error::other(HiddenFile));
        }
        Ok(())
    }

    fn clear(&self) -> std::sync::MutexGuard<'_, BTreeSet<Identity>> {
        self.clear.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> &BTreeSet<Identity> {
        self.contents.get_or_init(|| {
            let mut found = BTreeSet::new();
            let mut folders: Vec<PathBuf> = self.folders.iter().map(|folder| folder.real.clone()).collect();
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    let Ok(seen) = Seen::at(CWD, entry.path().as_os_str()) else { continue };
                    if seen.kind.is_dir() {
                        folders.push(entry.path());
                    }
                    found.insert(seen.identity);
                    if found.len() >= GUARDED_ENTRIES {
                        return found;
                    }
                }
            }
            found
        })
    }
}

impl Place {
    fn of(path: &Path) -> Self {
        let real = follow_links(Path::new("/"), path).unwrap_or_else(|| path.to_owned());
        let above = real.parent().map_or_else(|| [].into(), folders);
        Self { identity: identity(&real), above, real }
    }

    /// Whether this path still leads here, and this is still where it was.
    fn is_at(&self, path: &Path) -> bool {
        let is = |path: &Path, known: Option<Identity>| {
            known.is_some() && Seen::followed(path).ok().map(|seen| seen.identity) == known
        };
        let parent = self.above.first();
        match self.identity {
            // No link at its end, and the same file or folder as before: it needs no look at its folder.
            Some(known) if path == self.real => identity(path) == Some(known),
            Some(known) => is(path, Some(known)) && parent.is_none_or(|(folder, known)| is(folder, *known)),
            None => {
                let is_absent = matches!(Seen::at(CWD, path.as_os_str()), Err(Errno::NOENT));
                is_absent && parent.zip(path.parent()).is_some_and(|((_, known), folder)| is(folder, *known))
            }
        }
    }

    /// The folder that it is in.
    fn parent(&self) -> Option<Identity> {
        self.above.first().and_then(|(_, identity)| *identity)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    Seen::at(CWD, path.as_os_str()).ok().map(|seen| seen.identity)
}

impl Seen {
    /// Looks at a name in a folder; the empty name is the open file itself. A link is not followed.
    fn at(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Self> {
        Self::with(folder, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)
    }

    /// Looks at what a path leads to.
    fn followed(path: &Path) -> rustix::io::Result<Self> {
        Self::with(CWD, path.as_os_str(), AtFlags::empty())
    }

    fn with(folder: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> rustix::io::Result<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::NLINK | StatxFlags::SIZE;
        match statx(folder, name, flags, wanted) {
            Ok(found) => {
                let kind = FileType::from_raw_mode(found.stx_mode.into());
                let mount = StatxAttributes::MOUNT_ROOT;
                let is_known = found.stx_attributes_mask.contains(mount);
                let may_be_mount = !is_known || found.stx_attributes.contains(mount);
                Ok(Self {
                    identity: Identity { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino },
                    kind,
                    mode: u32::from(found.stx_mode) & MODE_BITS,
                    bytes: found.stx_size,
                    may_be_alias: may_be_mount || (!kind.is_dir() && found.stx_nlink > 1),
                })
            }
            // Some filters of system calls refuse this one. Then anything may have a second name.
            Err(Errno::NOSYS) => statat(folder, name, flags).map(|stat| Self::of(&stat)),
            Err(errno) => Err(errno),
        }
    }

    fn of(stat: &Stat) -> Self {
        Self {
            identity: Identity { device: (major(stat.st_dev), minor(stat.st_dev)), inode: stat.st_ino },
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & MODE_BITS,
            bytes: stat.st_size as u64,
            may_be_alias: true,
        }
    }
}

/// Whether a path is this folder or below it. Both are absolute, without `.`, `..` and slashes that say nothing, so it compares bytes:
/// each path is judged by a hundred folders, and nearly all of them differ at once.
fn is_in(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || folder.ends_with(b"/"))
}

/// Whether two names are the same, also on a file system that ignores case.
fn same(name: &OsStr) -> impl Fn(&OsStr) -> bool {
    let folded = |name: &OsStr| name.to_string_lossy().to_lowercase();
    move |other| {
        let is_plain = name.is_ascii() && other.is_ascii();
        if is_plain { name.eq_ignore_ascii_case(other) } else { folded(name) == folded(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R61: each look refuses what is protected by itself, because another may have come too early.
    #[test]
    fn r61_each_look_refuses_by_itself() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["home/calls", "other"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["home/journal.db", "key", "other/plain"] {
            fs::write(root.join(file), "x").unwrap();
        }
        fs::hard_link(root.join("home/journal.db"), root.join("other/alias")).unwrap();
        let guard = Guard::of(&Protected::files([root.join("key")]).and(&Protected::folder(root.join("home"))), None);
        let open = |path: &str| fs::File::open(root.join(path)).unwrap();
        for (path, expected) in [("key", true), ("other/alias", true), ("other/plain", false)] {
            assert_eq!(guard.opened(open(path)).is_err_and(|error| is_own(&error)), expected, "{path}, opened");
        }
        for (path, expected) in [("home", true), ("home/calls", true), ("other", false), ("", false)] {
            assert_eq!(guard.folder(open(path)).is_err_and(|error| is_own(&error)), expected, "{path}, a folder");
        }
        for (path, expected) in [("home", true), ("home/not/there", true), ("KEY", true), ("other/plain", false)] {
            assert_eq!(guard.path(&root.join(path)).is_err_and(|error| is_own(&error)), expected, "{path}, a path");
        }
        for (path, expected) in [("home", true), ("other", false)] {
            assert_eq!(guard.is_protected_folder(&root.join(path)), expected, "{path}, in a walk");
        }
        for (folder, name, expected) in [
            ("", "key", true),
            ("", "home", true),
            ("home", "new", true),
            ("other", "alias", true),
            ("other", "new", false),
        ] {
            let refused = guard.entry(open(folder), OsStr::new(name)).is_err_and(|error| is_own(&error));
            assert_eq!(refused, expected, "{folder}/{name}, an entry");
        }
    }

    /// R67: what is hidden is found the same with what is known of its folder.
    #[test]
    fn r67_a_place_in_a_known_folder_is_the_same_place() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("me/.config/gh")).unwrap();
        fs::write(root.join("me/.netrc"), "x").unwrap();
        std::os::unix::fs::symlink("me", root.join("link")).unwrap();
        std::os::unix::fs::symlink("me/.netrc", root.join("file")).unwrap();
        let mut known = KnownFolders::default();
        let names = ["me/.netrc", "me/.config", "me/.config/gh", "me/gone", "gone/gone", "link/.netrc", "link", "file"];
        for name in names.map(|name| root.join(name)) {
            let place = known.place_in(&name);
            let expected = Place::of(&name);
            assert_eq!(place.is_none(), name.symlink_metadata().is_ok_and(|found| found.is_symlink()), "{name:?}");
            if let Some(place) = place {
                assert_eq!((&place.real, place.identity), (&expected.real, expected.identity), "{name:?}");
                assert_eq!(place.above, expected.above, "{name:?}");
            }
        }
        assert_eq!(known.0.len(), 5, "each folder is looked for once");
    }

    #[test]
    fn a_path_is_in_a_folder_by_whole_names() {
        let folders = ["/", "/a", "/a/b", "/a/bc", "/c"];
        for path in ["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/ab", "/c/a"] {
            for folder in folders {
                let (path, folder) = (Path::new(path), Path::new(folder));
                assert_eq!(is_in(path, folder), path.starts_with(folder), "{path:?} in {folder:?}");
            }
        }
    }

    /// R67: what the sandbox hides is not opened, under any name, and the rest is.
    #[test]
    fn r67_what_the_sandbox_hides_is_refused_by_what_it_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["me/.ssh/deep", "me/project", "me/.config"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["me/.ssh/id", "me/.netrc", "me/project/plain"] {
            fs::write(root.join(file), "x").unwrap();
        }
        fs::hard_link(root.join("me/.netrc"), root.join("me/project/alias")).unwrap();
        let hidden = [".ssh", ".netrc", ".config/gh", "project"].map(|name| root.join("me").join(name));
        let guard = Guard::of(&Protected::hidden(hidden), Some(&root.join("me/project/deeper")));
        let open = |path: &str| fs::File::open(root.join(path)).unwrap();
        let is_hidden = |result: io::Result<()>| result.is_err_and(|error| super::is_hidden(&error) && is_own(&error));
        for (path, expected) in [("me/.netrc", true), ("me/project/alias", true), ("me/project/plain", false)] {
            assert_eq!(is_hidden(guard.opened(open(path)).map(drop)), expected, "{path}, opened");
        }
        for (path, expected) in [("me/.ssh", true), ("me/.ssh/deep", true), ("me/project", false), ("me", false)] {
            assert_eq!(is_hidden(guard.folder(open(path))), expected, "{path}, a folder");
        }
        for (path, expected) in [("me/.config/gh/hosts", true), ("me/.ssh/new", true), ("me/.config/git", false)] {
            assert_eq!(is_hidden(guard.path(&root.join(path))), expected, "{path}, a path");
        }
        for (folder, name, expected) in [
            ("me", ".ssh", true),
            ("me/.ssh", "new", true),
            ("me/project", "alias", true),
            ("me/project", "new", false),
        ] {
            assert_eq!(is_hidden(guard.entry(open(folder), OsStr::new(name)).map(drop)), expected, "{folder}/{name}");
        }
        assert!(
            guard.is_protected_folder(&root.join("me/.ssh")) && !guard.is_protected_folder(&root.join("me/project"))
        );
    }
}
