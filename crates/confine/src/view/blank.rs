//! One small file system in memory, from which all masks are made.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use super::{EntryKind, Writability, restrict};
use crate::paths::{open_handle, open_handle_at};
use crate::profile::NameKind;
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// The devices and shared memory are in it too, so it is as large as shared memory usually is.
const SIZE: &str = "50%";
const EMPTY: &str = "empty";
const DOT: &str = "dot";
/// The folder that becomes `/dev`.
pub(super) const DEVICES: &str = "dev";

/// The file system, attached where it is covered later.
pub(super) struct Blank {
    root: OwnedFd,
    device: u64,
    folders: Cell<u32>,
    /// The first mask of each file, attached and read-only: the others are copies of it, which are so from the beginning.
    masks: [OnceCell<OwnedFd>; 2],
}

impl Blank {
    /// Mounts it at `/dev`, which gets its own devices afterwards.
    pub(super) fn mount() -> Result<Self, SetupError> {
        Self::mounted().at(SetupStep::Mounts, "an empty file system cannot be mounted")
    }

    fn mounted() -> io::Result<Self> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "size", SIZE)?;
        fsconfig_set_string(&context, "mode", "755")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        let place = open_handle(Path::new("/dev"))?;
        move_mount(&mount, "", &place, "", empty_paths())?;
        // The handle of the mount is one without rights on some kernels, so it is opened again.
        let root = open_folder(&open_handle(Path::new("/dev"))?, Path::new("."))?;
        make_file(&root, EMPTY, b"")?;
        make_file(&root, DOT, b".\n")?;
        mkdirat(&root, DEVICES, Mode::from_raw_mode(0o755))?;
        let device = fstat(&root)?.st_dev;
        Ok(Self { root, device, folders: Cell::new(0), masks: Default::default() })
    }

    /// A detached mount of a mask; none if this kind is not a mask.
    pub(super) fn tree(&self, kind: EntryKind) -> io::Result<Option<OwnedFd>> {
        match kind {
            EntryKind::Writable
            | EntryKind::Cache
            | EntryKind::Pinned
            | EntryKind::PinnedInCache
            | EntryKind::ReadOnly => Ok(None),
            EntryKind::HiddenFile | EntryKind::Placeholder(NameKind::File | NameKind::Socket) => {
                self.mask(EMPTY).map(Some)
            }
            EntryKind::Placeholder(NameKind::CommonDir) => self.mask(DOT).map(Some),
            EntryKind::Devices => self.copy(DEVICES).map(Some),
            EntryKind::HiddenFolder | EntryKind::Placeholder(NameKind::Folder) => {
                let name = self.folders.get().to_string();
                self.folders.set(self.folders.get() + 1);
                // Each has its own, because what is deeper may need a place in it.
                mkdirat(&self.root, &name, Mode::from_raw_mode(0o755))?;
                self.copy(&name).map(Some)
            }
        }
    }

    /// A detached mount of a file that nothing is deeper than. It is read-only but for the first one of its file.
    fn mask(&self, name: &str) -> io::Result<OwnedFd> {
        match self.first(name).get() {
            Some(first) => {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                Ok(open_tree(first, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?)
            }
            None => self.copy(name),
        }
    }

    /// Makes the mask of a file read-only, which is attached now.
    pub(super) fn restrict_mask(&self, mask: OwnedFd, kind: EntryKind) -> io::Result<()> {
        let name = if kind == EntryKind::Placeholder(NameKind::CommonDir) { DOT } else { EMPTY };
        if self.first(name).get().is_none() {
            restrict(&mask, Writability::ReadOnly)?;
            let _ = self.first(name).set(mask);
        }
        Ok(())
    }

    fn first(&self, name: &str) -> &OnceCell<OwnedFd> {
        &self.masks[usize::from(name == DOT)]
    }

    /// A detached mount of one of its files or folders.
    pub(super) fn copy(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(open_tree(&self.root, name, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
    }

    /// An open folder of it.
    pub(super) fn folder(&self, name: &str) -> io::Result<OwnedFd> {
        open_folder(&self.root, Path::new(name))
    }

    /// The place at which a mount is attached. If it is in a mask it does not exist yet, and is created there; nothing is ever
    /// created on the host.
    pub(super) fn place(&self, path: &Path, tree: &OwnedFd) -> io::Result<OwnedFd> {
        match open_handle(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_place(path, tree),
            other => other,
        }
    }

    fn create_place(&self, path: &Path, tree: &OwnedFd) -> io::Result<OwnedFd> {
        let is_folder = rustix::fs::FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir();
        let parts: Vec<_> = path.components().filter(|part| *part != Component::RootDir).collect();
        let mut at = open_handle(Path::new("/"))?;
        for (index, part) in parts.iter().enumerate() {
            let name = Path::new(part);
            let is_last = index + 1 == parts.len();
            at = match open_handle_at(&at, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.create_in(&at, name, is_folder || !is_last)?;
                    open_handle_at(&at, name)?
                }
                other => other?,
            };
        }
        Ok(at)
    }

    fn create_in(&self, folder: &OwnedFd, name: &Path, is_folder: bool) -> io::Result<()> {
        if fstat(folder)?.st_dev != self.device {
            return Err(Errno::NOENT.into());
        }
        let folder = open_folder(folder, Path::new("."))?;
        if is_folder {
            return Ok(mkdirat(&folder, name, Mode::from_raw_mode(0o755))?);
        }
        let name = std::str::from_utf8(name.as_os_str().as_bytes()).map_err(|_| Errno::ILSEQ)?;
        make_file(&folder, name, b"")
    }
}

fn empty_paths() -> MoveMountFlags {
    MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH
}

fn open_folder(at: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// Creates a file that everybody may read.
pub(super) fn make_file(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, content)?;
    Ok(())
}
