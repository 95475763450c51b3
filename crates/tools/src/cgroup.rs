//! The cgroup of a call (cgroup v2). What is in it can be ended all at once, however it hides, also after the supervisor was
//! killed. It exists only where this process may create a cgroup below its own: as a service with `Delegate=yes`, in a
//! container, as root.
//!
//! Its name is made from the call's own name and from the folder of calls, so that another call, another home or a copy of
//! this home is never meant. A recorded path with any other name is not believed.
//!
//! Where the kernel counts memory by cgroups v2, and a cgroup that can limit it is delegated to this user, it also limits what all
//! processes of a command use together.

mod limits;
mod place;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{OFlags, fstat};
use rustix::process::geteuid;

use crate::folder::CallFolder;
use crate::limits::CGROUP_FOLDERS;

pub(crate) use limits::{Exceeded, memory_bytes};
use place::Above;
#[cfg(test)]
use place::Place;

/// The beginning of the name of each cgroup of a call.
const PREFIX: &str = "limulus.";

/// A cgroup into which the command of a call starts.
#[derive(Debug)]
pub(crate) struct CallCgroup {
    folder: PathBuf,
    /// `cgroup.procs` of the cgroup itself, and of the one in which its supervisor stays.
    inside: File,
    outside: File,
    /// Bytes of memory that it may use; none if that is not limited.
    memory: Option<u64>,
    exceeded: Cell<Option<Exceeded>>,
}

impl CallCgroup {
    /// Creates the cgroup of a call; none if that is not possible here. `memory` are the bytes that it may use.
    fn make(call: &CallFolder, memory: Option<u64>) -> Option<Self> {
        let above = Above::here()?;
        // Without it this process could not leave the cgroup of the call any more.
        let outside = OpenOptions::new().write(true).open(above.place.folder().join("cgroup.procs")).ok()?;
        let (folder, inside) = above.folders().iter().find_map(|folder| made(&folder.join(name(call))))?;
        let memory = memory.filter(|bytes| above.limits.is_ok() && limits::set(&folder, *bytes));
        Some(Self { folder, inside, outside, memory, exceeded: Cell::new(None) })
    }

    /// Starts a command inside a new cgroup. Only the supervisor's own place decides where its command is born, so this process
    /// is in the cgroup for that moment.
    pub(crate) fn around<T>(
        call: &CallFolder,
        memory: Option<u64>,
        start: impl FnOnce() -> io::Result<T>,
    ) -> (io::Result<T>, Option<Self>) {
        let Some(cgroup) = Self::make(call, memory) else { return (start(), None) };
        let has_entered = cgroup.enter();
        let started = start();
        let has_left = !has_entered || cgroup.leave();
        if has_left && (!has_entered || started.is_err()) {
            remove(&cgroup.folder);
            return (started, None);
        }
        // If it could not leave, it would end itself with the command.
        (started, has_left.then_some(cgroup))
    }

    fn enter(&self) -> bool {
        (&self.inside).write_all(b"0").is_ok()
    }

    fn leave(&self) -> bool {
        (&self.outside).write_all(b"0").is_ok()
    }

    /// Kills all that is in it, or removes it if it is empty. Returns whether something is in it.
    pub(crate) fn end(&self) -> bool {
        if let Some(exceeded) = self.memory.and_then(|bytes| limits::exceeded(&self.folder, bytes)) {
            self.exceeded.set(Some(exceeded));
        }
        end(&self.folder)
    }

    /// The limit that its command ran into, as far as it was seen before it was removed.
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }
}

/// The folder of a new cgroup and its `cgroup.procs`; none if it cannot be had, or not be ended.
fn made(folder: &Path) -> Option<(PathBuf, File)> {
    // One of this name is from a supervisor of the same call that did not get it.
    let _ = fs::create_dir(folder);
    let can_kill = folder.join("cgroup.kill").exists();
    match OpenOptions::new().write(true).open(folder.join("cgroup.procs")) {
        Ok(inside) if can_kill => Some((folder.to_owned(), inside)),
        _ => {
            let _ = fs::remove_dir(folder);
            None
        }
    }
}

