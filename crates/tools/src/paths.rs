//! The one way from a path that a model wrote to a path on disk. Every tool comes through here, so that the policy and the
//! tool speak of the same file.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::error::ToolError;
use crate::limits::LINKS;

/// A path with every link in it followed, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    /// Absolute, without `.`, `..` or links; it need not exist.
    pub(crate) real: PathBuf,
    /// Whether that is in the workspace.
    pub(crate) inside: bool,
    /// How to name it to people and models: relative where it is inside.
    pub(crate) shown: String,
}

/// The workspace itself, links followed.
pub(crate) fn workspace(path: &Path) -> Result<PathBuf, ToolError> {
    let wrong = |source| ToolError::Workspace { path: path.display().to_string(), source };
    let root = fs::canonicalize(path).map_err(wrong)?;
    if root.is_dir() { Ok(root) } else { Err(wrong(io::ErrorKind::NotADirectory.into())) }
}

/// Where `given` leads: relative to the workspace, absolute, or from the home folder (`~/`). Links, `.` and `..` are
/// followed as the kernel would; what does not exist is taken as it is written.
pub(crate) fn resolve(workspace_path: &Path, given: &str) -> Result<ResolvedPath, ToolError> {
    let bad = |reason| ToolError::BadPath { path: given.escape_default().to_string(), reason };
    if given.is_empty() {
        return Err(bad("it is empty"));
    }
    if given.contains('\0') {
        return Err(bad("it has a zero byte in it"));
    }
    let root = workspace(workspace_path)?;
    let real = follow_links(&root, &expand_home(given)).ok_or_else(|| bad("its links lead in a circle"))?;
    let relative = real.strip_prefix(&root).ok();
    let shown = match relative {
        Some(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Some(relative) => relative.display().to_string(),
        None => real.display().to_string(),
    };
    Ok(ResolvedPath { inside: relative.is_some(), shown, real })
}

fn expand_home(given: &str) -> PathBuf {
    let rest = if given == "~" { Some("") } else { given.strip_prefix("~/") };
    match (rest, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(given),
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

    fn inside(workspace: &Path, given: &str) -> bool {
        resolve(workspace, given).unwrap().inside
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
        // `..` after a link goes up from where the link leads, not from where it stands.
        assert!(!inside(&workspace, "away/../x"));
        assert_eq!(resolve(&workspace, "near/../b").unwrap().shown, "b");
    }

    #[test]
    fn a_path_that_cannot_be_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        symlink("b", home.path().join("a")).unwrap();
        symlink("a", home.path().join("b")).unwrap();
        for given in ["", "a\0b", "a"] {
            assert!(matches!(resolve(home.path(), given), Err(ToolError::BadPath { .. })), "{given:?}");
        }
        let error = resolve(&home.path().join("gone"), "x").unwrap_err().to_string();
        assert!(error.contains("workspace") && error.contains("gone"), "{error}");
    }
}
