//! Overlays: private copies of package caches, in the place of the user's.
//!
//! What is hidden in a cache is masked in its copy as it is elsewhere. The kernel renames no folder of an overlay that the user's
//! cache has too, and the folders above a mask are mount points besides. Where a mask has no place in the copy, an earlier command
//! has replaced or removed what is there in the user's cache, so this cannot be seen any more.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatVfsMountFlags, fstatvfs, getxattr, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
};

use super::{EntryKind, ViewEntry};
use crate::caches::CacheMount;
use crate::paths::{handle_path, open_handle};
use crate::report::UnavailableCache;

/// The copies, each mounted but attached nowhere until it is taken.
pub(super) struct Copies {
    trees: BTreeMap<PathBuf, Option<OwnedFd>>,
}

impl Copies {
    /// Mounts the copies. Returns those that the kernel refuses too.
    pub(super) fn mount(caches: &[CacheMount]) -> (Self, Vec<UnavailableCache>) {
        let (mut trees, mut refused) = (BTreeMap::new(), vec![]);
        for cache in caches {
            match mounted(cache) {
                Ok(tree) => {
                    trees.insert(cache.folder.clone(), Some(tree));
                }
                Err(error) => {
                    let reason = format!("the kernel mounts no overlay there: {error}");
                    refused.push(UnavailableCache { path: cache.folder.clone(), reason });
                }
            }
        }
        (Self { trees }, refused)
    }

    /// The pieces of the copies: themselves, and the folders in them above other pieces.
    pub(super) fn entries(&self, others: &[ViewEntry]) -> Vec<ViewEntry> {
        let pieces: BTreeSet<&Path> = others.iter().map(|other| other.path.as_path()).collect();
        // What is nearest says whose folder it is: another piece in a copy has those of the host.
        let is_in_copy = |folder: &Path| {
            let nearest = folder.ancestors().find(|path| self.trees.contains_key(*path) || pieces.contains(path));
            nearest.is_some_and(|path| self.trees.contains_key(path))
        };
        let above = others.iter().flat_map(|other| other.path.ancestors().skip(1));
        let above: BTreeSet<&Path> = above.filter(|path| !self.trees.contains_key(*path) && is_in_copy(path)).collect();
        let above = above.into_iter().map(|path| ViewEntry::new(path, EntryKind::PinnedInCache));
        self.trees.keys().map(|path| ViewEntry::new(path, EntryKind::Cache)).chain(above).collect()
    }

    /// The mount of a copy. It is there once.
    pub(super) fn take(&mut self, path: &Path) -> Option<OwnedFd> {
        self.trees.get_mut(path).and_then(Option::take)
    }

    /// Whether a piece has no place because the copy around it has something else there.
    pub(super) fn covers(&self, entry: &ViewEntry, error: &io::Error) -> bool {
        let no_place = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        let is_in_it = self.around(&entry.path).is_some_and(|copy| copy != entry.path);
        is_in_it && (no_place || error.kind() == io::ErrorKind::NotADirectory)
    }

    fn around(&self, path: &Path) -> Option<&Path> {
        self.trees.keys().map(PathBuf::as_path).find(|copy| path.starts_with(copy))
    }
}

/// An overlay over the user's cache. Its options name handles, because they cannot hold every path.
fn mounted(cache: &CacheMount) -> io::Result<OwnedFd> {
    let (lower, upper, work) = (open_handle(&cache.folder)?, open_handle(&cache.upper)?, open_handle(&cache.work)?);
    has_attributes(&upper)?;
    forget_volatile(&work)?;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, handle) in [("lowerdir", &lower), ("upperdir", &upper), ("workdir", &work)] {
        fsconfig_set_string(&context, name, handle_path(handle))?;
    }
    fsconfig_set_flag(&context, "userxattr")?;
    // Otherwise the whole file system of the copies is synchronised when the command ends.
    fsconfig_set_flag(&context, "volatile")?;
    // The user changes its cache between two commands, which an index would not allow.
    fsconfig_set_string(&context, "index", "off")?;
    fsconfig_create(&context)?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if fstatvfs(&lower)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Without attributes of users the kernel mounts an overlay, in which a folder that was removed cannot be created again.
fn has_attributes(upper: &OwnedFd) -> io::Result<()> {
    match getxattr(handle_path(upper), "user.overlay.opaque", &mut [0_u8; 8]) {
        Err(Errno::NODATA) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The kernel marks what was mounted volatile, because it may be damaged if the machine has stopped meanwhile, and mounts it only
/// without the mark. A cache is not more in danger than the user's: package managers do not synchronise theirs either.
fn forget_volatile(work: &OwnedFd) -> io::Result<()> {
    let folder = AtFlags::REMOVEDIR;
    let mark = [("volatile/dirty", AtFlags::empty()), ("volatile", folder), ("", folder)];
    for (name, kind) in mark {
        match unlinkat(work, Path::new("work/incompat").join(name), kind) {
            Err(Errno::NOENT) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(paths: &[&str]) -> Copies {
        Copies { trees: paths.iter().map(|path| (PathBuf::from(path), None)).collect() }
    }

    #[test]
    fn the_folders_above_a_mask_are_mount_points() {
        let hidden = |path: &str| ViewEntry::new(path, EntryKind::HiddenFile);
        let others = [
            hidden("/me/.m2/repository/a/b/key"),
            hidden("/me/.ssh"),
            hidden("/me/.gradle/gradle.properties"),
            ViewEntry::new("/me/.gradle/own", EntryKind::Writable),
            hidden("/me/.gradle/own/x/key"),
        ];
        let entries = copies(&["/me/.m2/repository", "/me/.gradle"]).entries(&others);
        let pins: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::PinnedInCache).collect();
        let paths: Vec<_> = pins.iter().map(|pin| pin.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/me/.m2/repository/a", "/me/.m2/repository/a/b"]);
    }

    #[test]
    fn only_what_is_in_a_copy_may_have_no_place() {
        let copies = copies(&["/me/.gradle"]);
        let error = |errno: Errno| io::Error::from(errno);
        let covers = |path: &str, errno| copies.covers(&ViewEntry::new(path, EntryKind::HiddenFile), &error(errno));
        assert!(covers("/me/.gradle/x", Errno::NOENT) && covers("/me/.gradle/x", Errno::LOOP));
        assert!(!covers("/me/.gradle", Errno::NOENT) && !covers("/me/.ssh", Errno::NOENT));
        assert!(!covers("/me/.gradle/x", Errno::NOMEM) && !covers("/me/.gradle/x", Errno::PERM));
    }

    #[test]
    fn a_file_system_without_attributes_is_no_place_for_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        has_attributes(&open_handle(folder.path()).unwrap()).unwrap();
        assert!(has_attributes(&open_handle(Path::new("/proc/sys")).unwrap()).is_err());
    }
}
