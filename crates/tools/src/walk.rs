//! Walks the files and folders below a folder, in the order of their paths, without hidden and git-ignored entries. It
//! does not enter the home. The walk only returns names. Callers open them below the open folder, so a link that somebody
//! creates during the walk is not followed, and what belongs to limulus is refused there.

use std::path::Path;
use std::sync::Arc;

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder};

use crate::error::ToolError;
use crate::limits::{LISTED_BYTES, PATTERN_BYTES};
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
    let guard = Arc::clone(&folder.guard);
    let is_left_out = move |entry: &DirEntry| {
        entry.file_name() == ".git"
            || entry.file_type().is_some_and(|kind| kind.is_dir()) && guard.is_protected_folder(entry.path())
    };
    builder.filter_entry(move |entry| !is_left_out(entry));
    if let Some(glob) = glob {
        bounded(glob)?;
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

/// An error if the glob is too long to be compiled.
pub(crate) fn bounded(glob: &str) -> Result<(), ToolError> {
    let too_long = || {
        let shown = format!("{}…", &glob[..glob.floor_char_boundary(LISTED_BYTES)]);
        ToolError::Glob { glob: shown, reason: format!("it has more than {PATTERN_BYTES} bytes") }
    };
    if glob.len() > PATTERN_BYTES { Err(too_long()) } else { Ok(()) }
}
