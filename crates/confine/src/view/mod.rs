//! The view of the file system that a command has in tier A: everything read-only, then what is writable, then what is masked.
//!
//! The first process inside builds it in a mount namespace of its own. All that comes from the host is taken as a detached
//! copy first, by handles. Then each piece is attached in the order of its depth, so that what is deeper wins: a masked folder
//! in a writable one, and a writable folder in a masked one.

mod blank;
mod devices;
mod host;
mod mountinfo;
mod overlay;
mod procfs;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, StatVfsMountFlags, fstat, fstatvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, mount_remount, move_mount,
    open_tree,
};
use serde::{Deserialize, Serialize};

use crate::caches::CacheMount;
use crate::paths::{handle_path, open_handle};
use crate::profile::NameKind;
use crate::report::UnavailableCache;
use crate::setup::{AtStep as _, SetupError, SetupStep};

use blank::Blank;
use overlay::Copies;
pub(crate) use procfs::mount_proc;

/// One piece of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ViewEntry {
    /// Absolute, without symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) kind: EntryKind,
}

/// What is seen at the path of a piece. If two are at one path, the later kind wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum EntryKind {
    /// The folder of the host, writable.
    Writable,
    /// The private copy of a package cache.
    Cache,
    /// The writable folder itself, as a mount, so that it cannot be renamed.
    Pinned,
    /// The same in a private copy.
    PinnedInCache,
    /// What is there on the host, unchangeable.
    ReadOnly,
    /// Something unchangeable instead of what is there on the host.
    Placeholder(NameKind),
    /// Few devices, instead of those of the host.
    Devices,
    /// An empty file.
    HiddenFile,
    /// An empty folder.
    HiddenFolder,
}

impl ViewEntry {
    pub(crate) fn new(path: impl Into<PathBuf>, kind: EntryKind) -> Self {
        Self { path: path.into(), kind }
    }

    fn depth(&self) -> usize {
        self.path.components().count()
    }
}

/// A mount that is not attached yet.
struct Piece {
    entry: ViewEntry,
    /// None for what is made from the blank file system.
    tree: Option<OwnedFd>,
}

/// Builds the view in the mount namespace of this process, which has just entered it. Returns the caches of which the kernel allows
/// no copy.
pub(crate) fn build(mut entries: Vec<ViewEntry>, caches: &[CacheMount]) -> Result<Vec<UnavailableCache>, SetupError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at(SetupStep::Mounts, "the mounts of the host could not be separated")?;
    entries.push(ViewEntry::new("/dev", EntryKind::Devices));
    // While what they are on is not read-only.
    let (mut copies, refused) = Copies::mount(caches);
    entries.extend(copies.entries(&entries));
    let entries = in_order(entries);
    let is_all_writable = entries.iter().any(|entry| entry.path == Path::new("/") && entry.kind == EntryKind::Writable);
    let nodes = devices::nodes();
    let pieces = entries.into_iter().map(|entry| take(entry, &mut copies)).collect::<Result<Vec<_>, _>>()?;
    host::make_read_only(if is_all_writable { host::Extent::Kernel } else { host::Extent::Everything })?;
    let blank = Blank::mount()?;
    let mut masks = vec![];
    for piece in pieces {
        let entry = piece.entry.clone();
        match attach(piece, &blank, &nodes, &mut masks) {
            Err(error) if copies.covers(&entry, &error) => {}
            attached => attached.at(SetupStep::Mounts, entry.path.display())?,
        }
    }
    // Only now, because what is deeper needs its place in them.
    for mask in masks {
        restrict(&mask, Writability::ReadOnly).at(SetupStep::Mounts, "a mask could not be made read-only")?;
    }
    Ok(refused)
}

/// The least deep first. One piece for each path.
fn in_order(mut entries: Vec<ViewEntry>) -> Vec<ViewEntry> {
    entries.sort_by(|a, b| (a.depth(), &a.path, b.kind).cmp(&(b.depth(), &b.path, a.kind)));
    entries.dedup_by(|later, earlier| later.path == earlier.path);
    entries
}

