//! The profile with its paths resolved and checked, as this user sees them before anything is restricted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::caches::Caches;
use crate::paths::resolved;
use crate::profile::{NetworkAccess, Profile, WorkspaceAccess};
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::view::{EntryKind, ViewEntry};

/// Folders with the sockets of daemons. A command can make no such socket; that they cannot even be named is a second
/// reason.
const DAEMONS: [&str; 4] = ["/run", "/var/run", "/tmp/.X11-unix", "/tmp/.ICE-unix"];
/// What a program reads to find the host's name server. It may lead into one of these folders.
const NAME_SERVERS: &str = "/etc/resolv.conf";

/// A profile whose paths exist and have no symbolic links.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) profile: &'a Profile,
    pub(super) workspace: PathBuf,
    pub(super) folder: PathBuf,
    temporary: PathBuf,
    more: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) caches: Caches,
}

impl<'a> Plan<'a> {
    /// Resolves the paths of a profile.
    pub(super) fn of(profile: &'a Profile) -> Result<Self, SetupError> {
        let mut plan = Self {
            profile,
            workspace: existing("the workspace", &profile.workspace)?,
            folder: existing("the folder", &profile.folder)?,
            temporary: existing("the temporary folder", &profile.temporary)?,
            more: optional(&profile.writable)?,
            hidden: optional(&profile.hidden)?,
            caches: Caches::default(),
        };
        if let Some(copies) = &profile.caches {
            plan.caches = Caches::of(copies, profile.tier, |cache, copies| plan.is_for_copy(cache, copies));
        }
        plan.check_approved()?;
        plan.check()?;
        Ok(plan)
    }

    /// A command that runs beside this one may have replaced a folder by a link since it was approved. From here on paths are
    /// opened without following links.
    fn check_approved(&self) -> Result<(), SetupError> {
        for path in &self.profile.approved {
            let refuse = |why: &str| SetupError::new(SetupStep::Profile, format!("{} {why}", path.display()));
            if resolved(path).at(SetupStep::Profile, path.display())?.as_ref() != Some(path) {
                return Err(refuse("is not what was approved any more"));
            }
            if self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
                return Err(refuse("is hidden, whatever is approved"));
            }
        }
        Ok(())
    }

    /// What is hidden wins at its own path, so a sandbox that needs such a path would not work.
    fn check(&self) -> Result<(), SetupError> {
        for path in [&self.workspace, &self.temporary] {
            if self.hidden.contains(path) {
                return Err(SetupError::new(SetupStep::Profile, format!("{} is hidden", path.display())));
            }
        }
        let report = existing("the report", &self.profile.report)?;
        if is_writable(&report, &self.writable(), &self.hidden) {
            return Err(SetupError::new(SetupStep::Profile, "the command could write its own report"));
        }
        Ok(())
    }

    /// Whether the command gets a copy of a cache: it cannot write it otherwise, may read it, and needs nothing in it as it is on
    /// the host.
    fn is_for_copy(&self, cache: &Path, copies: &Path) -> bool {
        let is_around = |path: &Path| cache.starts_with(path);
        let is_hidden =
            self.hidden.iter().any(|path| is_around(path)) || DAEMONS.map(Path::new).into_iter().any(is_around);
        let is_writable = self.writable().iter().any(|path| is_around(path));
        let needed = [&*self.workspace, &self.folder, &self.temporary, &self.profile.report, copies];
        let are_private = !self.writable().iter().any(|path| copies.starts_with(path));
        are_private
            && !is_hidden
            && !is_writable
            && !is_around(copies)
            && !needed.into_iter().any(|path| path.starts_with(cache))
    }

    /// The roots below which the command may write, without the caches of which it has a copy.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = [&self.temporary].into_iter().chain(&self.caches.own).cloned().collect();
        if self.profile.access == WorkspaceAccess::Workspace {
            paths.push(self.workspace.clone());
            paths.extend(self.more.iter().cloned());
        }
        paths.extend(self.profile.approved.iter().cloned());
        paths
    }

    /// The pieces of the view, without those of the protected names.
    pub(super) fn entries(&self) -> Result<Vec<ViewEntry>, SetupError> {
        let writable = self.writable();
        let mut entries: Vec<_> = writable.iter().map(|path| ViewEntry::new(path, EntryKind::Writable)).collect();
        if self.profile.access == WorkspaceAccess::ReadOnly {
            // It may be in a folder that is hidden.
            entries.push(ViewEntry::new(&self.workspace, EntryKind::ReadOnly));
        }
        entries.extend(self.pinned(&writable));
        for path in &self.hidden {
            entries.extend(hidden(path)?);
        }
        for path in DAEMONS.map(Path::new).into_iter().filter(|path| is_folder_itself(path)) {
            entries.extend(hidden(path)?);
        }
        entries.extend(self.name_servers()?);
        Ok(entries)
    }

    /// The folders between a writable folder and a workspace, a further writable folder or something hidden in it: if one could
    /// be renamed, another one could be put in its place, and what is hidden would have another name.
    fn pinned(&self, writable: &[PathBuf]) -> Vec<ViewEntry> {
        let around = |path: &Path| writable.iter().any(|root| path.starts_with(root) && path != root);
        let held = [&self.workspace].into_iter().chain(&self.more).chain(&self.profile.approved).chain(&self.hidden);
        let between: BTreeSet<&Path> =
            held.flat_map(|path| path.ancestors().skip(1)).filter(|path| around(path)).collect();
        between.into_iter().map(|path| ViewEntry::new(path, EntryKind::Pinned)).collect()
    }

    fn name_servers(&self) -> Result<Option<ViewEntry>, SetupError> {
        // Whoever connects for the command resolves names for it too.
        match self.profile.network {
            NetworkAccess::None | NetworkAccess::Proxy => return Ok(None),
            NetworkAccess::Host => {}
        }
        let path = resolved(Path::new(NAME_SERVERS)).at(SetupStep::Profile, NAME_SERVERS)?;
        let is_masked = |path: &PathBuf| DAEMONS.iter().any(|folder| path.starts_with(folder));
        Ok(path.filter(is_masked).map(|path| ViewEntry::new(path, EntryKind::ReadOnly)))
    }
}

