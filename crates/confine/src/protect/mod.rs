//! Protected names in the workspace: finds what is there, and has a placeholder stand in for what is not.

mod git;
mod placeholder;

pub use placeholder::PLACEHOLDER_S;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, fstat};

use crate::paths::{is_unreachable, open_handle, open_handle_at};
use crate::profile::{NameKind, ProtectedName};
use crate::report::Unprotected;
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::view::{EntryKind, ViewEntry};

use placeholder::{FolderLock, Placeholder};

/// The protected names of one workspace, and the placeholders that this process holds for them.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    entries: BTreeMap<PathBuf, EntryKind>,
    placeholders: Vec<Placeholder>,
    locks: BTreeMap<PathBuf, FolderLock>,
    unprotected: Vec<Unprotected>,
}

impl Protection {
    /// Protects these names, and those of git repositories in the workspace. `workspace` has no symbolic links.
    pub(crate) fn of(workspace: &Path, names: &[ProtectedName]) -> Result<Self, SetupError> {
        let mut protection = Self::default();
        let root = open_handle(workspace).at(SetupStep::ProtectedNames, workspace.display())?;
        let (nested, unsearched) = git::nested_names(workspace, names);
        protection.unprotected = unsearched;
        for name in names.iter().chain(&nested) {
            let path = workspace.join(&name.path).display().to_string();
            protection.protect(workspace, &root, name).at(SetupStep::ProtectedNames, path)?;
        }
        Ok(protection)
    }

    /// The pieces of the view.
    pub(crate) fn entries(&self) -> impl Iterator<Item = ViewEntry> + '_ {
        self.entries.iter().map(|(path, kind)| ViewEntry::new(path, *kind))
    }

    /// Ends the protection, once no process inside is left: removes the placeholders that nobody else needs. Returns the names
    /// that are not held, or were not held to the end.
    pub(crate) fn end(self) -> Vec<Unprotected> {
        let lost = self.placeholders.into_iter().filter_map(Placeholder::release);
        self.unprotected.into_iter().chain(lost).collect()
    }

    /// The names that are not held so far.
    pub(crate) fn unprotected(&self) -> Vec<Unprotected> {
        self.unprotected.clone()
    }

    /// Follows a name from the workspace to its end. Each folder on the way becomes a mount point, because one that is not can
    /// be renamed with all that is protected in it.
    fn protect(&mut self, workspace: &Path, root: &OwnedFd, name: &ProtectedName) -> io::Result<()> {
        let parts = plain_parts(&name.path)?;
        let mut folder = root.try_clone()?;
        let mut path = workspace.to_owned();
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            path.push(part);
            let kind = match name.kind {
                kind if is_last => kind,
                NameKind::Socket => NameKind::Socket,
                NameKind::File | NameKind::Folder | NameKind::CommonDir => NameKind::Folder,
            };
            let Some(found) = self.look(&folder, part, &path, kind)? else { return Ok(()) };
            if !is_last && FileType::from_raw_mode(fstat(&found)?.st_mode).is_dir() {
                self.add(&path, EntryKind::Pinned);
                folder = found;
            } else {
                self.add(&path, EntryKind::ReadOnly);
                return Ok(());
            }
        }
        Ok(())
    }

    /// What is at one part of a name; none if it needs nothing more, as a placeholder does.
    fn look(&mut self, folder: &OwnedFd, part: &Path, path: &Path, kind: NameKind) -> io::Result<Option<OwnedFd>> {
        if matches!(self.entries.get(path), Some(EntryKind::ReadOnly | EntryKind::Placeholder(_))) {
            return Ok(None);
        }
        match self.hold(folder, part, path, kind) {
            Ok(Some(placeholder)) => {
                self.add(path, EntryKind::Placeholder(placeholder.kind()));
                self.placeholders.push(placeholder);
                Ok(None)
            }
            Ok(None) => self.existing(folder, part, path),
            // The command cannot create it either.
            Err(error) if is_refused(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hold(&mut self, folder: &OwnedFd, part: &Path, path: &Path, kind: NameKind) -> io::Result<Option<Placeholder>> {
        if kind != NameKind::Socket {
            return Placeholder::hold(folder, part, path, kind);
        }
        let parent = path.parent().unwrap_or(path);
        if !self.locks.contains_key(parent) {
            self.locks.insert(parent.to_owned(), FolderLock::shared(folder)?);
        }
        match Placeholder::hold_socket(self.locks[parent].clone(), folder, part, path) {
            // Some file systems have no sockets.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Placeholder::hold(folder, part, path, NameKind::Folder)
            }
            held => held,
        }
    }

    fn existing(&mut self, folder: &OwnedFd, part: &Path, path: &Path) -> io::Result<Option<OwnedFd>> {
        let found = match open_handle_at(folder, part) {
            Ok(found) => found,
            Err(error) if is_unreachable(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if FileType::from_raw_mode(fstat(&found)?.st_mode).is_symlink() {
            // The link itself stays as it is; what it leads to may be writable.
            self.add(path, EntryKind::ReadOnly);
            let reason = "it is a symbolic link: the link is held, what it leads to may not be".to_owned();
            self.unprotected.push(Unprotected { path: path.to_owned(), reason });
            return Ok(None);
        }
        Ok(Some(found))
    }

    fn add(&mut self, path: &Path, kind: EntryKind) {
        let at = self.entries.entry(path.to_owned()).or_insert(kind);
        *at = (*at).max(kind);
    }
}

/// The parts of a name, which stays in the workspace.
fn plain_parts(path: &Path) -> io::Result<Vec<PathBuf>> {
    let part = |part| match part {
        Component::Normal(name) => Ok(PathBuf::from(name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a protected name is relative, without `..`")),
    };
    path.components().filter(|part| *part != Component::CurDir).map(part).collect()
}

/// Whether the user itself cannot create something there.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
