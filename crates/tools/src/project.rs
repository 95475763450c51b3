//! Where the project of a folder begins.

use std::path::Path;

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
