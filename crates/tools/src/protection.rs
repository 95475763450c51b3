//! What this process does so that a command of the same user can neither read it nor leave anything behind.

use std::io;
use std::path::Path;

use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};

/// Makes the memory, the environment and the open files of this process unreadable for other processes of its user, which
/// includes commands; only root can read them still. The kernel takes it back when the process executes another program.
/// A core dump is not written either.
pub fn hide_from_commands() {
    // A kernel that refuses it offers no other way.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Ends everything that descends from a process, the process itself excepted, also in groups and sessions of their own. What has
/// lost its parent is found only if that process inherits it ([`inherit_orphans`]). May block for up to two seconds.
pub fn end_below(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        crate::supervisors::repeat(|| crate::supervise::processes::kill_below(pid));
    }
}

/// From now on this process inherits what has lost its parent below it.
pub fn inherit_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// From now on this process inherits what a command leaves whose supervisor was killed, and ends it. It owns this folder of
/// calls, and removes the empty cgroups that earlier ones of them have left.
pub fn adopt_what_commands_leave(calls: &Path) -> io::Result<()> {
    inherit_orphans()?;
    crate::supervisors::adopt();
    // Where no command ran, none left anything.
    if calls.is_dir() {
        crate::cgroup::remove_empty(calls);
    }
    Ok(())
}
