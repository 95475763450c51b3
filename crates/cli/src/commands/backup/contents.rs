//! What of a home is in its backup.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use journal::RESTORING;

use crate::error::CliError;

/// The folder of calls, of which a backup has what the copied journal knows.
pub(super) const CALLS: &str = "calls";

/// The folder of what files held before they were changed.
pub(super) const FILES: &str = "files";

/// Whether a file at the top of the home is copied otherwise or not at all: the journal is copied by SQLite, the index of what was
/// said is made again, and a lock belongs to a process.
fn is_left(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let begins = ["journal.db", "journal.mark", RESTORING, super::WORKING].iter().any(|left| name.starts_with(left));
    begins
        || ["journal.reserve", "journal.copy", "search.db", "search.db-wal", "search.db-shm", "owner.lock"]
            .contains(&name.as_ref())
}

/// The error of a link that leads to itself.
const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();

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

/// The names in the folder of what files held.
pub(super) fn names_of_files(home: &Path) -> Result<BTreeSet<OsString>, CliError> {
    let folder = home.join(FILES);
    let mut files = names(&folder)?;
    files.retain(|name| fs::symlink_metadata(folder.join(name)).is_ok_and(|meta| meta.is_file()));
    Ok(files)
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
    let real_home = fs::canonicalize(home).map_err(|error| super::unreadable(home, &error))?;
    for name in names(home)? {
        if is_left(&name) {
            continue;
        }
        // A link at the top is how people keep a file of the home elsewhere; but not one to what the home itself is in.
        let Some(path) = real(&home.join(&name))?.filter(|path| !real_home.starts_with(path)) else { continue };
        if let Some(meta) = there(&path, fs::symlink_metadata(&path))? {
            let only = (name == CALLS).then_some(calls);
            add(path, PathBuf::from(name), meta, only, &mut found)?;
        }
    }
    Ok(found)
}

/// What a name leads to; none if it leads nowhere.
fn real(path: &Path) -> Result<Option<PathBuf>, CliError> {
    match fs::canonicalize(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) || error.raw_os_error() == Some(LOOP) => Ok(None),
        real => real.map(Some).map_err(|error| super::unreadable(path, &error)),
    }
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
            let is_working = inner.to_string_lossy().starts_with(super::WORKING);
            let is_wanted = only.is_none_or(|only| only.contains(&inner)) && !is_of_this_machine(&inner_name);
            let is_wanted = is_wanted && !is_working;
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
