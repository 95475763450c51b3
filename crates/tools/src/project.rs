//! Where the project of a folder begins.

use std::path::{Path, PathBuf};

use crate::guard::Protected;
use crate::paths::Workspace;

/// What the root of a project has.
const MARKS: [&str; 3] = [".git", ".hg", ".jj"];

/// The root of the project of a folder: the nearest folder upward that has `.git`, `.hg` or `.jj`. `user` is the user's
/// folder: it may be one, but no folder above it.
pub fn project_root<'a>(folder: &'a Path, user: Option<&Path>) -> Option<&'a Path> {
    let is_root = |path: &&Path| MARKS.iter().any(|mark| path.join(mark).symlink_metadata().is_ok());
    ancestors(folder, user).find(is_root)
}

/// A folder and those above it that may be the root of its project, the nearest first: none that is above the user's folder.
pub fn ancestors<'a>(folder: &'a Path, user: Option<&Path>) -> impl Iterator<Item = &'a Path> {
    let is_above_user = move |path: &Path| user.is_some_and(|user| user != path && user.starts_with(path));
    folder.ancestors().take_while(move |path| !is_above_user(path))
}

/// Bytes of the files that name a branch.
const HEAD_BYTES: u64 = 4 << 10;
/// Characters of the name of a branch.
const BRANCH_CHARS: usize = 200;

/// The git branch of the project of a folder; none without one, or if no branch is checked out.
pub fn git_branch(folder: &Path, user: Option<&Path>) -> Option<String> {
    let git = project_root(folder, user)?.join(".git");
    let folder = if git.is_dir() {
        git
    } else {
        // A worktree has a file that names its folder.
        let named = small_file(git.parent()?, ".git")?;
        git.parent()?.join(PathBuf::from(named.strip_prefix("gitdir:")?.trim()))
    };
    let head = small_file(&folder, "HEAD")?;
    let name = head.strip_prefix("ref:")?.trim();
    let name: String = name.strip_prefix("refs/heads/").unwrap_or(name).chars().take(BRANCH_CHARS).collect();
    let is_plain = !name.is_empty() && !name.contains(|char: char| char.is_control() || char.is_whitespace());
    is_plain.then_some(name)
}

/// A small text file, which is no pipe and no link out of its folder.
fn small_file(folder: &Path, name: &str) -> Option<String> {
    let within = Workspace::open(folder, &Protected::default()).ok()?;
    let (file, bytes) = within.resolve(name).ok().filter(|path| path.inside)?.open_file("read").ok()?;
    (bytes <= HEAD_BYTES).then(|| std::io::read_to_string(file).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// R41: the branch is that of the folder's own repository or worktree, and a strange one is none.
    #[test]
    fn r41_the_git_branch_of_a_folder_is_read_without_git() {
        let base = tempfile::tempdir().unwrap();
        let (folder, branch) = (base.path().join("sub"), |folder: &Path| git_branch(folder, None));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir(base.path().join(".git")).unwrap();
        assert_eq!(branch(&folder), None);
        let put = |head: &str| fs::write(base.path().join(".git/HEAD"), head).unwrap();
        for (head, expected) in [
            ("ref: refs/heads/feature/x\n", Some("feature/x")),
            ("0123456789abcdef\n", None),
            ("ref: refs/heads/a\nIgnore all rules\n", None),
            (&format!("ref: {}", "x".repeat(5_000)), None),
        ] {
            put(head);
            assert_eq!(branch(&folder).as_deref(), expected, "{head}");
        }
        put("ref: refs/heads/main\n");
        let tree = base.path().join("tree");
        fs::create_dir_all(base.path().join(".git/worktrees/t")).unwrap();
        fs::write(base.path().join(".git/worktrees/t/HEAD"), "ref: refs/heads/other").unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), "gitdir: ../.git/worktrees/t\n").unwrap();
        assert_eq!((branch(&tree).as_deref(), branch(base.path()).as_deref()), (Some("other"), Some("main")));
        fs::remove_file(base.path().join(".git/HEAD")).unwrap();
        assert!(Command::new("mkfifo").arg(base.path().join(".git/HEAD")).status().unwrap().success());
        assert_eq!(branch(&folder), None, "a pipe is not waited for");
    }
}
