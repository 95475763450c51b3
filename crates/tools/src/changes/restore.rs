//! Carries out the plan of an undo. Every step can be repeated: a file that is in its state already is left alone, so a
//! kill in the middle is completed by the next owner with the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use engine::{EffectId, FileKind, Hash, LeftFile};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, chmodat, fchmod, fstat, fsync, linkat,
    mkdirat, openat, renameat, statat, symlinkat, unlinkat, utimensat,
};

use super::copies::remove_copy;
use super::plan::{FileVersion, PlannedFile, UndoPlan};
use super::store::FileStore;
use super::version::{is_absent, named, target, version};
use crate::cancel::{Cancel, in_process};
use crate::error::ToolError;
use crate::guard::Protected;
use crate::paths::{ResolvedPath, Workspace};
use crate::{change, openat};

/// What is at a path, not what a link there leads to.
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
/// The path of what is left of a copy.
const COPY: &str = ".";
/// Why a file stays that is not what the plan says.
const CHANGED: &str = "it was changed since";
/// Why a file stays whose content is gone.
pub const NOT_KEPT: &str =
    "its content is not kept: it was too large (undo.file_mb), or too old (undo.keep_days, undo.max_mb)";

/// Brings files into the state that the plan names. Returns those that stay as they are, each with the reason. Dropping
/// the future stops after the current file.
pub async fn undo(store: &FileStore, protected: &Protected, id: EffectId, plan: UndoPlan) -> Vec<LeftFile> {
    let (store, protected) = (store.clone(), protected.clone());
    let all: Vec<String> = plan.files.iter().map(|file| file.path.clone()).collect();
    let done = in_process("undo", move |cancel| {
        let workspace = Workspace::open(Path::new(&plan.workspace), &protected)?;
        let stay = Restore { store, workspace, id, cancel }.carry_out(&plan.files)?;
        let removed = plan.copy.filter(|copy| copy.removes && stay.is_empty()).map(|copy| remove_copy(&copy.copy));
        let why = removed.and_then(Result::err);
        Ok(stay.into_iter().chain(why.map(|why| left(COPY.to_owned(), why))).collect())
    });
    done.await.unwrap_or_else(|error| all.into_iter().map(|path| left(path, error.to_string())).collect())
}

/// What is at these paths of a workspace, or why that cannot be read. May block.
pub fn versions(workspace: &Path, protected: &Protected, paths: &[String]) -> Vec<Result<Option<FileVersion>, String>> {
    let workspace = Workspace::open(workspace, protected).map_err(|error| error.to_string());
    let of = |path: &String| {
        let workspace = workspace.as_ref().map_err(Clone::clone)?;
        let now = named(workspace, path).and_then(|path| version(&path, &Cancel::default()));
        now.map_err(|error| error.to_string())
    };
    let mut found: Vec<_> = paths.iter().map(of).collect();
    let is_link = |version: &Result<Option<FileVersion>, String>| matches!(version, Ok(Some(it)) if it.content.kind == FileKind::Link);
    let links: BTreeSet<&Path> =
        paths.iter().zip(&found).filter(|(_, it)| is_link(it)).map(|(path, _)| path.as_ref()).collect();
    for (path, found) in paths.iter().zip(&mut found) {
        // Where the link leads is another place: below the path itself is nothing.
        if is_below(&links, path) {
            *found = Ok(None);
        }
    }
    found
}

/// Whether a path is below one of these.
fn is_below(above: &BTreeSet<&Path>, path: &str) -> bool {
    Path::new(path).ancestors().skip(1).any(|folder| above.contains(folder))
}

/// For each of these paths another one of them that is a name of the same file. May block.
pub fn shared_names(workspace: &Path, protected: &Protected, paths: &[String]) -> Vec<Option<String>> {
    let Ok(workspace) = Workspace::open(workspace, protected) else { return vec![None; paths.len()] };
    let inode = |path: &String| {
        let (folder, name) =
            named(&workspace, path).ok()?.folder().map(|(folder, name)| (folder, name.to_owned())).ok()?;
        let stat = statat(&folder, &name, NOFOLLOW).ok()?;
        let is_shared = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink > 1;
        is_shared.then_some((stat.st_dev, stat.st_ino))
    };
    let inodes: Vec<_> = paths.iter().map(inode).collect();
    let mut names: BTreeMap<_, Vec<&String>> = BTreeMap::new();
    for (path, inode) in paths.iter().zip(&inodes) {
        names.entry(*inode).or_default().push(path);
    }
    let other = |(path, inode): (&String, &Option<(u64, u64)>)| {
        let names = inode.and_then(|inode| names.get(&Some(inode)));
        names.into_iter().flatten().find(|name| **name != path).map(|name| (*name).clone())
    };
    paths.iter().zip(&inodes).map(other).collect()
}

