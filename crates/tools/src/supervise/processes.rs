//! Finds and signals the processes of a command through /proc. Code that works on Linux only is here and in `watch.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait};

/// The environment variable that marks every process of a command, so that it can be found after its supervisor died.
pub(crate) const MARK: &str = "SUPERVISED_CALL";

/// A descendant of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descendant {
    pid: Pid,
    group: Pid,
}

/// The result of [`reap`].
pub(crate) struct Reaped {
    /// The status of the main process, if it has ended now.
    pub(crate) main: Option<WaitStatus>,
    /// Whether no child is left. The supervisor inherits orphans, so then no descendant is left either.
    pub(crate) none_left: bool,
}

/// Reaps every child that has ended.
pub(crate) fn reap(main: Pid) -> Reaped {
    let mut reaped = Reaped { main: None, none_left: false };
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => reaped.main = Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return reaped,
            Err(_) => {
                reaped.none_left = true;
                return reaped;
            }
        }
    }
}

/// Sends a signal to every descendant. The process group of the command receives it atomically, so that a process that
/// forks in it cannot escape.
pub(crate) fn signal_descendants(main: Pid, signal: Signal) {
    let descendants = descendants();
    // If the group has no member left, its number may belong to another group by now.
    if descendants.iter().any(|process| process.group == main) {
        let _ = kill_process_group(main, signal);
    }
    for process in descendants.iter().filter(|process| process.group != main) {
        // The process may have ended meanwhile.
        let _ = kill_process(process.pid, signal);
    }
}

/// The ids of the descendants.
pub(crate) fn survivors() -> Vec<i32> {
    descendants().iter().map(|process| process.pid.as_raw_pid()).collect()
}

/// Kills every process with the mark of this call, after its supervisor was killed.
pub(crate) fn kill_marked(call: &str) {
    let mark = format!("{MARK}={call}");
    for pid in all_processes() {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process is inside a command that a supervisor runs, and this process is not inside the same one. The
/// descendants of a command stay below its supervisor, which inherits orphans; the mark finds one whose supervisor died,
/// unless it has cleared its environment.
pub fn is_in_call(pid: u32) -> bool {
    let own = ancestors(std::process::id());
    let own_mark = mark(std::process::id());
    let is_other = |at: &u32| is_supervisor(*at) || mark(*at).is_some_and(|of| Some(of) != own_mark);
    ancestors(pid).iter().filter(|at| !own.contains(at)).any(is_other)
}

/// A process and those above it, the nearest first.
fn ancestors(pid: u32) -> Vec<u32> {
    let above = |pid: &u32| {
        let (parent, _) = parent_and_group(Pid::from_raw(i32::try_from(*pid).ok()?)?)?;
        u32::try_from(parent).ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(pid), above).collect()
}

/// The mark of a command in the environment that a process was started with.
fn mark(pid: u32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let name = format!("{MARK}=");
    environment.split(|byte| *byte == 0).find(|variable| variable.starts_with(name.as_bytes())).map(<[u8]>::to_vec)
}

/// Whether a process is a supervisor: this program, started as one.
fn is_supervisor(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"supervise")
        && program(pid).is_some_and(|of| program_here() == Some(of))
}

fn program_here() -> Option<String> {
    program(std::process::id())
}

/// The name of the file that a process runs. The file of an older version may have been replaced.
fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_str()?;
    Some(name.strip_suffix(" (deleted)").unwrap_or(name).to_owned())
}

fn descendants() -> Vec<Descendant> {
    let mut children: BTreeMap<i32, Vec<Descendant>> = BTreeMap::new();
    for pid in all_processes() {
        if let Some((parent, group)) = parent_and_group(pid) {
            children.entry(parent).or_default().push(Descendant { pid, group });
        }
    }
    let mut below = Vec::new();
    let mut seen = BTreeSet::new();
    let mut ahead = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(parent) = ahead.pop() {
        if seen.insert(parent) {
            let here = children.remove(&parent).unwrap_or_default();
            ahead.extend(here.iter().map(|process| process.pid.as_raw_pid()));
            below.extend(here);
        }
    }
    below
}

fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Parses `PID (NAME) STATE PARENT GROUP …`; the name may contain any character, also brackets. None if the process is
/// gone, or has ended and waits to be reaped.
fn parent_and_group(pid: Pid) -> Option<(i32, Pid)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    Some((parent, Pid::from_raw(fields.next()?.parse().ok()?)?))
}
