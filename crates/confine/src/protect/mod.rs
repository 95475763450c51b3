//! Protected names in the workspace: finds what is there, and has a placeholder stand in for what is not.

mod git;
mod nested;
mod placeholder;

pub use placeholder::PLACEHOLDER_S;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, fstat};

use crate::paths::{is_unreachable, open_handle, open_handle_at};
use crate::profile::{NameKind, ProtectedName};
use crate::report::Unprotected;
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::view::{EntryKind, ViewEntry};

use nested::Look;
use placeholder::{FolderLock, Placeholder, SocketFile};

/// The protected names of one workspace, and the placeholders that this process holds for them.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    entries: BTreeMap<PathBuf, EntryKind>,
    placeholders: Vec<Placeholder>,
    locks: BTreeMap<PathBuf, FolderLock>,
    socket: SocketFile,
    unprotected: Vec<Unprotected>,
    /// What the workspace had; none if nothing is protected.
    before: Option<Before>,
}

/// A workspace before its command.
#[derive(Debug)]
struct Before {
    workspace: PathBuf,
    /// The names at the top that are held whether they exist or not.
    top: BTreeSet<OsString>,
    look: Look,
}

/// What a protection did not do to its end.
#[derive(Debug, Default)]
pub(crate) struct ProtectionEnd {
    /// Names that are not held, or were not held to the end.
    pub(crate) unprotected: Vec<Unprotected>,
    /// Names in the workspace, relative to it, that other programs run and that have come meanwhile.
    pub(crate) created: Vec<PathBuf>,
}

impl Protection {
    /// Protects these names, those of git repositories in the workspace, and what is in it that other programs run. `workspace` has no
    /// symbolic links. Without names, nothing is protected.
    pub(crate) fn of(workspace: &Path, names: &[ProtectedName]) -> Result<Self, SetupError> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let look = Look::at(workspace);
        let mut protection = Self::only(workspace, names, &look.repositories)?;
        let top: BTreeSet<OsString> =
            names.iter().filter_map(|name| name.path.iter().next().map(OsStr::to_owned)).collect();
        let (held, more) = look.to_hold(&top);
        let root = open_handle(workspace).at(SetupStep::ProtectedNames, workspace.display())?;
        for path in held {
            let shown = workspace.join(&path).display().to_string();
            protection.hold_existing(workspace, &root, &path).at(SetupStep::ProtectedNames, shown)?;
        }
        let left_out = (more > 0).then(|| format!("{more} more names in it that other programs run are not held"));
        let reasons = look.cut.clone().into_iter().chain(left_out);
        let open = reasons.map(|reason| Unprotected { path: workspace.to_owned(), reason });
        protection.unprotected.extend(open);
        protection.before = Some(Before { workspace: workspace.to_owned(), top, look });
        Ok(protection)
    }

    /// Takes the place of a protection of these names whose process was killed, to end it.
    pub(crate) fn left(workspace: &Path, names: &[ProtectedName]) -> Result<Self, SetupError> {
        Self::only(workspace, names, &Look::at(workspace).repositories)
    }

    /// Protects these names, and those of the repositories in these folders.
    fn only(workspace: &Path, names: &[ProtectedName], repositories: &[PathBuf]) -> Result<Self, SetupError> {
        let mut protection = Self::default();
        let root = open_handle(workspace).at(SetupStep::ProtectedNames, workspace.display())?;
        let (nested, unsearched) = git::nested_names(workspace, names, repositories);
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

    /// Ends the protection, once no process inside is left: removes the placeholders that nobody else needs.
    pub(crate) fn end(self) -> ProtectionEnd {
        let lost = self.placeholders.into_iter().filter_map(Placeholder::release);
        let mut unprotected: Vec<_> = self.unprotected.into_iter().chain(lost).collect();
        let Some(Before { workspace, top, look }) = self.before else {
            return ProtectionEnd { unprotected, created: vec![] };
        };
        let (created, cut) = look.new_names(&workspace, &top);
        if look.cut.is_none() {
            unprotected.extend(cut.map(|reason| Unprotected { path: workspace.clone(), reason }));
        }
        ProtectionEnd { unprotected, created }
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

    /// Holds what is at a path, if it still is.
    fn hold_existing(&mut self, workspace: &Path, root: &OwnedFd, path: &Path) -> io::Result<()> {
        let parts = plain_parts(path)?;
        let (mut folder, mut at) = (root.try_clone()?, workspace.to_owned());
        for (index, part) in parts.iter().enumerate() {
            at.push(part);
            let Some(found) = self.existing(&folder, part, &at)? else { return Ok(()) };
            self.add(&at, if index + 1 == parts.len() { EntryKind::ReadOnly } else { EntryKind::Pinned });
            folder = found;
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
        match Placeholder::hold_socket(self.locks[parent].clone(), folder, (part, path), &mut self.socket) {
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
