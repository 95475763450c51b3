//! Resolves the paths that a model writes. Every tool resolves its paths here, so that the policy and the tool use the
//! same file. `openat.rs` then opens the resolved path and follows no link.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use engine::Policy;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::changes::FileStore;
use crate::error::ToolError;
use crate::guard::{Guard, Protected};
use crate::limits::{LINKS, LISTED_BYTES, PATH_BYTES};
use crate::openat;
use crate::policy_rules::CallRules;

/// A path with every link resolved.
#[derive(Debug, Clone)]
pub struct ResolvedPath {
    /// Absolute, without `.`, `..` or links; it need not exist.
    pub(crate) real: PathBuf,
    /// Whether the path is in the workspace.
    pub(crate) inside: bool,
    /// The path for people and models: relative if it is inside the workspace.
    pub(crate) shown: String,
    /// The folder from which it is opened: the workspace, or `/`.
    pub(crate) base: Arc<OwnedFd>,
    /// The path relative to `base`.
    pub(crate) relative: PathBuf,
    /// Judges what is opened at this path.
    pub(crate) guard: Arc<Guard>,
}

/// The folder that an agent works in, held open while a call is checked or run, so that it stays the same folder if its
/// path changes; and the paths outside it that the call may access.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Its path, with links resolved.
    pub(crate) root: PathBuf,
    folder: Arc<OwnedFd>,
    guard: Arc<Guard>,
    /// Paths outside the workspace, and files that other programs run, that the check of the call recorded and the policy
    /// allowed.
    allowed: Vec<PathBuf>,
    /// Where contents are kept before they are changed; none for what changes nothing.
    store: Option<FileStore>,
    /// The rules on what the tool of the call may come to; none while a call is checked, which judges what it names.
    rules: Option<(CallRules, String)>,
}

impl Workspace {
    /// Opens the workspace, with no path outside allowed. An error if it is protected itself.
    pub(crate) fn open(path: &Path, protected: &Protected) -> Result<Self, ToolError> {
        let wrong = |source| ToolError::Workspace { path: path.display().to_string(), source };
        let (root, folder) = if let Some(folder) = hold_as_written(path) {
            (path.to_owned(), folder)
        } else {
            let folder = hold(path).map_err(wrong)?;
            (place_of(&folder).or_else(|_| fs::canonicalize(path)).map_err(wrong)?, folder)
        };
        let guard = Guard::of(protected, Some(&root));
        guard.folder(&folder).map_err(wrong)?;
        Ok(Self {
            root,
            folder: Arc::new(folder),
            guard: Arc::new(guard),
            allowed: Vec::new(),
            store: None,
            rules: None,
        })
    }

    /// Another folder, whose path contains no links, with what was found out about the first one. An error if it is protected.
    pub(crate) fn in_folder(&self, root: &Path) -> io::Result<Self> {
        let folder = hold_as_written(root).ok_or(io::ErrorKind::NotFound)?;
        self.guard.folder(&folder)?;
        Ok(Self { root: root.to_owned(), folder: Arc::new(folder), ..self.clone() })
    }

    /// Also allows these paths outside the workspace.
    pub(crate) fn with(self, allowed: Vec<PathBuf>) -> Self {
        Self { allowed, ..self }
    }

    /// What the tool comes to is judged by these rules.
    pub(crate) fn judging(self, rules: &CallRules, tool: &str) -> Self {
        Self { rules: Some((rules.clone(), tool.to_owned())), ..self }
    }

    /// Whether the rules let the tool of the call go there. What a person was asked about covers what is below it.
    pub(crate) fn may_come_to(&self, path: &ResolvedPath) -> bool {
        let decided = self.rules.as_ref().and_then(|(rules, tool)| rules.on_path(tool, path));
        match decided {
            None | Some(Policy::Allow) => true,
            Some(Policy::Ask) => self.allowed.iter().any(|allowed| path.real.starts_with(allowed)),
            Some(Policy::Deny) => false,
        }
    }

