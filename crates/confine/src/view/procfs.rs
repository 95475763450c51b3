//! `/proc` of a command: only its own processes, and nothing of the kernel that could be changed or is not for it.

use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use super::{Writability, copy, restrict};
use crate::paths::open_handle;
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Settings of the kernel, which may be read. Root outside is root for them, whatever its capabilities are.
const READ_ONLY: [&str; 6] = ["sys", "bus", "fs", "irq", "sysrq-trigger", "mtrr"];
/// Memory, keys and timers of the machine, which may not.
const HIDDEN_FILES: [&str; 6] = ["kcore", "keys", "key-users", "kmsg", "timer_list", "sched_debug"];

/// Mounts `/proc` of the PID namespace of this process.
pub(crate) fn mount_proc() -> Result<(), SetupError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).at(SetupStep::Proc, "the kernel refuses a new /proc")?;
    for name in READ_ONLY {
        with_existing(name, make_read_only).at(SetupStep::Proc, name)?;
    }
    for name in HIDDEN_FILES {
        with_existing(name, |path| Ok(mount_bind("/dev/null", path)?)).at(SetupStep::Proc, name)?;
    }
    Ok(())
}

fn with_existing(name: &str, act: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let path = Path::new("/proc").join(name);
    if path.exists() { act(&path) } else { Ok(()) }
}

fn make_read_only(path: &Path) -> io::Result<()> {
    let tree = copy(path)?;
    let flags = rustix::mount::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
        | rustix::mount::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&tree, "", open_handle(path)?, "", flags)?;
    restrict(&tree, Writability::ReadOnly)
}