/// Whether the memory of commands can be limited here, found out by doing it with an empty cgroup; why not.
pub(crate) fn try_limits() -> Result<(), String> {
    let above = Above::here().ok_or("there is no cgroup v2")?;
    above.limits?;
    let folder = above.place.at(&above.path).join(format!("{PREFIX}check-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| format!("no cgroup can be made: {error}"))?;
    let is_limited = limits::set(&folder, limits::MIB);
    remove(&folder);
    if is_limited { Ok(()) } else { Err("the kernel takes no limit of memory".to_owned()) }
}

/// Where the cgroup of a call would be if this process made it, as a supervisor records it.
pub(crate) fn planned(call: &CallFolder) -> Option<String> {
    Some(Above::here()?.path.join(name(call)).to_str()?.to_owned())
}

/// Kills all that is in the cgroup of a call, and removes it once it is empty. `recorded` is what the call's folder says.
/// Returns whether something was in it.
pub(crate) fn end_of(call: &CallFolder, recorded: Option<&str>) -> bool {
    candidates(call, recorded).iter().filter(|folder| end(folder)).count() > 0
}

/// Whether the cgroup of a call is there.
pub(crate) fn exists(call: &CallFolder) -> bool {
    candidates(call, None).iter().any(|folder| folder.is_dir())
}

/// Removes what earlier calls of this folder left below the cgroup of this process and what is empty.
pub(crate) fn remove_empty(calls: &Path) {
    let Some(above) = Above::here() else { return };
    let suffix = format!(".{}", home(calls));
    let entries = above.folders().into_iter().flat_map(fs::read_dir).flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(&suffix)) {
            // The kernel refuses it while a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The call's name and its home, as one word that tells nothing of where the home is.
pub(crate) fn token(call: &CallFolder) -> String {
    format!("{}.{}", call.name(), home(call.parent()))
}

fn name(call: &CallFolder) -> String {
    format!("{PREFIX}{}", token(call))
}

/// A word for the home of this folder of calls.
pub(crate) fn home(calls: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    blake3::hash(calls.as_os_str().as_bytes()).to_hex()[..16].to_owned()
}

/// The places at which the cgroup of a call may be: where this process would make it, below this process' own, and where its
/// folder says, if that has its name.
fn candidates(call: &CallFolder, recorded: Option<&str>) -> Vec<PathBuf> {
    let Some(above) = Above::here() else { return vec![] };
    let own = &above.place;
    let name = name(call);
    let (here, below) = (above.path.join(&name), own.path.join(&name));
    let below = Some(below).filter(|below| *below != here);
    let recorded = recorded.map(PathBuf::from).filter(|path| {
        let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        path.is_absolute() && is_plain && path.ends_with(&name) && *path != here && below.as_ref() != Some(path)
    });
    // One that this process is in would end this process too.
    let is_other = |path: &PathBuf| !own.path.starts_with(path);
    let paths = std::iter::once(here).chain(below.clone()).chain(recorded).filter(is_other);
    paths.map(|path| own.at(&path)).collect()
}

/// Kills what is in a cgroup of this user, or removes the cgroup if nothing is. Returns whether something is in it.
fn end(folder: &Path) -> bool {
    let events = fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
    if events.lines().any(|line| line == "populated 1") {
        return kill(folder);
    }
    remove(folder);
    false
}

/// Returns false if it cannot be killed by this process.
fn kill(folder: &Path) -> bool {
    let opened =
        rustix::fs::open(folder.join("cgroup.kill"), OFlags::WRONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let Ok(file) = opened else { return false };
    let is_own = fstat(&file).is_ok_and(|stat| stat.st_uid == geteuid().as_raw());
    is_own && File::from(file).write_all(b"1").is_ok()
}

/// Removes a cgroup and those that its command has made below it.
fn remove(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    let mut at = 0;
    while at < folders.len() && folders.len() < CGROUP_FOLDERS {
        let below = fs::read_dir(&folders[at]).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
        at += 1;
    }
    for folder in folders.iter().rev() {
        // It may be gone, or have a process again.
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 0:22 / /proc rw - proc proc rw\n\
                          31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn own(mounts: &str, cgroups: &str) -> Option<PathBuf> {
        Place::parsed(mounts, cgroups).map(|place| place.folder())
    }

    /// R67: the limit is tried as a command would get it, or it is said why there is none.
    #[test]
    fn r67_a_cgroup_of_a_call_limits_its_memory_or_says_why_not() {
        let parent = tempfile::tempdir().unwrap();
        let call = CallFolder::at(parent.path().join("one"));
        let tried = try_limits();
        let (started, cgroup) = CallCgroup::around(&call, Some(64 * limits::MIB), || {
            // All that it fills is its own memory.
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"]);
            if tried.is_ok() { command.spawn().map(Some) } else { Ok(None) }
        });
        let limited = cgroup.as_ref().and_then(|cgroup| cgroup.memory);
        if let Err(reason) = tried {
            eprintln!("the memory of commands is not limited here: {reason}");
            assert_eq!(limited, None, "{reason}");
        } else {
            assert_eq!(limited, Some(64 * limits::MIB));
            assert!(!started.unwrap().unwrap().wait().unwrap().success());
            let cgroup = cgroup.as_ref().unwrap();
            assert!(!cgroup.end());
            assert_eq!(cgroup.exceeded(), Some(Exceeded::MemoryMib(64)));
        }
        if let Some(cgroup) = cgroup {
            cgroup.end();
            assert!(!cgroup.folder.exists(), "it goes with its command");
        }
    }

    #[test]
    fn the_own_cgroup_is_found_where_it_is_mounted() {
        let found = |cgroups| own(MOUNTS, cgroups).map(|path| path.display().to_string());
        let expected = Some("/sys/fs/cgroup/user.slice/a.service".to_owned());
        assert_eq!(found("1:name=systemd:/x\n0::/user.slice/a.service\n"), expected);
        assert_eq!(found("0::/\n"), Some("/sys/fs/cgroup/".to_owned()));
        assert_eq!(found("1:name=systemd:/x\n"), None, "cgroup v1 alone");
        assert_eq!(found("0::/../outside\n"), None, "outside what can be seen");
        let part = MOUNTS.replace("0:27 / ", "0:27 /docker/1 ");
        assert_eq!(own(&part, "0::/docker/1/app\n"), Some(PathBuf::from("/sys/fs/cgroup/app")));
        assert_eq!(own(&part, "0::/other\n"), None);
        assert_eq!(own("24 1 0:22 / /proc rw - proc proc rw\n", "0::/\n"), None);
    }

    /// R15: whatever a command writes as the place of its cgroup, only one with the name of its call is killed.
    #[test]
    fn r15_a_recorded_cgroup_of_another_name_is_not_believed() {
        let Some(above) = Above::here() else { return eprintln!("skipped: there is no cgroup v2") };
        let own = &above.place;
        let call = CallFolder::at("/home/calls/one");
        let here: Vec<PathBuf> = above.folders().iter().map(|folder| folder.join(name(&call))).collect();
        assert_eq!(candidates(&call, None), here);
        let good = format!("/some.slice/{}", name(&call));
        assert_eq!(candidates(&call, Some(&good)), [&here[..], &[own.at(Path::new(&good))]].concat());
        let other = CallFolder::at("/home/calls/two");
        for forged in [
            "/".to_owned(),
            String::new(),
            "/user.slice".to_owned(),
            own.path.display().to_string(),
            format!("/user.slice/{}", name(&other)),
            format!("/user.slice/{}", name(&CallFolder::at("/copy/calls/one"))),
            format!("/{}/..", name(&call)),
            format!("/{}/../user.slice", name(&call)),
            format!("/x/../{}", name(&call)),
            format!("/{}/inner", name(&call)),
            format!("/x{}", name(&call)),
            name(&call),
            format!("../{}", name(&call)),
            format!("/\0/{}", name(&call)).replace('\0', ".."),
        ] {
            assert_eq!(candidates(&call, Some(&forged)), here, "{forged}");
        }
    }

    /// R15: an owner removes what is empty of its own calls, and nothing else.
    #[test]
    fn r15_empty_cgroups_of_earlier_calls_are_removed() {
        let Some(own) = Place::own() else { return eprintln!("skipped: there is no cgroup v2") };
        let calls = tempfile::tempdir().unwrap();
        let of = |call: PathBuf| own.at(&own.path.join(name(&CallFolder::at(call))));
        let (left, other) = (of(calls.path().join("one")), of(calls.path().join("other/one")));
        if fs::create_dir(&left).is_err() {
            return eprintln!("skipped: no cgroup can be created here");
        }
        fs::create_dir(&other).unwrap();
        remove_empty(calls.path());
        let are_there = (left.exists(), other.exists());
        fs::remove_dir(&other).unwrap();
        assert_eq!(are_there, (false, true));
    }
}
