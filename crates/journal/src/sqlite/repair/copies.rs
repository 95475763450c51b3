//! Keeps copies of what a repair changes: the old name plus a reason and the time.

use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::sqlite::files;
use crate::sqlite::home::{Owned, copy_name, unwritable};

/// A name that does not exist yet.
fn free_name(path: &Path, what: &str) -> PathBuf {
    let first = copy_name(path, what);
    let other = |n: u32| first.with_file_name(format!("{}-{n}", name(&first)));
    if first.exists() { (2..1000).map(other).find(|path| !path.exists()).unwrap_or(first) } else { first }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(super) fn rename(path: &Path, what: &str) -> Result<String, Error> {
    let kept = free_name(path, what);
    files::rename(path, &kept).and_then(|()| files::sync_name(&kept)).map_err(unwritable(path))?;
    Ok(name(&kept))
}

/// Links the file under another name, until a new file takes its first name.
pub(super) fn link(path: &Path, what: &str) -> Result<String, Error> {
    let kept = free_name(path, what);
    files::link(path, &kept).and_then(|()| files::sync_name(&kept)).map_err(unwritable(path))?;
    Ok(name(&kept))
}

pub(super) fn copy(path: &Path, what: &str) -> Result<String, Error> {
    let kept = free_name(path, what);
    let copied = files::copy(path, &kept).and_then(|()| files::sync(&kept)).and_then(|()| files::sync_name(&kept));
    copied.map_err(unwritable(path))?;
    Ok(name(&kept))
}

pub(super) fn copy_mark(home: &Owned) -> Result<String, Error> {
    copy(&home.path().join("journal.mark"), "before")
}

/// Removes the index of the WAL: otherwise SQLite would use the index of a removed WAL for the next one.
pub(super) fn drop_index(home: &Owned) -> Result<(), Error> {
    let index = home.database().with_extension("db-shm");
    match files::remove(&index) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(&index)(error)),
        _ => Ok(()),
    }
}
