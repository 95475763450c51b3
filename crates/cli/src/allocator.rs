//! How the allocator of a service gives memory back. By itself, that of glibc keeps what was once needed: the size from which
//! it asks the kernel for a piece of its own grows with each large piece that is freed, and each thread has a heap that
//! shrinks only at its end. After some answers of megabytes a service would keep hundreds of MiB for ever.
//!
//! glibc reads its settings when a program starts, so the service starts itself once more, in the same process, with those
//! settings in its environment. What the user has set there stays. Other allocators ignore the variable.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The environment variable with the settings.
const VARIABLE: &str = "GLIBC_TUNABLES";

/// Pieces from 128 KiB on are the kernel's, and a free end of a heap of 256 KiB goes back to it. The number of heaps stays: with
/// one or two for all threads they wait for each other, three times in a turn.
const SETTINGS: &str = "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=262144";

/// Starts this program again with those settings, if it has none. Returns if it has, or if that is not possible: the service
/// only keeps more memory then. Nothing may be open and no other thread may run.
pub(crate) fn gives_memory_back() {
    if !cfg!(target_env = "gnu") || env::var_os(VARIABLE).is_some() {
        return;
    }
    let (Ok(program), mut words) = (env::current_exe(), env::args_os()) else { return };
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // It only returns if it fails.
    let _ = again.args(words).env(VARIABLE, SETTINGS).exec();
}
