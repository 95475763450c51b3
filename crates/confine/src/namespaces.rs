//! Enters the namespaces of tier A, but for that of mounts: the outer process keeps the view of the host, to clean up. A network
//! takes the kernel about as long as all other namespaces, so the first process inside makes it, while the outer one does its part.

use std::fs::{self, File};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::{Pid, getegid, geteuid};

use crate::loopback;
use crate::profile::NetworkAccess;
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Enters those of the outer process. The next child of this process is the first one in the PID namespace.
pub(crate) fn enter() -> Result<(), SetupError> {
    enter_user_namespace()?;
    unshare(CloneFlags::CLONE_NEWPID).at(SetupStep::PidNamespace, "unshare")
}

/// Enters those of the first process inside, and brings the loopback interface of a new network up.
pub(crate) fn enter_inner(network: NetworkAccess) -> Result<(), SetupError> {
    unshare(CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS).at(SetupStep::IpcNamespace, "unshare")?;
    match network {
        NetworkAccess::Host => Ok(()),
        NetworkAccess::None | NetworkAccess::Proxy => {
            unshare(CloneFlags::CLONE_NEWNET).at(SetupStep::NetworkNamespace, "unshare")?;
            loopback::bring_up().at(SetupStep::NetworkNamespace, "the loopback interface")
        }
    }
}

/// Enters the network of the first process inside, which has made it.
pub(crate) fn enter_network_of(init: Pid) -> Result<(), SetupError> {
    let path = format!("/proc/{}/ns/net", init.as_raw_nonzero());
    let network = File::open(&path).at(SetupStep::NetworkNamespace, &path)?;
    setns(network, CloneFlags::CLONE_NEWNET).at(SetupStep::NetworkNamespace, "setns")
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
