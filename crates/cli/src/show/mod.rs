//! What the reading commands show: projections of a journal (`fold`, `run`, `session`, `trace`, `audit`,
//! `graph`, `waiting`), the drawings of the graph (`arrows`, and one file a format), the
//! choice of what is shown (`lookup`, `owner`), what is wrong with a home (`doctor`), and how it is laid out for people (`human`). What may not live here: anything
//! that writes to a journal, and any rule about what a run does: state comes from the engine's own fold.

pub(crate) mod arrows;
pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod dot;
pub(crate) mod fold;
pub(crate) mod graph;
pub(crate) mod human;
mod layout;
pub(crate) mod lookup;
pub(crate) mod mermaid;
pub(crate) mod owner;
pub(crate) mod run;
#[cfg(test)]
pub(crate) mod scene;
pub(crate) mod sentence;
pub(crate) mod session;
pub(crate) mod svg;
pub(crate) mod trace;
pub(crate) mod waiting;
pub(crate) mod xstate;

use std::io::{self, Write as _};

pub(crate) use lookup::Lookup;

use engine::Body;
use journal::{Read, Reader};
use serde::Serialize;

use crate::config::Globals;
use crate::error::{CliError, Exit};

/// Where the text of a body comes from.
pub(crate) type Texts<'a> = &'a dyn Fn(&Body) -> Result<String, CliError>;

/// The texts of a journal. What is not UTF-8 is replaced; what was erased says so.
pub(crate) fn texts(read: &dyn Read) -> impl Fn(&Body) -> Result<String, CliError> {
    move |body| {
        let bytes = read.body(&body.hash)?;
        Ok(bytes.map_or_else(|| "[erased]".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

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
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
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
