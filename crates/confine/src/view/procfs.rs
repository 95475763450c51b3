//! `/proc` of a command: only its own processes, and nothing of the kernel that could be changed or is not for it.

use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Memory, keys and timers of the machine, which may not even be read.
const HIDDEN_FILES: [&str; 6] = ["kcore", "keys", "key-users", "kmsg", "timer_list", "sched_debug"];

/// Mounts `/proc` of the PID namespace of this process. It is read-only: root outside is root for the settings of the kernel,
/// whatever its capabilities are, and the rights of these files are those of the host.
pub(crate) fn mount_proc() -> Result<(), SetupError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("proc", "/proc", "proc", flags, None).at(SetupStep::Proc, "the kernel refuses a new /proc")?;
    for name in HIDDEN_FILES {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mount_bind("/dev/null", &path).at(SetupStep::Proc, path.display())?;
        }
    }
    Ok(())
}
