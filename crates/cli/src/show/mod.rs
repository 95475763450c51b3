//! Layout of shapes of the protocol for people (`trace`, `audit`, `chain`, `human`, `doctor`), and drawings of the transition
//! table (`graph`, `nodes`, `arrows`, and one file a format). The gateway makes the shapes from a journal. No drawing has an
//! edge that is not in the table.

pub(crate) mod arrows;
pub(crate) mod audit;
pub(crate) mod chain;
pub(crate) mod choice;
pub(crate) mod doctor;
pub(crate) mod dot;
pub(crate) mod graph;
pub(crate) mod human;
mod layout;
pub(crate) mod mermaid;
mod nodes;
pub(crate) mod svg;
pub(crate) mod trace;
pub(crate) mod xstate;

use std::io;

use config::Globals;
use journal::Reader;
use serde::Serialize;

use crate::error::{CliError, Exit};
use crate::language;
use crate::output::{Output, say};

/// Opens the journal of the home for reading, with or without an owner. Warns on stderr if it may lack the latest entries.
pub(crate) fn open(globals: &Globals) -> Result<Reader, CliError> {
    let reader = Reader::open(&globals.home)?;
    if reader.is_immutable() {
        say!(
            "limulus: {} cannot be written, so the latest entries of its owner may be missing",
            globals.home.display()
        );
    }
    Ok(reader)
}

/// Prints a result. A closed stdout is not an error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    match Output::Stdout.write(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Failed {
            exit: Exit::Store,
            what: format!("the answer could not be printed ({error})"),
            hint: "free space where stdout goes, then run it again".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A result in words, line by line in the language of this process. It is for texts of this program only: lines of others would be
/// translated too.
pub(crate) fn worded(text: impl AsRef<str>) -> String {
    language::lines(text.as_ref()).into_owned()
}

/// Indented JSON with a trailing newline.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("what is shown is plain data") + "\n"
}

/// One line of JSON.
pub(crate) fn json_line<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("what is shown is plain data") + "\n"
}
