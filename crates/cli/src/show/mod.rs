//! What readers see: shapes of the protocol and the transition table, laid out for people (`trace`, `audit`, `human`,
//! `doctor`), and the drawings of the graph (`graph`, `arrows`, and one file a format). What may not live here: how a shape
//! is made from a journal, which is the gateway's.

pub(crate) mod arrows;
pub(crate) mod audit;
pub(crate) mod choice;
pub(crate) mod doctor;
pub(crate) mod dot;
pub(crate) mod graph;
pub(crate) mod human;
mod layout;
pub(crate) mod mermaid;
pub(crate) mod svg;
pub(crate) mod trace;
pub(crate) mod xstate;

use std::io;

use journal::Reader;
use serde::Serialize;

use crate::config::Globals;
use crate::error::{CliError, Exit};
use crate::output;

/// Opens the journal of the home for reading, whoever owns it; says so on stderr if it may be behind.
pub(crate) fn open(globals: &Globals) -> Result<Reader, CliError> {
    let reader = Reader::open(&globals.home)?;
    if reader.is_immutable() {
        eprintln!("limulus: {} cannot be written, so what its owner wrote last may not show", globals.home.display());
    }
    Ok(reader)
}

/// Prints an answer. Whoever closed stdout has seen enough.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    match output::write(io::stdout().lock(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Failed {
            exit: Exit::Store,
            what: format!("the answer could not be printed ({error})"),
            hint: "make room where stdout goes, then ask again".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// As indented JSON with a newline at its end.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("what is shown is plain data") + "\n"
}

/// As one line of JSON.
pub(crate) fn json_line<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("what is shown is plain data") + "\n"
}
