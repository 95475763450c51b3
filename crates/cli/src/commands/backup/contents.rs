//! What of a home is in its backup.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// The folder of calls, of which a backup has what the copied journal knows.
pub(super) const CALLS: &str = "calls";

/// What begins the names of files that a backup has otherwise or not at all: the journal is copied by SQLite, the index of what
/// was said is made again, and a lock belongs to a process.
const LEFT: [&str; 4] = ["journal.", "search.db", "owner.lock", super::UNFINISHED];

/// A file or folder of a home.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its name in the home.
    pub(super) name: PathBuf,
    pub(super) meta: Metadata,
}

/// The names in the folder of calls.
pub(super) fn names_of_calls(home: &Path) -> Result<BTreeSet<OsString>, CliError> {
    names(&home.join(CALLS))
}

/// The copy of a journal that was made in this folder.
pub(super) fn of_journal(folder: &Path) -> Result<Vec<Found>, CliError> {
    let found = |name: &str| {
        let path = folder.join(name);
        let meta = fs::metadata(&path).map_err(|error| super::unreadable(&path, &error))?;
        Ok(Found { path, name: PathBuf::from(name), meta })
    };
    ["journal.db", "journal.mark"].into_iter().map(found).collect()
}

/// The files and folders of a home that its backup has, each folder before what is in it. `calls` are the names in the folder
/// of calls that count. What is removed meanwhile is missing.
pub(super) fn of(home: &Path, calls: &BTreeSet<OsString>) -> Result<Vec<Found>, CliError> {
    let mut found = vec![];
    for name in names(home)? {
        let is_left = LEFT.iter().any(|left| name.to_string_lossy().starts_with(left));
        let path = home.join(&name);
        // A link at the top is how people keep a file of the home elsewhere.
        if !is_left && let Some(meta) = there(&path, fs::metadata(&path))? {
            let only = (name == CALLS).then_some(calls);
            add(path, PathBuf::from(name), meta, only, &mut found)?;
        }
    }
    Ok(found)
}

/// Adds a file, or a folder with all in it, or of it what `only` names. Pipes, sockets and links are of processes, or of nobody.
fn add(
    path: PathBuf,
    name: PathBuf,
    meta: Metadata,
    only: Option<&BTreeSet<OsString>>,
    found: &mut Vec<Found>,
) -> Result<(), CliError> {
    if meta.is_file() {
        found.push(Found { path, name, meta });
    } else if meta.is_dir() {
        let inside = names(&path)?;
        found.push(Found { path: path.clone(), name: name.clone(), meta });
        for inner in inside {
            let (inner_path, inner_name) = (path.join(&inner), name.join(&inner));
            let is_wanted = only.is_none_or(|only| only.contains(&inner)) && !is_of_this_machine(&inner_name);
            if is_wanted && let Some(meta) = there(&inner_path, fs::symlink_metadata(&inner_path))? {
                add(inner_path, inner_name, meta, None, found)?;
            }
        }
    }
    Ok(())
}

/// Whether it names processes of this machine: those of the copied home, which is not to end them.
fn is_of_this_machine(name: &Path) -> bool {
    name.starts_with(CALLS) && name.file_name().is_some_and(|name| name == tools::TRACE)
}

/// The names in a folder, in order; none if it is gone.
fn names(folder: &Path) -> Result<BTreeSet<OsString>, CliError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(|error| super::unreadable(folder, &error))?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names.collect::<io::Result<_>>().map_err(|error| super::unreadable(folder, &error))
}

/// None if it has been removed meanwhile.
fn there(path: &Path, meta: io::Result<Metadata>) -> Result<Option<Metadata>, CliError> {
    match meta {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        meta => meta.map(Some).map_err(|error| super::unreadable(path, &error)),
    }
}
