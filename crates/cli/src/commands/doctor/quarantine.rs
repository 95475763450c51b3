//! Saves the readable text of a quarantined session.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use journal::Reader;
use journal::check::BranchSpan;
use views::texts;

use crate::error::{CliError, Exit};

/// Writes the texts of a session's branches, each below its entry, into a file of the home. Returns the name of the
/// file; none if nothing is readable.
pub(super) fn keep_texts(home: &Path, reader: &Reader, key: &str) -> Result<Option<String>, CliError> {
    let branches = reader.branches_of(key)?;
    let mut kept = String::new();
    for branch in &branches {
        let mut read = String::new();
        // If the walk fails, the texts before the failure are kept.
        let _ = reader.walk(&BranchSpan { branch: *branch, to: None }, |audited| {
            for body in audited.event().map(engine::Event::bodies).unwrap_or_default() {
                if let Ok(text) = texts(reader)(&body) {
                    let _ = writeln!(read, "--- {} {}\n{text}", audited.checkpoint(), audited.kind);
                }
            }
        });
        kept += &read;
    }
    let Some(first) = branches.first().filter(|_| !kept.is_empty()) else { return Ok(None) };
    let plain: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = format!("{plain}.{first}.txt");
    write(&home.join(&name), &kept).map_err(|error| CliError::Failed {
        exit: Exit::Store,
        what: format!("{name} could not be written ({error}); nothing was changed"),
        hint: "free disk space for the home, then repair again".to_owned(),
    })?;
    Ok(Some(name))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
