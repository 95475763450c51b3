//! Finds and signals the processes of a command through /proc. Code that works on Linux only is here and in `watch.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, test_kill_process, wait, waitpid,
};

/// The environment variable that marks every process of a command, so that it can be found after its supervisor died.
pub(crate) const MARK: &str = "SUPERVISED_CALL";

/// The environment variable that names the home of the call, without saying where it is: a copy of a home has the same calls.
pub(crate) const HOME_MARK: &str = "SUPERVISED_HOME";

use super::SUPERVISOR;
use crate::cgroup;
use crate::folder::CallFolder;
use crate::limits::{LINE_TRIES, STAT_BYTES};
use crate::supervisors;

/// A descendant of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descendant {
    pid: Pid,
    group: i32,
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
    let descendants = below(rustix::process::getpid().as_raw_pid());
    // If the group has no member left, its number may belong to another group by now.
    if descendants.iter().any(|process| process.group == main.as_raw_pid()) {
        let _ = kill_process_group(main, signal);
    }
    for process in descendants.iter().filter(|process| process.group != main.as_raw_pid()) {
        // The process may have ended meanwhile.
        let _ = kill_process(process.pid, signal);
    }
}

/// The ids of the descendants.
pub(crate) fn survivors() -> Vec<i32> {
    below(rustix::process::getpid().as_raw_pid()).iter().map(|process| process.pid.as_raw_pid()).collect()
}