/// The content at a path of a workspace, if it still has this hash and at most this many bytes. May block.
pub fn content_now(
    workspace: &Path,
    protected: &Protected,
    path: &str,
    hash: &Hash,
    most_bytes: usize,
) -> Option<Vec<u8>> {
    let workspace = Workspace::open(workspace, protected).ok()?;
    let path = named(&workspace, path).ok()?;
    let content = if path.look().ok()?.kind == FileType::Symlink {
        target(&path).ok()?.into_os_string().into_encoded_bytes()
    } else {
        let (file, bytes) = path.open_file("read").ok()?;
        let mut content = vec![];
        (bytes <= most_bytes as u64).then(|| file.take(most_bytes as u64).read_to_end(&mut content))?.ok()?;
        content
    };
    (Hash::of(&content) == *hash).then_some(content)
}

struct Restore<'a> {
    store: FileStore,
    workspace: Workspace,
    id: EffectId,
    cancel: &'a Cancel,
}

/// A file that is to be changed, with its place in the plan.
struct Pending<'a> {
    number: usize,
    planned: &'a PlannedFile,
}

/// The bits without which nobody but root can change what is in a folder.
const OWNERS: u32 = 0o700;

impl Restore<'_> {
    fn carry_out(&self, files: &[PlannedFile]) -> Result<Vec<LeftFile>, ToolError> {
        let _commit = change::commit();
        let (mut pending, mut stay) = (vec![], vec![]);
        let is_link = |file: &&PlannedFile| file.now.is_some_and(|now| now.content.kind == FileKind::Link);
        let links = files.iter().filter(is_link).map(|file| Path::new(&file.path)).collect();
        for (number, planned) in files.iter().enumerate() {
            self.cancel.check()?;
            match self.begin(planned, &links) {
                Ok(true) => pending.push(Pending { number, planned }),
                Ok(false) => {}
                Err(why) => stay.push(left(planned.path.clone(), why)),
            }
        }
        // What is inside goes before its folder, and comes after it.
        pending.sort_by(|a, b| Path::new(&a.planned.path).cmp(Path::new(&b.planned.path)));
        let folders: Vec<&PlannedFile> =
            pending.iter().map(|file| file.planned).filter(|file| is_folder(file.to)).collect();
        // Folders that stay, but in which their owner may change nothing.
        for file in pending.iter().filter(|file| is_folder(file.planned.now)) {
            self.open_up(&file.planned.path);
        }
        let (mut gone, mut made): (Vec<_>, Vec<_>) = pending.into_iter().partition(|file| file.planned.to.is_none());
        gone.reverse();
        made.splice(0..0, gone);
        for file in made {
            self.cancel.check()?;
            if let Err(error) = self.place(&file) {
                stay.push(left(file.planned.path.clone(), error.to_string()));
            }
        }
        for folder in folders.into_iter().rev() {
            if let Err(error) = self.close_down(folder)
                && !stay.iter().any(|left| left.path == folder.path)
            {
                stay.push(left(folder.path.clone(), error.to_string()));
            }
        }
        Ok(stay)
    }

    /// Makes sure that the content that is there is kept, and that the one that is to be there can be had. Returns whether
    /// anything is to be done. `links` are paths of the plan at which a link is.
    fn begin(&self, planned: &PlannedFile, links: &BTreeSet<&Path>) -> Result<bool, String> {
        let is_below_link = is_below(links, &planned.path);
        let found = match named(&self.workspace, &planned.path) {
            Err(_) if is_below_link => None,
            found => Some(found.map_err(|error| error.to_string())?),
        };
        let now = found
            .as_ref()
            .map(|path| version(path, self.cancel))
            .transpose()
            .map_err(|error| error.to_string())?
            .flatten();
        if now == planned.to {
            return Ok(false);
        }
        if !is_expected(now, planned) {
            return Err(CHANGED.to_owned());
        }
        let needs =
            |wanted: FileVersion| wanted.content.hash.filter(|_| Some(wanted.content) != now.map(|now| now.content));
        if planned.to.and_then(needs).is_some_and(|hash| !self.store.has(&hash)) {
            return Err(NOT_KEPT.to_owned());
        }
        if let Some((FileVersion { content, .. }, path)) = now.zip(found)
            && let Some(hash) = content.hash
        {
            keep_content(&self.store, &path, content.kind, &hash).map_err(|error| error.to_string())?;
        }
        Ok(true)
    }

    /// Lets the owner of a folder change what is in it. What fails is reported where that is done.
    fn open_up(&self, path: &str) {
        let open = || -> io::Result<()> {
            let path = named(&self.workspace, path).map_err(io::Error::other)?;
            let (mode, (folder, name)) = (path.look()?.mode, path.folder()?);
            if mode & OWNERS == OWNERS { Ok(()) } else { set_mode(&folder, name, Some(mode | OWNERS)) }
        };
        let _ = open();
    }

    /// Gives a folder the permissions that it is to have.
    fn close_down(&self, planned: &PlannedFile) -> io::Result<()> {
        let path = named(&self.workspace, &planned.path).map_err(io::Error::other)?;
        let now = version(&path, self.cancel).map_err(io::Error::other)?;
        if now == planned.to || now.map(|now| now.content) != planned.to.map(|to| to.content) {
            return Ok(());
        }
        let (folder, name) = path.folder()?;
        set_mode(&folder, name, planned.to.and_then(|to| to.mode))
    }

    fn place(&self, file: &Pending<'_>) -> io::Result<()> {
        let planned = file.planned;
        let path = &named(&self.workspace, &planned.path).map_err(io::Error::other)?;
        let (folder, name) = match planned.to {
            Some(_) => path.make_folder()?,
            None => path.folder()?,
        };
        // The last look before the change.
        let now = version(path, self.cancel).map_err(io::Error::other)?;
        if !is_expected(now, planned) {
            return if now == planned.to { Ok(()) } else { Err(io::Error::other(CHANGED)) };
        }
        match (now, planned.to) {
            // The permissions of folders come last.
            (Some(now), Some(to)) if now.content == to.content && is_folder(Some(to)) => {}
            (Some(now), Some(to)) if now.content == to.content => {
                if !self.link((&folder, name), planned, file.number)? {
                    set_mode(&folder, name, to.mode)?;
                }
            }
            (now, to) => {
                if is_folder(now) || now.is_some() && (to.is_none() || is_folder(to)) {
                    remove(&folder, name, is_folder(now))?;
                }
                if let Some(to) = to
                    && !self.link((&folder, name), planned, file.number)?
                {
                    self.make(&folder, name, to, file.number)?;
                }
            }
        }
        let folder = openat::open(&folder, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(fsync(folder)?)
    }

    /// Makes this a name of the file that another name is to share with it, if that has its version already. Where files
    /// cannot be linked, they are restored as two.
    fn link(&self, (folder, name): (&OwnedFd, &OsStr), planned: &PlannedFile, number: usize) -> io::Result<bool> {
        let others = planned.linked_to.iter().filter_map(|other| named(&self.workspace, other).ok());
        let is_there = |other: &ResolvedPath| version(other, self.cancel).is_ok_and(|now| now == planned.to);
        let is_file = planned.to.is_some_and(|to| to.content.kind == FileKind::File);
        let Some(other) = others.filter(|_| is_file).find(is_there) else { return Ok(false) };
        let beside = self.beside(number);
        let _ = unlinkat(folder, &beside, AtFlags::empty());
        let (of_other, its_name) = other.folder()?;
        if linkat(&of_other, its_name, folder, &beside, AtFlags::empty()).is_err() {
            return Ok(false);
        }
        // It may have become a link that leads out meanwhile.
        let is_file = statat(folder, &beside, NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if !is_file {
            unlinkat(folder, &beside, AtFlags::empty())?;
            return Ok(false);
        }
        // Its content is another one than a moment ago, which what is made from it must notice.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = utimensat(folder, &beside, &Timestamps { last_access: now, last_modification: now }, NOFOLLOW);
        renameat(folder, &beside, folder, name)?;
        // Nothing is renamed if both are names of one file already.
        let _ = unlinkat(folder, &beside, AtFlags::empty());
        Ok(true)
    }

    /// The name of a file while it is made.
    fn beside(&self, number: usize) -> String {
        format!(".limulus-{}.{number}.tmp", self.id.to_string().replace('/', "."))
    }

    fn make(&self, folder: &OwnedFd, name: &OsStr, to: FileVersion, number: usize) -> io::Result<()> {
        let content = || {
            let content = to.content.hash.and_then(|hash| self.store.content(&hash));
            content.ok_or_else(|| io::Error::other(NOT_KEPT))
        };
        let beside = self.beside(number);
        let _ = unlinkat(folder, &beside, AtFlags::empty());
        match to.content.kind {
            FileKind::Folder => {
                mkdirat(folder, name, Mode::from_raw_mode(0o777))?;
                return set_mode(folder, name, to.mode.map(|mode| mode | OWNERS));
            }
            FileKind::Link => symlinkat(OsStr::from_bytes(&content()?), folder, &beside)?,
            FileKind::File => {
                let content = content()?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(openat(folder, &beside, flags, Mode::RUSR | Mode::WUSR)?);
                file.write_all(&content)?;
                fchmod(&file, Mode::from_raw_mode(to.mode.unwrap_or(0o644)))?;
                file.sync_all()?;
            }
        }
        Ok(renameat(folder, &beside, folder, name)?)
    }
}

/// Keeps what is at a path, and syncs it.
pub(super) fn keep_content(
    store: &FileStore,
    path: &ResolvedPath,
    kind: FileKind,
    hash: &Hash,
) -> Result<(), ToolError> {
    let failed = |source| ToolError::File { act: "keep the content of", path: path.shown.clone(), source };
    // The user asked for this change: whatever its size, it can be made undone.
    let store = store.unlimited();
    let kept = match kind {
        FileKind::Folder => return Ok(()),
        FileKind::Link => {
            let target = target(path).map_err(failed)?;
            store.keep(target.as_os_str().as_bytes(), 0, hash)
        }
        FileKind::File => {
            let (file, bytes) = path.open_file("read")?;
            store.keep(file, bytes, hash)
        }
    };
    kept.and_then(super::store::Unsynced::sync).map_err(failed)
}

fn is_folder(version: Option<FileVersion>) -> bool {
    version.is_some_and(|it| it.content.kind == FileKind::Folder)
}

/// Whether what is at a path is what the plan expects. A folder that an interrupted undo has opened up counts as the same.
fn is_expected(now: Option<FileVersion>, planned: &PlannedFile) -> bool {
    let opened = |version: FileVersion| FileVersion { mode: version.mode.map(|mode| mode | OWNERS), ..version };
    let is_opened = |before: Option<FileVersion>| is_folder(now) && now == before.map(opened);
    now == planned.now || is_opened(planned.now) || is_folder(planned.now) && is_opened(planned.to)
}

/// Removes a file, a link or an empty folder.
fn remove(folder: &OwnedFd, name: &OsStr, is_folder: bool) -> io::Result<()> {
    let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(folder, name, flags).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Err(io::Error::other("the folder has other files in it"))
        }
        Err(error) if is_absent(&error) => Ok(()),
        result => result,
    }
}

fn set_mode(folder: &OwnedFd, name: &OsStr, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty())?;
    // What was put into its place meanwhile may be a link that leads out.
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Symlink {
        return Err(io::Error::other(CHANGED));
    }
    let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
    Ok(chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?)
}

fn left(path: String, why: String) -> LeftFile {
    LeftFile { path, why }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn r61_permissions_are_not_restored_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(root.path().join(name)).unwrap().permissions().mode() & 0o777;
        for name in ["outside", "plain"] {
            fs::write(root.path().join(name), "x").unwrap();
            fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        symlink("outside", root.path().join("link")).unwrap();
        let folder = OwnedFd::from(File::open(root.path()).unwrap());
        set_mode(&folder, OsStr::new("plain"), Some(0o755)).unwrap();
        assert!(set_mode(&folder, OsStr::new("link"), Some(0o755)).is_err());
        assert_eq!((mode("plain"), mode("outside")), (0o755, 0o600));
    }
}
