//! What can still be read of a session that is put aside, as text. What may not live here: what is done to the journal.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gateway::show::texts;
use journal::Reader;
use journal::check::BranchSpan;

use crate::error::{CliError, Exit};

/// Writes the texts of a session's branches, each below its entry, into a file of the home; gives its name, or none where
/// nothing can be read.
pub(super) fn keep_texts(home: &Path, reader: &Reader, key: &str) -> Result<Option<String>, CliError> {
    let branches = reader.branches_of(key)?;
    let mut kept = String::new();
    for branch in &branches {
        let mut read = String::new();
        // What cannot be walked to its end is kept up to there.
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
