//! Reads what is at a path, without following a link.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use engine::{FileContent, FileKind, Hash};
use rustix::fs::{FileType, readlinkat};

use super::plan::FileVersion;
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::paths::{ResolvedPath, Workspace};

/// The path that an entry names. Its last name is not followed if it is a link; a link further up that leads elsewhere is
/// an error.
pub(super) fn named(workspace: &Workspace, path: &str) -> Result<ResolvedPath, ToolError> {
    let moved = || ToolError::Moved { path: path.to_owned() };
    let real = workspace.root.join(path);
    let (Some(above), Some(_)) = (real.parent(), real.file_name()) else { return Err(moved()) };
    let folder = workspace.resolve(above.to_str().ok_or_else(moved)?)?;
    if folder.real != above {
        return Err(moved());
    }
    let found = workspace.below(&folder, &real);
    found.must_not_be_own().map_err(ToolError::file("open", path))?;
    Ok(found)
}

/// How an entry names a path: relative to the workspace if it is inside. None for a name that is not UTF-8.
pub(super) fn name_of(workspace: &Workspace, real: &Path) -> Option<String> {
    real.strip_prefix(&workspace.root).unwrap_or(real).to_str().map(str::to_owned)
}

/// What is at this path; none if nothing is.
pub(super) fn version(path: &ResolvedPath, cancel: &Cancel) -> Result<Option<FileVersion>, ToolError> {
    let failed = |source| ToolError::File { act: "read", path: path.shown.clone(), source };
    let seen = match path.look() {
        Ok(seen) => seen,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = Some(seen.mode);
    Ok(Some(match seen.kind {
        FileType::RegularFile => {
            let hash = path.state("read", cancel)?;
            FileVersion { content: FileContent { kind: FileKind::File, hash }, mode }
        }
        FileType::Directory => FileVersion { content: FileContent { kind: FileKind::Folder, hash: None }, mode },
        FileType::Symlink => {
            let hash = Some(Hash::of(target(path).map_err(failed)?.as_os_str().as_bytes()));
            FileVersion { content: FileContent { kind: FileKind::Link, hash }, mode: None }
        }
        _ => return Err(ToolError::Special { path: path.shown.clone() }),
    }))
}

/// The target of the link at this path.
pub(super) fn target(path: &ResolvedPath) -> io::Result<PathBuf> {
    let (folder, name) = path.folder()?;
    let target = readlinkat(&folder, name, Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes())))
}

/// Whether nothing is at a path, also because a folder on it does not exist.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