    /// Whether any rule has to be asked about what the tool of the call comes to.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.as_ref().is_some_and(|(rules, _)| rules.has_any())
    }

    /// Keeps contents here before they are changed.
    pub(crate) fn keeping(self, store: &FileStore) -> Self {
        Self { store: Some(store.clone()), ..self }
    }

    /// Where contents are kept before they are changed.
    pub(crate) fn store(&self) -> Option<&FileStore> {
        self.store.as_ref()
    }

    /// Opens the workspace itself, to list it.
    pub(crate) fn open_root(&self) -> io::Result<OwnedFd> {
        openat::open(&*self.folder, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Whether an open folder may be listed: it does not belong to limulus itself.
    pub(crate) fn may_enter(&self, folder: &OwnedFd) -> bool {
        self.guard.folder(folder).is_ok()
    }

    /// Whether an open file may be read.
    pub(crate) fn may_read(&self, file: &OwnedFd) -> bool {
        self.guard.opened(file).is_ok()
    }

    /// Resolves `given` for a call that runs. The path must be in the workspace or among the allowed paths.
    pub(crate) fn reach(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        let path = self.resolve(given)?;
        if (path.inside || self.allowed.contains(&path.real)) && self.may_come_to(&path) {
            Ok(path)
        } else {
            Err(ToolError::Moved { path: path.shown })
        }
    }

    /// The same for a call that writes: a file that other programs run or load must be among the allowed paths.
    pub(crate) fn reach_to_write(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        let path = self.reach(given)?;
        if path.is_executed() && !self.allowed.contains(&path.real) {
            return Err(ToolError::Moved { path: path.shown });
        }
        Ok(path)
    }

    /// Resolves `given`, which is relative to the workspace, absolute, or relative to the home folder (`~/`). Links,
    /// `.` and
    /// `..` are resolved as the kernel does it; names that do not exist are kept as written.
    pub(crate) fn resolve(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        let path = self.locate(given)?;
        // Before the policy judges it: no policy allows what belongs to limulus. The error does not say where links lead.
        path.must_not_be_own().map_err(ToolError::file("open", given))?;
        Ok(path)
    }

    /// The same for a path that nothing is decided by: it is judged when it is opened.
    pub(crate) fn locate(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        let bad = |reason| {
            let shown = &given[..given.floor_char_boundary(LISTED_BYTES)];
            let rest = if shown.len() < given.len() { "…" } else { "" };
            ToolError::BadPath { path: format!("{}{rest}", shown.escape_default()), reason }
        };
        if given.is_empty() {
            return Err(bad("it is empty"));
        }
        if given.len() > PATH_BYTES {
            return Err(bad("it is longer than 4096 bytes, and no file has such a path"));
        }
        if given.contains('\0') {
            return Err(bad("it has a zero byte in it"));
        }
        let real = follow_links(&self.root, &expand_home(given)).ok_or_else(|| bad("its links form a loop"))?;
        let guard = Arc::clone(&self.guard);
        let path = if let Ok(relative) = real.strip_prefix(&self.root) {
            let shown = if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() };
            let (relative, base) = (relative.to_owned(), Arc::clone(&self.folder));
            ResolvedPath { inside: true, shown, base, relative, real, guard }
        } else if real.to_str().is_some() {
            let base = Arc::new(hold(Path::new("/")).map_err(ToolError::file("open", "/"))?);
            let relative = real.strip_prefix("/").unwrap_or(&real).to_owned();
            ResolvedPath { inside: false, shown: real.display().to_string(), base, relative, real, guard }
        } else {
            return Err(bad("it resolves to a name that is not UTF-8"));
        };
        Ok(path)
    }

    /// The path of an entry that a walk found at `real`, below `folder`.
    pub(crate) fn below(&self, folder: &ResolvedPath, real: &Path) -> ResolvedPath {
        let below = real.strip_prefix(&folder.real).unwrap_or(real);
        let shown = real.strip_prefix(&self.root).unwrap_or(real).display().to_string();
        let (relative, base) = (folder.relative.join(below), Arc::clone(&folder.base));
        let guard = Arc::clone(&self.guard);
        ResolvedPath { real: real.to_owned(), inside: folder.inside, shown, base, relative, guard }
    }
}

