//! What the folder of a call says about the processes of its command, so that they are found after the supervisor was killed
//! and the owner with it. A command can remove its mark and cannot be asked; the number of its session stays.
//!
//! The command can overwrite it. Then it is lost, or it names other processes of the same user, which the command could have
//! ended itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};

use super::processes::{self, Status};
use crate::cgroup;
use crate::folder::CallFolder;

/// The supervisor of a call and what its descendants inherit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trace {
    /// The boot and the first process that it sees: process ids have their meaning only among those.
    boot: String,
    init: u64,
    /// The number of the supervisor's session, which is its process id.
    session: i32,
    /// When the supervisor started, clock ticks since the boot. Nothing of the command is older.
    started: u64,
    /// How many processes and threads the system had started by then.
    forks: u64,
    /// The inode of the pipe that the command's output goes into.
    pipe: u64,
    /// The cgroup of the call, if it could be created.
    pub(crate) cgroup: Option<String>,
}

impl Trace {
    /// The trace that the command of this process, its supervisor, will have.
    pub(crate) fn of_this_process(call: &CallFolder, pipe: &File) -> Option<Self> {
        let this = Status::of(getpid())?;
        Some(Self {
            boot: boot()?,
            init: Status::of(Pid::INIT)?.started,
            session: this.session,
            started: this.started,
            forks: forks()?,
            pipe: pipe.metadata().ok()?.ino(),
            cgroup: cgroup::planned(call),
        })
    }

    /// Kills what has this trace, with all below it. Returns whether there was anything.
    pub(crate) fn kill(&self) -> bool {
        let is_here = boot().is_some_and(|boot| boot == self.boot)
            && Status::of(Pid::INIT).is_some_and(|init| init.started == self.init);
        // Numbers below 2 are no session of a supervisor.
        if !is_here || self.session < 2 || self.session == processes::own_session() {
            return false;
        }
        let living: Vec<(Pid, Status)> = processes::all_processes()
            .filter_map(|pid| Some((pid, Status::of(pid)?)))
            .filter(|(_, status)| !status.is_zombie && status.started >= self.started)
            .collect();
        let is_member = |status: &Status| status.session == self.session;
        let is_same_session = self.is_unused_since() && !living.iter().any(|(pid, _)| pid.as_raw_pid() == self.session)
            || living.iter().any(|(pid, status)| is_member(status) && self.writes_output(*pid));
        let own = processes::ancestors(std::process::id());
        let mut found = false;
        for (pid, status) in living {
            let is_its = is_same_session && is_member(&status) || self.writes_output(pid);
            // The limulus inside a call must not end itself, whatever a command has written there.
            if is_its && !own.contains(&pid.as_raw_pid().unsigned_abs()) {
                found = true;
                processes::kill_below(pid.as_raw_pid());
                processes::kill(pid.as_raw_pid());
            }
        }
        found
    }

    /// Whether no other session can have the number by now: the system gives out all other numbers before it begins again.
    fn is_unused_since(&self) -> bool {
        let numbers =
            fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse::<u64>().ok());
        matches!((forks(), numbers), (Some(forks), Some(numbers)) if self.is_unused_at(forks, numbers))
    }

    /// The same when so many processes have been started, of which each had one of so many numbers.
    fn is_unused_at(&self, forks: u64, numbers: u64) -> bool {
        forks.checked_sub(self.forks).is_some_and(|since| since < numbers / 2)
    }

    /// Whether a process has the pipe of the command's output as one of its outputs.
    fn writes_output(&self, pid: Pid) -> bool {
        let pipe = format!("pipe:[{}]", self.pipe);
        let leads =
            |fd| fs::read_link(format!("/proc/{}/fd/{fd}", pid.as_raw_pid())).is_ok_and(|to| to.as_os_str() == &*pipe);
        leads(1) || leads(2)
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The processes and threads that the system has started since it booted.
fn forks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("processes "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R15: a session that ended so long ago that its number may be another one's by now is not meant.
    #[test]
    fn r15_a_number_is_believed_for_half_a_round_of_all_numbers() {
        let trace = Trace { forks: 1_000, ..Trace::default() };
        for (forks, expected) in [(999, false), (1_000, true), (1_049, true), (1_050, false), (u64::MAX, false)] {
            assert_eq!(trace.is_unused_at(forks, 100), expected, "{forks}");
        }
    }
}
