//! Walks the files and folders below a folder, in the order of their paths, without hidden and git-ignored entries. It
//! does not enter the home. The walk only returns names. Callers open them below the open folder, so a link that somebody
//! creates during the walk is not followed, and what belongs to limulus is refused there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, Match, WalkBuilder, WalkState};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::guard::Guard;
use crate::ignored::{IgnoreRules, Ignored};
use crate::limits::{LISTED_BYTES, LISTING_THREADS, PATTERN_BYTES, WALKED_BY_ONE};
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

/// Which entries a walk enters and names.
struct Filter {
    overrides: Override,
    hidden: Hidden,
    guard: Arc<Guard>,
    cancel: Cancel,
}

impl Filter {
    fn of(folder: &ResolvedPath, glob: Option<&str>, hidden: Hidden, cancel: &Cancel) -> Result<Self, ToolError> {
        let mut overrides = OverrideBuilder::new(&folder.real);
        if let Some(glob) = glob {
            bounded(glob)?;
            let wrong = |error: ignore::Error| ToolError::Glob { glob: glob.to_owned(), reason: error.to_string() };
            overrides.add(glob).map_err(wrong)?;
        }
        let overrides = overrides.build().map_err(|error| ToolError::Walk { reason: error.to_string() })?;
        Ok(Self { overrides, hidden, guard: Arc::clone(&folder.guard), cancel: cancel.clone() })
    }

    fn keeps(&self, rules: &mut IgnoreRules, entry: &DirEntry) -> bool {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_out = entry.file_name() == ".git" || self.cancel.is_set();
        if is_out || is_folder && self.guard.is_protected_folder(entry.path()) {
            return false;
        }
        match self.overrides.matched(entry.path(), is_folder) {
            Match::Ignore(_) => return false,
            Match::Whitelist(_) => return true,
            Match::None => {}
        }
        let is_hidden = self.hidden == Hidden::LeftOut && entry.file_name().as_encoded_bytes().starts_with(b".");
        entry.depth() == 0
            || match rules.judge(entry.path(), is_folder) {
                Ignored::Yes => false,
                Ignored::No => !is_hidden,
                Ignored::Kept => true,
            }
    }
}

/// The walk of a folder. The files of rules are read by `ignored.rs`.
fn walk(folder: &ResolvedPath) -> WalkBuilder {
    let mut walk = WalkBuilder::new(&folder.real);
    walk.standard_filters(false);
    walk
}

fn found(entry: Result<DirEntry, ignore::Error>) -> Result<Entry, ToolError> {
    let entry = entry.map_err(|error| ToolError::Walk { reason: error.to_string() })?;
    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
    Ok(Entry { real: entry.into_path(), is_file })
}

fn may_come_to(workspace: &Workspace, folder: &ResolvedPath, entry: &Entry) -> bool {
    // Most runs have no rules, and the path of an entry costs more than the rest of it.
    !workspace.has_rules() || workspace.may_come_to(&workspace.below(folder, &entry.real))
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
    let filter = Filter::of(folder, glob, hidden, cancel)?;
    let rules = Mutex::new(IgnoreRules::of(&folder.real));
    let mut walk = walk(folder);
    walk.sort_by_file_name(OsStr::cmp);
    walk.filter_entry(move |entry| filter.keeps(&mut rules.lock().unwrap_or_else(PoisonError::into_inner), entry));
    let below = walk.build().filter(|entry| entry.as_ref().map_or(true, |entry| entry.depth() > 0)).map(found);
    Ok(below.filter(move |entry| entry.as_ref().map_or(true, |entry| may_come_to(workspace, folder, entry))))
}

/// The entries that somebody looks for.
#[derive(Default)]
pub(crate) struct Matching {
    /// The first of them, in the order of their paths.
    pub(crate) entries: Vec<Entry>,
    /// Whether there are more.
    pub(crate) is_cut: bool,
    /// Entries that could not be read.
    pub(crate) unread: u32,
}

impl Matching {
    fn add(&mut self, entry: Entry, most: usize) {
        self.entries.push(entry);
        if self.entries.len() >= 4 * most {
            self.cut(most);
        }
    }

    fn cut(&mut self, most: usize) {
        self.entries.sort_unstable_by(|one, other| one.real.cmp(&other.real));
        self.is_cut |= self.entries.len() > most;
        self.entries.truncate(most);
    }
}

/// The first `most` entries below `folder` whose path matches. A small folder is walked on this thread; a large one by several, from
/// its beginning, to its end.
pub(crate) fn matching(
    workspace: &Workspace,
    folder: &ResolvedPath,
    hidden: Hidden,
    most: usize,
    cancel: &Cancel,
    matches: &(dyn Fn(&Path) -> bool + Sync),
) -> Result<Matching, ToolError> {
    let mut found = Matching::default();
    for (number, entry) in entries(workspace, folder, None, hidden, cancel)?.enumerate() {
        cancel.check()?;
        match entry {
            Err(_) => found.unread += 1,
            Ok(entry) if matches(&entry.real) => found.entries.push(entry),
            Ok(_) => {}
        }
        if found.entries.len() > most {
            found.cut(most);
            return Ok(found);
        }
        if number == WALKED_BY_ONE {
            return matching_at_once(workspace, folder, hidden, most, cancel, matches);
        }
    }
    Ok(found)
}

fn matching_at_once(
    workspace: &Workspace,
    folder: &ResolvedPath,
    hidden: Hidden,
    most: usize,
    cancel: &Cancel,
    matches: &(dyn Fn(&Path) -> bool + Sync),
) -> Result<Matching, ToolError> {
    let filter = Filter::of(folder, None, hidden, cancel)?;
    let all = Mutex::new(Matching::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(LISTING_THREADS);
    walk(folder).threads(threads).build_parallel().run(|| {
        let mut rules = IgnoreRules::of(&folder.real);
        let (filter, all) = (&filter, &all);
        Box::new(move |entry| {
            let all = || all.lock().unwrap_or_else(PoisonError::into_inner);
            match entry {
                _ if filter.cancel.is_set() => return WalkState::Quit,
                Ok(entry) if !filter.keeps(&mut rules, &entry) => return WalkState::Skip,
                Ok(entry) if entry.depth() == 0 || !matches(entry.path()) => {}
                entry => match found(entry) {
                    Ok(entry) if may_come_to(workspace, folder, &entry) => all().add(entry, most),
                    Ok(_) => {}
                    Err(_) => all().unread += 1,
                },
            }
            WalkState::Continue
        })
    });
    cancel.check()?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.cut(most);
    Ok(all)
}

/// An error if the glob is too long to be compiled.
pub(crate) fn bounded(glob: &str) -> Result<(), ToolError> {
    let too_long = || {
        let shown = format!("{}…", &glob[..glob.floor_char_boundary(LISTED_BYTES)]);
        ToolError::Glob { glob: shown, reason: format!("it has more than {PATTERN_BYTES} bytes") }
    };
    if glob.len() > PATTERN_BYTES { Err(too_long()) } else { Ok(()) }
}
