//! The cgroup of a call (cgroup v2). What is in it can be ended all at once, however it hides, also after the supervisor was
//! killed. It exists only where this process may create a cgroup below its own: as a service with `Delegate=yes`, in a
//! container, as root.
//!
//! Its name is made from the call's own name and from the folder of calls, so that another call, another home or a copy of
//! this home is never meant. A recorded path with any other name is not believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{OFlags, fstat};
use rustix::process::geteuid;

use crate::folder::CallFolder;
use crate::limits::CGROUP_FOLDERS;

/// The beginning of the name of each cgroup of a call.
const PREFIX: &str = "limulus.";

/// A cgroup into which the command of a call starts.
#[derive(Debug)]
pub(crate) struct CallCgroup {
    folder: PathBuf,
    /// `cgroup.procs` of the cgroup itself, and of the one in which its supervisor stays.
    inside: File,
    outside: File,
}

impl CallCgroup {
    /// Creates the cgroup of a call below that of this process; none if that is not possible here.
    fn make(call: &CallFolder) -> Option<Self> {
        let own = Place::own()?.folder();
        let folder = own.join(name(call));
        // Without it this process could not leave the cgroup of the call any more.
        let outside = OpenOptions::new().write(true).open(own.join("cgroup.procs")).ok()?;
        // One of this name is from a supervisor of the same call that did not get it.
        let _ = fs::create_dir(&folder);
        let can_kill = folder.join("cgroup.kill").exists();
        match OpenOptions::new().write(true).open(folder.join("cgroup.procs")) {
            Ok(inside) if can_kill => Some(Self { folder, inside, outside }),
            _ => {
                let _ = fs::remove_dir(&folder);
                None
            }
        }
    }

    /// Starts a command inside a new cgroup. Only the supervisor's own place decides where its command is born, so this process
    /// is in the cgroup for that moment.
    pub(crate) fn around<T>(call: &CallFolder, start: impl FnOnce() -> io::Result<T>) -> (io::Result<T>, Option<Self>) {
        let Some(cgroup) = Self::make(call) else { return (start(), None) };
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
        end(&self.folder)
    }
}

/// Where the cgroup of a call would be if this process made it, as a supervisor records it.
pub(crate) fn planned(call: &CallFolder) -> Option<String> {
    Some(Place::own()?.path.join(name(call)).to_str()?.to_owned())
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
    let Some(own) = Place::own() else { return };
    let suffix = format!(".{}", home(calls));
    for entry in fs::read_dir(own.folder()).into_iter().flatten().flatten() {
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

fn home(calls: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    blake3::hash(calls.as_os_str().as_bytes()).to_hex()[..16].to_owned()
}

/// The places at which the cgroup of a call may be: below this process' own, and where its folder says, if that has its name.
fn candidates(call: &CallFolder, recorded: Option<&str>) -> Vec<PathBuf> {
    let Some(own) = Place::own() else { return vec![] };
    let name = name(call);
    let here = own.path.join(&name);
    let recorded = recorded.map(PathBuf::from).filter(|path| {
        let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        path.is_absolute() && is_plain && path.ends_with(&name) && *path != here
    });
    // One that this process is in would end this process too.
    let is_other = |path: &PathBuf| !own.path.starts_with(path);
    let paths = std::iter::once(here).chain(recorded).filter(is_other);
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

/// A place in the hierarchy of cgroups.
struct Place {
    /// Where the hierarchy is mounted, and which of its cgroups is seen there.
    mount: PathBuf,
    root: PathBuf,
    path: PathBuf,
}

impl Place {
    /// The cgroup of this process; none if there is no cgroup v2.
    fn own() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::parsed(&mounts, &cgroups)
    }

    fn parsed(mounts: &str, cgroups: &str) -> Option<Self> {
        let path = PathBuf::from(cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
        let mounts = mounts.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut fields = left.split(' ').skip(3);
            let (root, mount) = (fields.next()?, fields.next()?);
            // A backslash would begin an escape.
            let is_plain = right.starts_with("cgroup2 ") && !line.contains('\\');
            is_plain.then(|| (PathBuf::from(root), PathBuf::from(mount)))
        });
        let is_within = |path: &Path| path.components().all(|part| part != Component::ParentDir);
        let (root, mount) = mounts.into_iter().find(|(root, _)| path.starts_with(root))?;
        is_within(&path).then_some(Self { mount, root, path })
    }

    /// The folder of another cgroup.
    fn at(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.root).unwrap_or(Path::new("not-mounted"));
        self.mount.join(below)
    }

    fn folder(&self) -> PathBuf {
        self.at(&self.path)
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
        let Some(own) = Place::own() else { return eprintln!("skipped: there is no cgroup v2") };
        let call = CallFolder::at("/home/calls/one");
        let here = own.at(&own.path.join(name(&call)));
        assert_eq!(candidates(&call, None), std::slice::from_ref(&here));
        let good = format!("/some.slice/{}", name(&call));
        assert_eq!(candidates(&call, Some(&good)), [here.clone(), own.at(Path::new(&good))]);
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
            assert_eq!(candidates(&call, Some(&forged)), std::slice::from_ref(&here), "{forged}");
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
