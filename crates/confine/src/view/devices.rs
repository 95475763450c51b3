//! `/dev` of a command: a few devices that do no harm, terminals of its own, and shared memory of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, chmodat, mkdirat, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use super::blank::{Blank, DEVICES, make_file};
use super::restrict_device;
use crate::paths::{open_handle, open_handle_at};

const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// A device of the host, as a detached mount.
pub(super) struct Node {
    name: &'static str,
    tree: OwnedFd,
}

/// Takes the devices of the host. One that it does not have is left out.
pub(super) fn nodes() -> Vec<Node> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let take = |name: &'static str| {
        let handle = open_handle(&Path::new("/dev").join(name)).ok()?;
        open_tree(handle, "", flags).ok().map(|tree| Node { name, tree })
    };
    NODES.into_iter().filter_map(take).collect()
}

/// Fills the folder that was attached at `/dev`.
pub(super) fn fill(blank: &Blank, nodes: &[Node]) -> io::Result<()> {
    let folder = blank.folder(DEVICES)?;
    let view = open_handle(Path::new("/dev"))?;
    for Node { name, tree } in nodes {
        make_file(&folder, name, b"")?;
        attach(tree, &view, name)?;
        // Its owner and rights are those of the host, which root could change. It can be written all the same.
        restrict_device(tree)?;
    }
    for (name, target) in LINKS {
        symlinkat(target, &folder, name)?;
    }
    mkdirat(&folder, "shm", Mode::from_raw_mode(0o777))?;
    // The mask of this process took some of these bits.
    chmodat(&folder, "shm", Mode::from_raw_mode(0o1777), rustix::fs::AtFlags::empty())?;
    mkdirat(&folder, "pts", Mode::from_raw_mode(0o755))?;
    attach(&blank.copy("dev/shm")?, &view, "shm")?;
    attach(&terminals()?, &view, "pts")
}

/// A new instance of the file system of terminals.
fn terminals() -> io::Result<OwnedFd> {
    let context = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "ptmxmode", "0666")?;
    fsconfig_set_string(&context, "mode", "0620")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn attach(tree: &OwnedFd, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let place = open_handle_at(folder, Path::new(name))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", &place, "", flags)?)
}
