//! `limulus config init`: writes a file with every key, made from the defaults.

use std::io::{self, Write as _};
use std::path::Path;

use config::{FILE, Globals, make_private, template};
use serde_json::json;

use crate::error::{CliError, Exit};
use crate::show::{json, print, worded};

/// Writes or prints the file.
pub(super) fn run(globals: &Globals, is_printed: bool, as_json: bool) -> Result<(), CliError> {
    let text = template();
    if is_printed {
        return print(&if as_json { json(&json!({"text": text})) } else { text });
    }
    let file = globals.home.join(FILE);
    write_new(&globals.home, &file, &text)?;
    let shown = file.display().to_string();
    let message = format!("{shown} is there: every key is in it with its default, commented out\n");
    print(&if as_json { json(&json!({"file": shown})) } else { worded(message) })
}

/// Writes the whole file or nothing, and never overwrites a file.
fn write_new(home: &Path, file: &Path, text: &str) -> Result<(), CliError> {
    let failed = |error: &io::Error| CliError::Failed {
        exit: Exit::Store,
        what: format!("{} cannot be written ({error})", file.display()),
        hint: "make its folder writable, or set LIMULUS_HOME to another".to_owned(),
    };
    make_private(home).map_err(|error| failed(&error))?;
    let mut written = tempfile::NamedTempFile::new_in(home).map_err(|error| failed(&error))?;
    written.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    match written.persist_noclobber(file) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("{} exists already and was not changed", file.display()),
            hint: "`limulus config init --print` prints what it would write".to_owned(),
        }),
        Err(error) => Err(failed(&error.error)),
    }
}
