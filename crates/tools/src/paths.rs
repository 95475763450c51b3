//! The one way from a path that a model wrote to a place on disk. Every tool comes through here, so that the policy and the
//! tool speak of the same file. What is resolved here is opened by `beneath.rs`, which follows no link any more.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::error::ToolError;
use crate::limits::LINKS;

/// A path with every link in it followed, and where it leads.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPath {
    /// Absolute, without `.`, `..` or links; it need not exist.
    pub(crate) real: PathBuf,
    /// Whether that is in the workspace.
    pub(crate) inside: bool,
    /// How to name it to people and models: relative where it is inside.
    pub(crate) shown: String,
    /// The folder that it is opened from: the workspace, or `/`.
    pub(crate) base: Arc<OwnedFd>,
    /// The names from there.
    pub(crate) relative: PathBuf,
}

/// The folder that an agent works in, held open while a call is checked or run: it stays the same one, whatever becomes of
/// its path. With it, what the call may reach beside it.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Its path, links followed.
    pub(crate) root: PathBuf,
    folder: Arc<OwnedFd>,
    /// Places outside of it that the check of the call has named and the policy has allowed.
    allowed: Vec<PathBuf>,
}

impl Workspace {
    /// The workspace alone.
    pub(crate) fn open(path: &Path) -> Result<Self, ToolError> {
        if let Some(folder) = hold_as_written(path) {
            return Ok(Self { root: path.to_owned(), folder: Arc::new(folder), allowed: Vec::new() });
        }
        let wrong = |source| ToolError::Workspace { path: path.display().to_string(), source };
        let folder = hold(path).map_err(wrong)?;
        let root = place_of(&folder).or_else(|_| fs::canonicalize(path)).map_err(wrong)?;
        Ok(Self { root, folder: Arc::new(folder), allowed: Vec::new() })
    }

    /// The same with these places outside of it.
    pub(crate) fn with(self, allowed: Vec<PathBuf>) -> Self {
        Self { allowed, ..self }
    }

    /// Where `given` leads, for a call that runs: in the workspace, or where its check saw it lead.
    pub(crate) fn reach(&self, tool_result: &str) -> Result<ResolvedPath, ToolError> {
        let path = self.resolve(tool_result)?;
        if path.inside || self.allowed.contains(&path.real) {
            Ok(path)
        } else {
            Err(ToolError::Moved { path: path.shown })
        }
    }

    /// Where `given` leads: relative to the workspace, absolute, or from the home folder (`~/`). Links, `.` and `..` are
    /// followed as the kernel would; what does not exist is taken as it is written.
    pub(crate) fn resolve(&self, tool_result: &str) -> Result<ResolvedPath, ToolError> {
        let bad = |reason| ToolError::BadPath { path: tool_result.escape_default().to_string(), reason };
        if tool_result.is_empty() {
            return Err(bad("it is empty"));
        }
        if tool_result.contains('\0') {
            return Err(bad("it has a zero byte in it"));
        }
        let real =
            follow_links(&self.root, &expand_home(tool_result)).ok_or_else(|| bad("its links lead in a circle"))?;
        if let Ok(relative) = real.strip_prefix(&self.root) {
            let shown = if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() };
            let (relative, base) = (relative.to_owned(), Arc::clone(&self.folder));
            return Ok(ResolvedPath { inside: true, shown, base, relative, real });
        }
        if real.to_str().is_none() {
            return Err(bad("it leads to a name that is not UTF-8"));
        }
        let base = hold(Path::new("/")).map_err(ToolError::file("open", "/"))?;
        let relative = real.strip_prefix("/").unwrap_or(&real).to_owned();
        Ok(ResolvedPath { inside: false, shown: real.display().to_string(), base: Arc::new(base), relative, real })
    }

    /// What a walk has found at `real`, beneath `folder`.
    pub(crate) fn openat(&self, folder: &ResolvedPath, real: &Path) -> ResolvedPath {
        let below = real.strip_prefix(&folder.real).unwrap_or(real);
        let shown = real.strip_prefix(&self.root).unwrap_or(real).display().to_string();
        let (relative, base) = (folder.relative.join(below), Arc::clone(&folder.base));
        ResolvedPath { real: real.to_owned(), inside: folder.inside, shown, base, relative }
    }
}

/// Opens a folder for nothing but to begin from it.
fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The same, if no name in its absolute path is a link, or stands for another: then it is where it says.
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

/// The path of a folder that is held open, links followed: one question to the kernel, where `canonicalize` asks for each
/// name on the way. An error where there is no `/proc`.
fn place_of(folder: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn expand_home(tool_result: &str) -> PathBuf {
    let rest = if tool_result == "~" { Some("") } else { tool_result.strip_prefix("~/") };
    match (rest, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(tool_result),
    }
}

/// Walks a path name by name, from `root` if it is relative; no link leads to `root`. None if it leads through more links
/// than a path may.
fn follow_links(root: &Path, path: &Path) -> Option<PathBuf> {
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

    fn inside(workspace: &Path, tool_result: &str) -> bool {
        Workspace::open(workspace).unwrap().resolve(tool_result).unwrap().inside
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

        for tool_result in [".", "a.txt", "sub/../b", "near/x", "sub/back/x", "not/there/yet", "../ws/x", "~x"] {
            assert!(inside(&workspace, tool_result), "{tool_result}");
        }
        let absolute = fs::canonicalize(&workspace).unwrap().join("x");
        assert!(inside(&workspace, absolute.to_str().unwrap()));
        let outside =
            ["..", "../ws2", "../ws2/x", "/", "/etc/passwd", "away/passwd", "dangling", "dangling/x", "away/..", "~"];
        for tool_result in outside {
            assert!(!inside(&workspace, tool_result), "{tool_result}");
        }
        // `..` after a link goes up from where the link leads, not from where it stands.
        assert!(!inside(&workspace, "away/../x"));
        assert_eq!(Workspace::open(&workspace).unwrap().resolve("near/../b").unwrap().shown, "b");
    }

    /// However it is written: with links in it, with `..`, with too many slashes.
    #[test]
    fn the_root_of_a_workspace_is_where_its_links_lead() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        fs::create_dir_all(home.join("real/sub")).unwrap();
        symlink("real", home.join("link")).unwrap();
        for tool_result in ["real", "link", "link/sub/..", "real/sub/..", "real/", "./real", "link/.", "/real"] {
            let tool_result = format!("{}/{tool_result}", home.display());
            assert_eq!(Workspace::open(Path::new(&tool_result)).unwrap().root, home.join("real"), "{tool_result}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        symlink("b", home.path().join("a")).unwrap();
        symlink("a", home.path().join("b")).unwrap();
        for tool_result in ["", "a\0b", "a"] {
            let resolved = Workspace::open(home.path()).unwrap().resolve(tool_result);
            assert!(matches!(resolved, Err(ToolError::BadPath { .. })), "{tool_result:?}");
        }
        let error = Workspace::open(&home.path().join("gone")).unwrap_err().to_string();
        assert!(error.contains("workspace") && error.contains("gone"), "{error}");
    }
}