/// Copies the mount of a piece that comes from the host.
fn take(entry: ViewEntry, copies: &mut Copies) -> Result<Piece, SetupError> {
    if entry.kind == EntryKind::Cache {
        let tree = copies.take(&entry.path);
        return Ok(Piece { entry, tree });
    }
    let is_from_host = matches!(entry.kind, EntryKind::Writable | EntryKind::Pinned | EntryKind::ReadOnly);
    // The root of this process is below every mount that is attached at `/`, so a copy would never be seen.
    if !is_from_host || entry.path == Path::new("/") {
        return Ok(Piece { entry, tree: None });
    }
    let tree = copy(&entry.path).at(SetupStep::Mounts, entry.path.display())?;
    Ok(Piece { entry, tree: Some(tree) })
}

/// A detached copy of the mount at a path, with all that is mounted below it.
fn copy(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(open_handle(path)?, "", flags | OpenTreeFlags::AT_RECURSIVE)?)
}

fn attach(piece: Piece, blank: &Blank, nodes: &[devices::Node], masks: &mut Vec<OwnedFd>) -> io::Result<()> {
    let Piece { entry, tree } = piece;
    let tree = match (tree, entry.kind) {
        (Some(tree), _) => Some(tree),
        (None, EntryKind::PinnedInCache) => Some(copy(&entry.path)?),
        (None, kind) => blank.tree(kind)?,
    };
    let Some(tree) = tree else { return Ok(()) };
    let place = blank.place(&entry.path, &tree)?;
    if is_folder(&place)? != is_folder(&tree)? {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    move_mount(
        &tree,
        "",
        &place,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )?;
    match entry.kind {
        EntryKind::Writable | EntryKind::Cache | EntryKind::Pinned | EntryKind::PinnedInCache => {
            restrict(&tree, Writability::Unchanged)?;
        }
        EntryKind::ReadOnly => restrict(&tree, Writability::ReadOnly)?,
        EntryKind::Devices => {
            devices::fill(blank, nodes)?;
            masks.push(tree);
        }
        EntryKind::Placeholder(NameKind::Folder) | EntryKind::HiddenFolder => masks.push(tree),
        EntryKind::Placeholder(NameKind::File | NameKind::Socket | NameKind::CommonDir) | EntryKind::HiddenFile => {
            blank.restrict_mask(tree, entry.kind)?;
        }
    }
    Ok(())
}

fn is_folder(handle: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(handle)?.st_mode).is_dir())
}

/// Whether a mount becomes read-only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writability {
    Unchanged,
    ReadOnly,
}

/// Takes rights from a mount, given by a handle of its root: set-user-ID programs and device nodes never work, and it becomes
/// read-only. What it forbids already stays so, because the kernel refuses anything else for the mounts of the host.
fn restrict(root: &OwnedFd, writability: Writability) -> io::Result<()> {
    let mut flags = kept_flags(root)? | MountFlags::NOSUID | MountFlags::NODEV;
    if writability == Writability::ReadOnly {
        flags |= MountFlags::RDONLY;
    }
    Ok(mount_remount(handle_path(root), MountFlags::BIND | flags, "")?)
}

/// The same for a device itself, which works on a read-only mount.
fn restrict_device(root: &OwnedFd) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount_remount(handle_path(root), MountFlags::BIND | kept_flags(root)? | flags, "")?)
}

fn kept_flags(root: &OwnedFd) -> io::Result<MountFlags> {
    /// The kernel's `ST_NOSYMFOLLOW`, which has no name in rustix.
    const NO_SYMLINK_FOLLOW: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);
    let has = fstatvfs(root)?.f_flag;
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (NO_SYMLINK_FOLLOW, MountFlags::from_bits_retain(256)),
    ];
    let kept = pairs.into_iter().filter(|(flag, _)| has.contains(*flag));
    Ok(kept.fold(MountFlags::empty(), |flags, (_, flag)| flags | flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deeper_comes_later_and_masks_win() {
        let entry = |path: &str, kind| ViewEntry::new(path, kind);
        let ordered = in_order(vec![
            entry("/home/me/src/.git/hooks", EntryKind::ReadOnly),
            entry("/home/me/src", EntryKind::Writable),
            entry("/home/me/src/.git", EntryKind::Pinned),
            entry("/home/me", EntryKind::HiddenFolder),
            entry("/home/me/src/.git", EntryKind::ReadOnly),
            entry("/home/me/src", EntryKind::HiddenFolder),
        ]);
        assert_eq!(
            ordered,
            [
                entry("/home/me", EntryKind::HiddenFolder),
                entry("/home/me/src", EntryKind::HiddenFolder),
                entry("/home/me/src/.git", EntryKind::ReadOnly),
                entry("/home/me/src/.git/hooks", EntryKind::ReadOnly),
            ]
        );
    }
}
