//! Carries out the plan of an undo. Every step can be repeated: a file that is in its state already is left alone, so a
//! kill in the middle is completed by the next owner with the same plan.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use engine::{EffectId, FileKind, Hash, LeftFile};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chmodat, fchmod, fstat, fsync, mkdirat, openat, renameat, symlinkat, unlinkat,
};

use super::plan::{FileVersion, PlannedFile, UndoPlan};
use super::store::FileStore;
use super::version::{is_absent, named, target, version};
use crate::cancel::{Cancel, in_process};
use crate::error::ToolError;
use crate::guard::Protected;
use crate::paths::{ResolvedPath, Workspace};
use crate::{change, openat};

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
        Restore { store, workspace, id, cancel }.carry_out(&plan.files)
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
    paths.iter().map(of).collect()
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
    path: ResolvedPath,
    planned: &'a PlannedFile,
}

impl Restore<'_> {
    fn carry_out(&self, files: &[PlannedFile]) -> Result<Vec<LeftFile>, ToolError> {
        let _commit = change::commit();
        let (mut pending, mut stay) = (vec![], vec![]);
        for (number, planned) in files.iter().enumerate() {
            self.cancel.check()?;
            match self.begin(number, planned) {
                Ok(Some(begun)) => pending.push(begun),
                Ok(None) => {}
                Err(why) => stay.push(left(planned.path.clone(), why)),
            }
        }
        // What is inside goes before its folder, and comes after it.
        pending.sort_by(|a, b| a.planned.path.cmp(&b.planned.path));
        let (mut gone, mut made): (Vec<_>, Vec<_>) = pending.into_iter().partition(|file| file.planned.to.is_none());
        gone.reverse();
        made.splice(0..0, gone);
        for file in made {
            self.cancel.check()?;
            if let Err(error) = self.place(&file) {
                stay.push(left(file.planned.path.clone(), error.to_string()));
            }
        }
        Ok(stay)
    }

    /// Makes sure that the content that is there is kept, and that the one that is to be there can be had.
    fn begin<'a>(&self, number: usize, planned: &'a PlannedFile) -> Result<Option<Pending<'a>>, String> {
        let path = named(&self.workspace, &planned.path).map_err(|error| error.to_string())?;
        let now = version(&path, self.cancel).map_err(|error| error.to_string())?;
        if now == planned.to {
            return Ok(None);
        }
        if now != planned.now {
            return Err(CHANGED.to_owned());
        }
        let needs =
            |wanted: FileVersion| wanted.content.hash.filter(|_| Some(wanted.content) != now.map(|now| now.content));
        if planned.to.and_then(needs).is_some_and(|hash| !self.store.has(&hash)) {
            return Err(NOT_KEPT.to_owned());
        }
        if let Some(FileVersion { content, .. }) = now
            && let Some(hash) = content.hash
        {
            self.keep(&path, content.kind, &hash).map_err(|error| error.to_string())?;
        }
        Ok(Some(Pending { number, path, planned }))
    }

    fn keep(&self, path: &ResolvedPath, kind: FileKind, hash: &Hash) -> Result<(), ToolError> {
        let failed = |source| ToolError::File { act: "keep the content of", path: path.shown.clone(), source };
        // The user asked for this change: whatever its size, it can be made undone.
        let store = self.store.unlimited();
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

    fn place(&self, file: &Pending<'_>) -> io::Result<()> {
        let (path, planned) = (&file.path, file.planned);
        let (folder, name) = match planned.to {
            Some(_) => path.make_folder()?,
            None => path.folder()?,
        };
        // The last look before the change.
        let now = version(path, self.cancel).map_err(io::Error::other)?;
        if now != planned.now {
            return if now == planned.to { Ok(()) } else { Err(io::Error::other(CHANGED)) };
        }
        match (now, planned.to) {
            (Some(now), Some(to)) if now.content == to.content => set_mode(&folder, name, to)?,
            (now, to) => {
                let is_folder =
                    |version: Option<FileVersion>| version.is_some_and(|it| it.content.kind == FileKind::Folder);
                if is_folder(now) || now.is_some() && (to.is_none() || is_folder(to)) {
                    remove(&folder, name, is_folder(now))?;
                }
                if let Some(to) = to {
                    self.make(&folder, name, to, file.number)?;
                }
            }
        }
        let folder = openat::open(&folder, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(fsync(folder)?)
    }

    fn make(&self, folder: &OwnedFd, name: &OsStr, to: FileVersion, number: usize) -> io::Result<()> {
        let content = || {
            let content = to.content.hash.and_then(|hash| self.store.content(&hash));
            content.ok_or_else(|| io::Error::other(NOT_KEPT))
        };
        let beside = format!(".limulus-{}.{number}.tmp", self.id.to_string().replace('/', "."));
        let _ = unlinkat(folder, &beside, AtFlags::empty());
        match to.content.kind {
            FileKind::Folder => {
                mkdirat(folder, name, Mode::from_raw_mode(0o777))?;
                return set_mode(folder, name, to);
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

fn set_mode(folder: &OwnedFd, name: &OsStr, to: FileVersion) -> io::Result<()> {
    let Some(mode) = to.mode else { return Ok(()) };
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
        let to = FileVersion { content: engine::FileContent::default(), mode: Some(0o755) };
        set_mode(&folder, OsStr::new("plain"), to).unwrap();
        assert!(set_mode(&folder, OsStr::new("link"), to).is_err());
        assert_eq!((mode("plain"), mode("outside")), (0o755, 0o600));
    }
}
