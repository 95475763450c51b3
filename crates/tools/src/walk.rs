//! The files and folders beneath a folder, in the order of their paths, as a developer means it: without what is hidden or
//! git-ignored. The walk only gives names; what is behind one is looked at and opened beneath the folder that is held open,
//! so a link that is put on the way while it walks leads nowhere.

use std::path::Path;

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;

use crate::error::ToolError;
use crate::paths::{ResolvedPath, Workspace};

/// What becomes of names that begin with a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// They are left out.
    LeftOut,
    /// They are shown, but for what git keeps for itself.
    Shown,
}

/// One name that was found.
pub(crate) struct Entry {
    pub(crate) path: ResolvedPath,
    pub(crate) is_file: bool,
}

/// Everything beneath `folder`, of files those that match the glob; an error for each that cannot be looked at.
pub(crate) fn entries<'a>(
    workspace: &'a Workspace,
    folder: &'a ResolvedPath,
    glob: Option<&str>,
    hidden: Hidden,
) -> Result<impl Iterator<Item = Result<Entry, ToolError>> + 'a, ToolError> {
    let mut builder = WalkBuilder::new(&folder.real);
    builder.require_git(false).sort_by_file_path(Path::cmp).hidden(hidden == Hidden::LeftOut);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    if let Some(glob) = glob {
        let wrong = |error: ignore::Error| ToolError::Glob { glob: glob.to_owned(), reason: error.to_string() };
        let mut overrides = OverrideBuilder::new(&folder.real);
        overrides.add(glob).map_err(wrong)?;
        builder.overrides(overrides.build().map_err(wrong)?);
    }
    let openat = builder.build().filter(|entry| entry.as_ref().map_or(true, |entry| entry.depth() > 0));
    Ok(openat.map(|entry| {
        let entry = entry.map_err(|error| ToolError::Walk { reason: error.to_string() })?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        Ok(Entry { path: workspace.openat(folder, entry.path()), is_file })
    }))
}