/// Kills every process with the marks of this call, after its supervisor was killed.
/// Returns whether there was one.
pub(crate) fn kill_marked(call: &CallFolder) -> bool {
    let (mark, home) = (format!("{MARK}={}", call.name()), format!("{HOME_MARK}={}", cgroup::home(call.parent())));
    let names_home = format!("{HOME_MARK}=");
    let mut found = false;
    for pid in all_processes() {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let is_marked = variables.clone().any(|variable| variable == mark.as_bytes());
        // Commands of older programs do not name their home.
        let of = variables.find(|variable| variable.starts_with(names_home.as_bytes()));
        if is_marked && of.is_none_or(|of| of == home.as_bytes()) {
            found |= Status::of(pid).is_some_and(|status| !status.is_zombie);
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    found
}

/// Kills what this process has inherited: its children that it has not started, with all below them. What a command leaves
/// has a session of its own, or that of its supervisor, and can never enter that of this process. Reaps each by its id.
/// Returns whether one still lives.
pub(crate) fn kill_adopted() -> bool {
    let this = rustix::process::getpid();
    let session = own_session();
    supervisors::with_living(|started| {
        let mut found = false;
        for pid in all_processes() {
            let Some(status) = Status::of(pid) else { continue };
            let is_adopted = status.parent == this.as_raw_pid() && status.session != session;
            if !is_adopted || started.contains(&pid.as_raw_pid()) {
                continue;
            }
            if !status.is_zombie {
                found = true;
                kill_below(pid.as_raw_pid());
                kill(pid.as_raw_pid());
            }
            // Another thread may reap a supervisor that has just ended; then there is nothing to reap.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        found
    })
}

/// Kills everything below a process; returns whether there was anything.
pub(crate) fn kill_below(pid: i32) -> bool {
    let below = below(pid);
    for process in &below {
        let _ = kill_process(process.pid, Signal::KILL);
    }
    !below.is_empty()
}

/// Kills a process, which may be gone.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Continues a process that is stopped.
pub(crate) fn resume_stopped(pid: i32) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    if Status::of(pid).is_some_and(|status| status.is_stopped) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// The supervisors of this folder that another process started, by their command lines.
pub(crate) fn supervisors_of(folder: &CallFolder) -> Vec<i32> {
    // One of an older version has the path.
    let (token, path) = (cgroup::token(folder), folder.path().as_os_str().as_bytes());
    let is_its = |pid: &Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let is_supervisor = words.next() == Some(b"supervise");
        is_supervisor && words.next().is_some_and(|word| word == token.as_bytes() || word == path)
    };
    all_processes().filter(is_its).map(Pid::as_raw_pid).collect()
}

/// Whether a process is inside a command that a supervisor runs, and this process is not inside the same one. The
/// descendants of a command stay below its supervisor, which inherits orphans; the mark finds one whose supervisor died,
/// unless it has cleared its environment.
///
/// What descends from this process is inside a command too, or was left by one: this process starts nothing but supervisors.
pub fn is_in_call(pid: u32) -> bool {
    let this = std::process::id();
    // Whatever moves so often that nobody can see where it is is no client.
    let Some(above) = (0..LINE_TRIES).find_map(|_| whole_line(pid)) else { return true };
    let own = ancestors(this);
    if pid != this && above.contains(&this) {
        return true;
    }
    let own_mark = mark(this);
    let is_other = |at: &u32| is_supervisor(*at) || mark(*at).is_some_and(|of| Some(of) != own_mark);
    above.iter().filter(|at| !own.contains(at)).any(is_other)
}

/// Whether this process is inside a call whose record is in this folder of calls.
pub fn is_here_in_call_of(calls: &Path) -> bool {
    let names: Vec<_> = fs::read_dir(calls).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    let prefix = format!("{MARK}=");
    ancestors(std::process::id()).into_iter().any(|pid| {
        let marked = mark(pid).is_some_and(|mark| names.iter().any(|name| name.as_bytes() == &mark[prefix.len()..]));
        let begins = |word: &str| names.iter().any(|name| word.starts_with(&format!("{}.", name.to_string_lossy())));
        marked || is_supervisor(pid) && call_of_supervisor(pid).is_some_and(|word| begins(&word))
    })
}

/// The argument of a supervisor, which begins with the name of its call.
fn call_of_supervisor(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    line.split(|byte| *byte == 0).nth(2).map(|word| String::from_utf8_lossy(word).into_owned())
}

/// The parent and the start of a process. As long as they are the same, it is in the same command or in none: an orphan goes
/// to a process that was above it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessOrigin {
    parent: i32,
    /// Clock ticks since the boot.
    started: u64,
}

impl ProcessOrigin {
    /// That of a process; none if it has exited.
    pub fn of(pid: u32) -> Option<Self> {
        let Status { parent, started, .. } = Status::of(Pid::from_raw(i32::try_from(pid).ok()?)?)?;
        Some(Self { parent, started })
    }
}

/// The same as [`ancestors`]; none if one of them exited meanwhile, so that those above it are not known. Where the system
/// hides the processes of other users, those count as the end.
fn whole_line(pid: u32) -> Option<Vec<u32>> {
    let line = ancestors(pid);
    let last = Pid::from_raw(i32::try_from(*line.last()?).ok()?)?;
    let next = match parent_and_group(last) {
        Some((parent, _)) => Pid::from_raw(parent),
        None => Some(last),
    };
    let is_end = next.is_none_or(|next| test_kill_process(next) == Err(Errno::PERM));
    is_end.then_some(line)
}

/// A process and those above it, the nearest first.
pub(super) fn ancestors(pid: u32) -> Vec<u32> {
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

/// Whether a process is a supervisor, by its command line: a supervisor hides what it executes. A process that pretends to be
/// one only loses what commands may not do.
fn is_supervisor(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let name = words.next().unwrap_or_default();
    // A supervisor of an older version has the name of the program.
    let is_named = name == SUPERVISOR.as_bytes() || {
        let name = Path::new(OsStr::from_bytes(name)).file_name().and_then(OsStr::to_str);
        name.is_some() && name == program_here().as_deref()
    };
    is_named && words.next() == Some(b"supervise")
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

/// All that descends from a process.
fn below(root: i32) -> Vec<Descendant> {
    let mut children: BTreeMap<i32, Vec<Descendant>> = BTreeMap::new();
    for pid in all_processes() {
        if let Some((parent, group)) = parent_and_group(pid) {
            children.entry(parent).or_default().push(Descendant { pid, group });
        }
    }
    let mut below = Vec::new();
    let mut seen = BTreeSet::new();
    let mut ahead = vec![root];
    while let Some(parent) = ahead.pop() {
        if seen.insert(parent) {
            let here = children.remove(&parent).unwrap_or_default();
            ahead.extend(here.iter().map(|process| process.pid.as_raw_pid()));
            below.extend(here);
        }
    }
    below
}

pub(super) fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// None if the process is gone, or has ended and waits to be reaped.
fn parent_and_group(pid: Pid) -> Option<(i32, i32)> {
    let status = Status::of(pid).filter(|status| !status.is_zombie)?;
    Some((status.parent, status.group))
}

/// The number of this process' session; 0 if its leader is outside the container (the PID namespace), as it is for what was
/// started there from outside.
pub(super) fn own_session() -> i32 {
    Status::of(rustix::process::getpid()).map_or(0, |status| status.session)
}

/// What the system says of a process.
pub(super) struct Status {
    pub(super) is_zombie: bool,
    is_stopped: bool,
    parent: i32,
    group: i32,
    pub(super) session: i32,
    /// Clock ticks since the boot.
    pub(super) started: u64,
}

impl Status {
    /// Parses `PID (NAME) STATE PARENT GROUP SESSION … STARTED …`; the name may contain any character, also brackets.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        // One read gives all of it; whoever does not know the length, as here, would read it in many pieces.
        let mut stat = [0; STAT_BYTES];
        let read = fs::File::open(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?.read(&mut stat).ok()?;
        let stat = String::from_utf8_lossy(&stat[..read]);
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        let state = fields.next()?;
        Some(Self {
            is_zombie: matches!(state, "Z" | "X"),
            is_stopped: matches!(state, "T" | "t"),
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
            started: fields.nth(15)?.parse().ok()?,
        })
    }
}
