//! Where in the hierarchy of cgroups this process is, and below which cgroup those of calls are.
//!
//! The kernel limits memory only in a cgroup whose parent hands the controller on, and a cgroup with processes of its own cannot do
//! so. So the cgroup of a call may have to be beside the one of this process, below one that is delegated to the same user.

use std::fs;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access, getxattr, stat};
use rustix::process::geteuid;

/// What a cgroup has to hand on for limits of memory; the other one limits how many processes there are.
const CONTROLLERS: [&str; 2] = ["+memory", "+pids"];
/// The marks of systemd on a cgroup that it leaves to its user.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// A place in the hierarchy of cgroups.
pub(super) struct Place {
    /// Where the hierarchy is mounted, and which of its cgroups is seen there.
    mount: PathBuf,
    root: PathBuf,
    pub(super) path: PathBuf,
}

impl Place {
    /// The cgroup of this process; none if there is no cgroup v2.
    pub(super) fn own() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::parsed(&mounts, &cgroups)
    }

    pub(super) fn parsed(mounts: &str, cgroups: &str) -> Option<Self> {
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
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.root).unwrap_or(Path::new("not-mounted"));
        self.mount.join(below)
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.at(&self.path)
    }
}

/// The cgroup below which those of calls are.
pub(super) struct Above {
    pub(super) place: Place,
    pub(super) path: PathBuf,
    /// Whether it can limit what is in them; why not.
    pub(super) limits: Result<(), &'static str>,
}

impl Above {
    /// That of this process; none if there is no cgroup v2.
    pub(super) fn here() -> Option<Self> {
        Place::own().map(Self::of)
    }

    /// The nearest one that can limit memory, or else the one of the process itself.
    fn of(place: Place) -> Self {
        let around = place.path.ancestors().filter(|path| path.starts_with(&place.root));
        let mut delegated = around.filter(|path| is_delegated(&place.at(path), **path == place.path));
        let (path, limits) = match delegated.find(|path| hands_on_memory(&place.at(path))) {
            Some(path) => (path.to_owned(), Ok(())),
            None if !has(&place.at(&place.root), "cgroup.controllers") => {
                (place.path.clone(), Err("the memory of processes is not counted by cgroup v2 here"))
            }
            None => (place.path.clone(), Err("no cgroup that could limit memory is delegated to this user")),
        };
        Self { place, path, limits }
    }

    /// The folder in which the cgroups of calls are, and that of this process itself, where those of another owner may be.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let own = (self.path != self.place.path).then(|| self.place.folder());
        std::iter::once(self.place.at(&self.path)).chain(own).collect()
    }
}

/// Whether this user may make cgroups there and move processes into them. Root could everywhere, also where somebody else rules.
fn is_delegated(folder: &Path, is_own: bool) -> bool {
    let can_write = |name: &str| access(folder.join(name), Access::WRITE_OK).is_ok();
    let user = geteuid();
    let is_of_user = || !user.is_root() && stat(folder).is_ok_and(|found| found.st_uid == user.as_raw());
    let is_marked = || DELEGATED.iter().any(|name| getxattr(folder, *name, &mut [0_u8; 4]) == Ok(1));
    can_write("") && can_write("cgroup.procs") && (is_own || is_of_user() || is_marked())
}

/// Whether a cgroup hands the controller of memory on, if need be from now on.
fn hands_on_memory(folder: &Path) -> bool {
    let ask = |what: &str| fs::write(folder.join("cgroup.subtree_control"), what).is_ok();
    let is_so = has(folder, "cgroup.subtree_control") || has(folder, "cgroup.controllers") && ask(CONTROLLERS[0]);
    // It is only one more protection.
    let _ = is_so && ask(CONTROLLERS[1]);
    is_so
}

/// Whether the controller of memory is in a list.
fn has(folder: &Path, list: &str) -> bool {
    fs::read_to_string(folder.join(list)).unwrap_or_default().split_whitespace().any(|name| name == "memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy of files: `/`, `/user` with the service of the user, and `/user/service` with this process.
    fn hierarchy(handed_on: [&str; 3]) -> (tempfile::TempDir, Above) {
        let mount = tempfile::tempdir().unwrap();
        for (path, handed_on) in ["", "user", "user/service"].into_iter().zip(handed_on) {
            let folder = mount.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.procs"), "").unwrap();
            fs::write(folder.join("cgroup.controllers"), if handed_on == "none" { "cpu" } else { "cpu memory" })
                .unwrap();
            if handed_on == "busy" {
                // The kernel refuses it while processes are in there.
                fs::create_dir(folder.join("cgroup.subtree_control")).unwrap();
            } else {
                fs::write(folder.join("cgroup.subtree_control"), handed_on).unwrap();
            }
        }
        let own = Place { mount: mount.path().to_owned(), root: "/".into(), path: "/user/service".into() };
        let above = Above::of(own);
        (mount, above)
    }

    /// R67: the cgroup of a call is where its memory can be limited.
    #[test]
    fn r67_the_nearest_delegated_cgroup_that_limits_memory_is_found() {
        let (mount, own) = hierarchy(["memory", "memory", "cpu memory pids"]);
        assert_eq!((own.path.to_str(), own.limits), (Some("/user/service"), Ok(())));
        assert_eq!(own.folders(), [mount.path().join("user/service")]);
        let (mount, enabled) = hierarchy(["memory", "memory", "cpu"]);
        assert_eq!((enabled.path.to_str(), enabled.limits), (Some("/user/service"), Ok(())));
        let written = fs::read_to_string(mount.path().join("user/service/cgroup.subtree_control")).unwrap();
        assert!(CONTROLLERS.contains(&written.as_str()), "{written}");
        // A user has what belongs to it, root only what is marked.
        let (mount, beside) = hierarchy(["none", "memory", "busy"]);
        let marked =
            rustix::fs::setxattr(mount.path().join("user"), DELEGATED[0], b"1", rustix::fs::XattrFlags::empty());
        if geteuid().is_root() {
            assert_eq!((beside.path.to_str(), beside.limits.is_err()), (Some("/user/service"), true));
        }
        if marked.is_ok() || !geteuid().is_root() {
            let beside = Above::of(beside.place);
            assert_eq!((beside.path.to_str(), beside.limits), (Some("/user"), Ok(())));
            assert_eq!(beside.folders(), ["user", "user/service"].map(|path| mount.path().join(path)));
        }
    }

    /// R67: where memory cannot be limited, it is said why.
    #[test]
    fn r67_why_memory_is_not_limited_is_known() {
        let (_mount, uncounted) = hierarchy(["none"; 3]);
        assert_eq!(uncounted.limits, Err("the memory of processes is not counted by cgroup v2 here"));
        let (_mount, busy) = hierarchy(["busy"; 3]);
        assert_eq!(busy.limits, Err("no cgroup that could limit memory is delegated to this user"));
        assert_eq!(busy.path.to_str(), Some("/user/service"));
    }
}
