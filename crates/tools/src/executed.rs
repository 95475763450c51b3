//! Files that other programs run or load as their configuration without asking. The policy for them is one of its own, also inside
//! the workspace. Which they are is a table of `crates/confine`: commands in their sandbox are kept from the same ones.

use confine::folded_name;
use rustix::fs::{AtFlags, statat};

use crate::openat;
use crate::paths::ResolvedPath;

/// What a repository of git runs or obeys in its own folder.
const IN_REPOSITORY: &[&str] =
    &["hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules", "worktrees"];

impl ResolvedPath {
    /// Whether other programs run or load the file at this path, whether it exists or not.
    pub(crate) fn is_executed(&self) -> bool {
        confine::is_executed(&self.real) || self.is_in_repository()
    }

    /// Whether the path is that of a hook or of the configuration of a repository without a folder `.git`.
    fn is_in_repository(&self) -> bool {
        let mut folder = self.relative.as_path();
        while let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) {
            if IN_REPOSITORY.contains(&folded_name(name).as_str())
                && openat::open(&*self.base, above, openat::FOLDER)
                    .is_ok_and(|above| statat(&above, "HEAD", AtFlags::SYMLINK_NOFOLLOW).is_ok())
            {
                return true;
            }
            folder = above;
        }
        false
    }
}