/// Whether a command may write at a path: what is deeper wins, as in the view.
fn is_writable(path: &Path, writable: &[PathBuf], hidden: &[PathBuf]) -> bool {
    let depth = |paths: &[PathBuf]| {
        let around = paths.iter().filter(|around| path.starts_with(around));
        around.map(|around| around.components().count()).max()
    };
    depth(writable).is_some_and(|writable| depth(hidden).is_none_or(|hidden| hidden <= writable))
}

fn existing(what: &str, path: &Path) -> Result<PathBuf, SetupError> {
    if !path.is_absolute() {
        return Err(SetupError::new(SetupStep::Profile, format!("{what} {} is not absolute", path.display())));
    }
    path.canonicalize().at(SetupStep::Profile, format!("{what} {}", path.display()))
}

/// Those that exist.
fn optional(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SetupError> {
    let mut found = vec![];
    for path in paths {
        if !path.is_absolute() {
            return Err(SetupError::new(SetupStep::Profile, format!("{} is not absolute", path.display())));
        }
        found.extend(resolved(path).at(SetupStep::Profile, path.display())?);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn hidden(path: &Path) -> Result<Option<ViewEntry>, SetupError> {
    let Ok(found) = path.symlink_metadata() else { return Ok(None) };
    if path == Path::new("/") {
        return Err(SetupError::new(SetupStep::Profile, "the whole file system cannot be hidden"));
    }
    let kind = if found.is_dir() { EntryKind::HiddenFolder } else { EntryKind::HiddenFile };
    Ok(Some(ViewEntry::new(path, kind)))
}

fn is_folder_itself(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_in_a_hidden_folder_of_the_workspace_is_safe() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let check = |writable: &[&str], hidden: &[&str]| {
            is_writable(Path::new("/me/.limulus/calls/1/report"), &paths(writable), &paths(hidden))
        };
        assert!(!check(&["/work"], &[]));
        assert!(check(&["/me"], &["/me/.ssh"]));
        assert!(!check(&["/", "/me"], &["/me/.limulus"]));
        assert!(check(&["/me", "/me/.limulus/calls/1"], &["/me/.limulus"]));
    }
}
