//! Walks the files and folders below a folder, in the order of their paths, without hidden and git-ignored entries. It
//! does not enter the home. The walk only returns names. Callers open them below the open folder, so a link that somebody
//! creates during the walk is not followed, and what belongs to limulus is refused there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::overrides::OverrideBuilder;
use ignore::{Match, WalkBuilder};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::ignored::{IgnoreRules, Ignored};
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
    /// Where it is.
    pub(crate) real: PathBuf,
    pub(crate) is_file: bool,
}

/// All folders below `folder` and all files that match the glob; an error for each entry that cannot be read. Once the call is
/// cancelled, nothing more is entered.
pub(crate) fn entries<'a>(
    workspace: &'a Workspace,
    folder: &'a ResolvedPath,
    glob: Option<&str>,
    hidden: Hidden,
    cancel: &Cancel,
) -> Result<impl Iterator<Item = Result<Entry, ToolError>> + 'a, ToolError> {
    let mut overrides = OverrideBuilder::new(&folder.real);
    if let Some(glob) = glob {
        bounded(glob)?;
        let wrong = |error: ignore::Error| ToolError::Glob { glob: glob.to_owned(), reason: error.to_string() };
        overrides.add(glob).map_err(wrong)?;
    }
    let overrides = overrides.build().map_err(|error| ToolError::Walk { reason: error.to_string() })?;
    let mut builder = WalkBuilder::new(&folder.real);
    // The files of rules are read by `ignored.rs`.
    builder.standard_filters(false).sort_by_file_path(Path::cmp);
    let (guard, cancel) = (Arc::clone(&folder.guard), cancel.clone());
    let rules = Mutex::new(IgnoreRules::of(&folder.real));
    builder.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_out = entry.file_name() == ".git" || cancel.is_set();
        if is_out || is_folder && guard.is_protected_folder(entry.path()) {
            return false;
        }
        match overrides.matched(entry.path(), is_folder) {
            Match::Ignore(_) => return false,
            Match::Whitelist(_) => return true,
            Match::None => {}
        }
        let is_hidden = hidden == Hidden::LeftOut && entry.file_name().as_encoded_bytes().starts_with(b".");
        let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
        entry.depth() == 0
            || match rules.judge(entry.path(), is_folder) {
                Ignored::Yes => false,
                Ignored::No => !is_hidden,
                Ignored::Kept => true,
            }
    });
    let may_come_to = |entry: &Entry| {
        // Most runs have no rules, and the path of an entry costs more than the rest of it.
        !workspace.has_rules() || workspace.may_come_to(&workspace.below(folder, &entry.real))
    };
    let below = builder.build().filter(|entry| entry.as_ref().map_or(true, |entry| entry.depth() > 0));
    Ok(below
        .map(|entry| {
            let entry = entry.map_err(|error| ToolError::Walk { reason: error.to_string() })?;
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            Ok(Entry { real: entry.into_path(), is_file })
        })
        .filter(move |entry| entry.as_ref().map_or(true, may_come_to)))
}

/// An error if the glob is too long to be compiled.
pub(crate) fn bounded(glob: &str) -> Result<(), ToolError> {
    let too_long = || {
        let shown = format!("{}…", &glob[..glob.floor_char_boundary(LISTED_BYTES)]);
        ToolError::Glob { glob: shown, reason: format!("it has more than {PATTERN_BYTES} bytes") }
    };
    if glob.len() > PATTERN_BYTES { Err(too_long()) } else { Ok(()) }
}
