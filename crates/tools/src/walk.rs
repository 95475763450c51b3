//! Walks the files and folders below a folder, in the order of their paths, without hidden and git-ignored entries. The
//! walk only returns names. Callers open them below the open folder, so a link that somebody creates during the walk is
//! not followed.

use std::path::Path;

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;

use crate::error::ToolError;
use crate::paths::{ResolvedPath, Workspace};

/// How the walk treats names that begin with a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// The walk leaves them out.
    LeftOut,
    /// The walk includes them, except `.git`.
    Shown,
}

/// One entry that the walk found.
pub(crate) struct Entry {
    pub(crate) path: ResolvedPath,
    pub(crate) is_file: bool,
}

/// All folders below `folder` and all files that match the glob; an error for each entry that cannot be read.
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
    let below = builder.build().filter(|entry| entry.as_ref().map_or(true, |entry| entry.depth() > 0));
    Ok(below.map(|entry| {
        let entry = entry.map_err(|error| ToolError::Walk { reason: error.to_string() })?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        Ok(Entry { path: workspace.below(folder, entry.path()), is_file })
    }))
}
