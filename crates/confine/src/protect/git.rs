//! Git repositories in the workspace: each has files that make git execute programs, also outside the sandbox.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::profile::{NameKind, ProtectedName};
use crate::report::Unprotected;
use crate::tables::GIT_NAMES;

/// Bytes of a file that names a git folder.
const PATH_BYTES: u64 = 8_192;
/// How many folders of repositories are looked at: about ten milliseconds of a cold disk.
const FOLDERS: usize = 2_000;

/// The names to protect of the repositories below the workspace, relative to it, and where was not looked. `repositories` are the
/// folders with a `.git`, relative to the workspace. The repository of the workspace itself is the caller's to name; its submodules,
/// worktrees and git folder elsewhere are found here. If the caller names nothing of git, nothing is protected.
pub(super) fn nested_names(
    workspace: &Path,
    names: &[ProtectedName],
    repositories: &[PathBuf],
) -> (Vec<ProtectedName>, Vec<Unprotected>) {
    if !names.iter().any(|name| name.path.starts_with(".git")) {
        return (vec![], vec![]);
    }
    let mut search = Search { workspace, folders: vec![], pointers: vec![], looked_at: 0 };
    for folder in repositories {
        search.repository(&workspace.join(folder));
    }
    let in_folder = |folder: &PathBuf| {
        let folder = folder.clone();
        GIT_NAMES.iter().map(move |(name, kind)| ProtectedName { path: folder.join(name), kind: *kind })
    };
    let pointers = search.pointers.iter().map(|path| ProtectedName { path: path.clone(), kind: NameKind::File });
    let found = search.folders.iter().flat_map(in_folder).chain(pointers).collect();
    let reason = format!("the repositories in it were not all looked at: they have more than {FOLDERS} folders");
    let unsearched = (search.looked_at > FOLDERS).then(|| Unprotected { path: workspace.to_owned(), reason });
    (found, unsearched.into_iter().collect())
}

struct Search<'a> {
    workspace: &'a Path,
    /// Git folders, relative to the workspace.
    folders: Vec<PathBuf>,
    /// Files that name a git folder elsewhere.
    pointers: Vec<PathBuf>,
    looked_at: usize,
}

impl Search<'_> {
    fn repository(&mut self, folder: &Path) {
        let git = folder.join(".git");
        match fs::symlink_metadata(&git) {
            Ok(found) if found.is_dir() => self.git_folder(&git),
            Ok(found) if found.is_file() => self.pointer(folder, &git),
            _ => {}
        }
    }

    /// A git folder with the ones of its submodules.
    fn git_folder(&mut self, git: &Path) {
        let Ok(relative) = git.strip_prefix(self.workspace) else { return };
        if git.join("HEAD").exists() && relative != Path::new(".git") {
            self.folders.push(relative.to_owned());
        }
        // Those of worktrees, which may be anywhere.
        let worktrees = self.folders_in(&git.join("worktrees"));
        let relative = worktrees.iter().filter_map(|folder| folder.strip_prefix(self.workspace).ok());
        self.folders.extend(relative.map(Path::to_owned));
        self.modules(&git.join("modules"));
    }

    /// Submodules may have slashes in their names, so their folders are found by what is in them.
    fn modules(&mut self, folder: &Path) {
        for below in self.folders_in(folder) {
            if below.join("HEAD").exists() {
                self.git_folder(&below);
            } else {
                self.modules(&below);
            }
        }
    }

    /// A worktree or submodule, whose git folder is elsewhere. Outside of the workspace it is read-only anyway.
    fn pointer(&mut self, folder: &Path, git: &Path) {
        self.pointers.extend(git.strip_prefix(self.workspace).map(Path::to_owned));
        let text = beginning(git).unwrap_or_default();
        let Some(target) = text.strip_prefix("gitdir: ").map(|path| folder.join(path.trim_end())) else { return };
        let Ok(target) = target.canonicalize() else { return };
        if let Ok(relative) = target.strip_prefix(self.workspace)
            && relative.components().all(|part| matches!(part, Component::Normal(_)))
        {
            self.folders.push(relative.to_owned());
        }
    }

    fn folders_in(&mut self, folder: &Path) -> Vec<PathBuf> {
        self.looked_at += 1;
        if self.looked_at > FOLDERS {
            return vec![];
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        // Not through a symbolic link.
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.path()).collect()
    }
}

/// What a file begins with: a path has no more.
fn beginning(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(PATH_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
