//! Restricts the current process and executes a command inside the restriction: a sandbox for commands on Linux.
//!
//! A caller describes the sandbox in a [`Profile`] and starts [`Profile::command`]. That runs this same program again with a
//! hidden subcommand, whose body is [`confine_main`]. It restricts itself and executes the command; if any step fails, it
//! ends with [`SETUP_FAILED`] and never executes the command without the sandbox.
//!
//! ```text
//! caller ──► outer process ──► init (PID 1 inside) ──► command        tier A: namespaces, own mounts, Landlock, seccomp
//!             user, PID, IPC,   mounts, no capabilities,
//!             network           Landlock, seccomp
//!
//! caller ──► outer process, which becomes the command                  tier B: Landlock and seccomp
//! ```
//!
//! What may not live here: policy (who may run what), anything async, and any other crate of the workspace. [`probe`] says what
//! this kernel can do; what to do where it can do nothing (tier C) is the caller's decision.

mod caches;
mod capabilities;
mod descriptors;
mod executed;
mod filter;
mod handover;
mod init;
mod landlocked;
mod launch;
mod loopback;
mod namespaces;
mod outer;
mod paths;
mod probe;
mod profile;
mod protect;
mod report;
mod rlimits;
mod seatbelt;
mod setup;
mod signals;
mod syscalls;
mod tables;
mod view;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub use executed::{folded_name, is_executed};
pub use handover::{ExpectedListener, ListenerReceiver};
pub use launch::Launcher;
pub use probe::{SandboxSupport, probe};
pub use profile::{
    CacheCopies, CachePlace, NameKind, NetworkAccess, PackageCache, Profile, ProtectedName, ResourceLimits, Tier,
    WorkspaceAccess,
};
pub use protect::PLACEHOLDER_S;
pub use report::{ConfineReport, ConfineState, LayerState, SandboxLayers, UnavailableCache, Unprotected};
pub use seatbelt::seatbelt_profile;
pub use setup::{COMMAND_NOT_EXECUTABLE, COMMAND_NOT_FOUND, Error, SETUP_FAILED, SetupError, SetupStep};
pub use tables::{default_hidden, default_read_only};

/// Removes the placeholders in a workspace that nobody needs any more: those of a sandbox that was killed. `names` are those that
/// it protected. `workspace` has no symbolic links.
pub fn remove_placeholders(workspace: &Path, names: &[ProtectedName]) -> Result<(), SetupError> {
    // Whoever holds them last removes them.
    protect::Protection::left(workspace, names).map(|held| drop(held.end()))
}

/// The body of the hidden subcommand that [`Launcher`] names. `arguments` are those after its words: the program to execute
/// and its arguments. It must run before the process starts a thread.
///
/// It ends as the command ends: with the same exit code, or by the same signal. If the sandbox cannot be set up it ends with
/// [`SETUP_FAILED`], if the program cannot be executed with [`COMMAND_NOT_EXECUTABLE`] or [`COMMAND_NOT_FOUND`]; because a
/// command may end with these codes too, the report of the profile tells them apart.
pub fn confine_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.first().is_some_and(|word| word == launch::INIT) {
        return init::init_main();
    }
    outer::outer_main(&arguments)
}
