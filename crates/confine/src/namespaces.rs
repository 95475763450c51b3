//! Enters the namespaces of tier A, but for that of mounts: the outer process keeps the view of the host, to clean up.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};

use crate::loopback;
use crate::profile::NetworkAccess;
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Enters the namespaces. The loopback interface of a new one is not up yet. The next child of this process is the first one in the PID namespace.
pub(crate) fn enter(network: NetworkAccess) -> Result<(), SetupError> {
    enter_user_namespace()?;
    unshare(CloneFlags::CLONE_NEWPID).at(SetupStep::PidNamespace, "unshare")?;
    unshare(CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS).at(SetupStep::IpcNamespace, "unshare")?;
    match network {
        NetworkAccess::Host => Ok(()),
        NetworkAccess::None | NetworkAccess::Proxy => {
            unshare(CloneFlags::CLONE_NEWNET).at(SetupStep::NetworkNamespace, "unshare")
        }
    }
}

/// Brings the loopback interface of a network namespace up, if this process has entered one.
pub(crate) fn bring_loopback_up(network: NetworkAccess) -> Result<(), SetupError> {
    match network {
        NetworkAccess::Host => Ok(()),
        NetworkAccess::None | NetworkAccess::Proxy => {
            loopback::bring_up().at(SetupStep::NetworkNamespace, "the loopback interface")
        }
    }
}

/// The own user is mapped to itself, and nobody else is. So the files that the command writes belong to the user, and
/// programs that ask for their user get the usual answer.
fn enter_user_namespace() -> Result<(), SetupError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if user == 0 {
        // The groups of root could open what is not for it; inside nobody may change them any more.
        let _ = rustix::thread::set_thread_groups(&[]);
    }
    unshare(CloneFlags::CLONE_NEWUSER).at(SetupStep::UserNamespace, "unshare")?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text).at(SetupStep::UserNamespace, file)?;
    }
    Ok(())
}
