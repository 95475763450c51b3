//! The capabilities of a user namespace: the first process inside needs a few of them to build the view, the command gets none.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};

/// Mounts, the loopback interface, and dropping the others.
const OF_INIT: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SETPCAP).union(CapabilitySet::NET_ADMIN);

/// What the outer process needs to enter the network that the first process inside makes.
const OF_OUTER: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_PTRACE);

/// The kernel writes in the working folder of an overlay with the rights of who mounts it. Nobody else has any there.
const OF_OVERLAYS: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// What the first process inside mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounts {
    WithoutOverlays,
    WithOverlays,
}

/// Lets the program that this process executes next keep what it needs for mounts, also if its user is not root.
pub(crate) fn pass_on(mounts: Mounts) -> io::Result<()> {
    let kept = match mounts {
        Mounts::WithoutOverlays => OF_INIT,
        Mounts::WithOverlays => OF_INIT | OF_OVERLAYS,
    };
    let sets = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: sets.inheritable | kept, ..sets })?;
    for capability in kept.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Drops all capabilities for good: of this process, and of what it executes, also as root or from a file.
pub(crate) fn drop_all() -> io::Result<()> {
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    for bit in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The kernel knows no more.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    forget()
}

/// Drops the capabilities of this process but for those that [`with_kept`] uses, and holds these back.
pub(crate) fn hold_back() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: OF_OUTER, inheritable: none })?)
}

/// Does something with what was held back.
pub(crate) fn with_kept<T, E: From<io::Error>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let sets = CapabilitySets { effective: OF_OUTER, permitted: OF_OUTER, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(io::Error::from)?;
    let done = act();
    hold_back()?;
    done
}

/// Drops the capabilities of this process, without the right to do so for what it executes: a process outside of a user
/// namespace may have none to begin with.
pub(crate) fn forget() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Set-user-ID programs and capabilities of files have no effect any more.
pub(crate) fn forbid_new_privileges() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}