/// Opens a folder only as a starting point.
fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a folder if its absolute path contains no link, `.` or `..`; its real path is then the given one.
fn hold_as_written(path: &Path) -> Option<OwnedFd> {
    let mut names = path.components();
    let is_plain = path.as_os_str().len() == path.components().as_path().as_os_str().len();
    if !is_plain || names.next() != Some(Component::RootDir) || !names.all(|name| matches!(name, Component::Normal(_)))
    {
        return None;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

/// The real path of an open folder. It takes one system call, where `canonicalize` takes one for each name on the path.
/// An error if there is no `/proc`.
fn place_of(folder: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The path of this program for a process that it starts, also if another version has taken its place on disk.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// The real path of a folder: without links, `.` and `..`; the path itself if there is no such folder.
pub fn real_folder(path: &Path) -> PathBuf {
    let real = hold(path).and_then(|folder| place_of(&folder)).or_else(|_| path.canonicalize());
    real.unwrap_or_else(|_| path.to_owned())
}

fn expand_home(given: &str) -> PathBuf {
    let rest = if given == "~" { Some("") } else { given.strip_prefix("~/") };
    match (rest, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(given),
    }
}

/// Resolves a path name by name, from `root` if it is relative; `root` contains no links. None if the path has more
/// links than allowed.
pub(crate) fn follow_links(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut real = if path.is_absolute() { PathBuf::from("/") } else { root.to_owned() };
    let mut ahead = Vec::new();
    push_components(&mut ahead, path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        let Ok(target) = fs::read_link(&next) else {
            real = next;
            continue;
        };
        links += 1;
        if links > LINKS {
            return None;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        push_components(&mut ahead, &target);
    }
    Some(real)
}

/// Puts the names of a path on the stack, the first on top.
fn push_components(ahead: &mut Vec<OsString>, path: &Path) {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    ahead.extend(names);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn inside(workspace: &Path, given: &str) -> bool {
        Workspace::open(workspace, &Protected::default()).unwrap().resolve(given).unwrap().inside
    }

    #[test]
    fn a_path_is_inside_only_if_it_leads_inside() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("ws");
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::create_dir(home.path().join("ws2")).unwrap();
        symlink("/etc", workspace.join("away")).unwrap();
        symlink("../ws2/not-yet", workspace.join("dangling")).unwrap();
        symlink("sub", workspace.join("near")).unwrap();
        symlink("../../ws/sub", workspace.join("sub/back")).unwrap();

        for given in [".", "a.txt", "sub/../b", "near/x", "sub/back/x", "not/there/yet", "../ws/x", "~x"] {
            assert!(inside(&workspace, given), "{given}");
        }
        let absolute = fs::canonicalize(&workspace).unwrap().join("x");
        assert!(inside(&workspace, absolute.to_str().unwrap()));
        let outside =
            ["..", "../ws2", "../ws2/x", "/", "/etc/passwd", "away/passwd", "dangling", "dangling/x", "away/..", "~"];
        for given in outside {
            assert!(!inside(&workspace, given), "{given}");
        }
        // `..` after a link goes up from the target of the link, not from the link.
        assert!(!inside(&workspace, "away/../x"));
        assert_eq!(
            Workspace::open(&workspace, &Protected::default()).unwrap().resolve("near/../b").unwrap().shown,
            "b"
        );
    }

    /// The path of the workspace may contain links, `..` and extra slashes.
    #[test]
    fn the_root_of_a_workspace_is_where_its_links_lead() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        fs::create_dir_all(home.join("real/sub")).unwrap();
        symlink("real", home.join("link")).unwrap();
        for given in ["real", "link", "link/sub/..", "real/sub/..", "real/", "./real", "link/.", "/real"] {
            let given = format!("{}/{given}", home.display());
            assert_eq!(
                Workspace::open(Path::new(&given), &Protected::default()).unwrap().root,
                home.join("real"),
                "{given}"
            );
        }
    }

    #[test]
    fn an_invalid_path_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        symlink("b", home.path().join("a")).unwrap();
        symlink("a", home.path().join("b")).unwrap();
        for given in ["", "a\0b", "a"] {
            let resolved = Workspace::open(home.path(), &Protected::default()).unwrap().resolve(given);
            assert!(matches!(resolved, Err(ToolError::BadPath { .. })), "{given:?}");
        }
        let error = Workspace::open(&home.path().join("gone"), &Protected::default()).unwrap_err().to_string();
        assert!(error.contains("workspace") && error.contains("gone"), "{error}");
    }
}
