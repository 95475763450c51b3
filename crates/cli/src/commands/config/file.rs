//! The file that commands change: which one it is, and how it is read and replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use config::{FILE, Globals, Remark, Review, make_private, places, read_config};

use crate::error::{CliError, Exit};

/// The user's file that is there, the strongest first, else that of the home.
pub(super) fn of_user(globals: &Globals) -> PathBuf {
    let own = places(globals).into_iter().filter(|place| place.layer == "file");
    own.filter(|place| place.exists).map(|place| place.path).next().unwrap_or_else(|| globals.home.join(FILE))
}

/// The text of the file; none if it is not there.
pub(super) fn read(file: &Path) -> Result<Option<String>, CliError> {
    match read_config(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(failed(file, &error)),
    }
}

/// Changes the file as a whole or not at all, for its user alone. One command at a time does so.
pub(in crate::commands) fn change<T>(
    file: &Path,
    change: impl FnOnce(Option<&str>) -> Result<(Option<String>, T), CliError>,
) -> Result<T, CliError> {
    // A link stays a link: its target is written.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = target.parent().expect("a file has a folder");
    let lock = make_private(folder).and_then(|()| File::open(folder)).and_then(|folder| folder.lock().map(|()| folder));
    let _lock = lock.map_err(|error| failed(file, &error))?;
    let (text, result) = change(read(file)?.as_deref())?;
    if let Some(text) = text {
        replace(folder, &target, &text).map_err(|error| failed(file, &error))?;
    }
    Ok(result)
}

fn replace(folder: &Path, target: &Path, text: &str) -> io::Result<()> {
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    written.as_file().sync_all()?;
    written.persist(target).map(|_| ()).map_err(|error| error.error)
}

pub(in crate::commands) fn failed(file: &Path, error: &io::Error) -> CliError {
    CliError::Failed {
        exit: Exit::Store,
        what: format!("{} cannot be changed ({error})", file.display()),
        hint: "make it and its folder writable, or set LIMULUS_HOME to another folder".to_owned(),
    }
}

/// The errors and warnings that a change of this file adds.
pub(super) fn added(file: &Path, before: &Review, after: Review) -> (Vec<Remark>, Vec<Remark>) {
    // Lines move with a change.
    let place = format!("{}:", file.display());
    let of = |remark: &Remark| match remark.what.strip_prefix(&place).and_then(|rest| rest.split_once(": ")) {
        Some((_, what)) => what.to_owned(),
        None => remark.what.clone(),
    };
    let fresh = |after: Vec<Remark>, before: &[Remark]| {
        after.into_iter().filter(|remark| !before.iter().any(|known| of(known) == of(remark))).collect()
    };
    (fresh(after.errors, &before.errors), fresh(after.warnings, &before.warnings))
}
