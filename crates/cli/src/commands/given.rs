//! What a message led to, given to who awaits it: stdout, a file, the line of its result, the exit code.

use std::path::{Path, PathBuf};

use engine::{Event, NOBODY_TO_ASK, RunId};
use journal::{Entry, Read as _, Reader};
use protocol::event::RunEnd;
use serde_json::Value;

use super::agent::{Ending, outcome, say_command};
use super::follower::Follower;
use super::result::{OutputFile, ResultLine};
use super::task;
use crate::error::{CliError, Exit};
use crate::show::print;

/// What is awaited of a message.
pub(super) struct Wanted {
    /// The file that gets the text of the answer.
    pub(super) output: Option<OutputFile>,
    /// What the answer is to fit.
    pub(super) schema: Option<Value>,
    pub(super) as_json: bool,
    /// The folder of the home, if the message has a key: it may name a run that was started before, with its own schema.
    pub(super) keyed_in: Option<PathBuf>,
}

impl Wanted {
    /// Gives it. Returns the error with the exit code of the command.
    pub(super) async fn give(self, follower: &mut Follower<'_>, key: &str, ended: &Ending) -> Result<(), CliError> {
        let (run, end) = match ended {
            Ending::Run(run, end) => (*run, end),
            Ending::Command(text) => {
                follower.screen.hide_status();
                let exit = say_command(text, self.as_json).and(self.write(text));
                if self.as_json {
                    follower.screen.result(&ResultLine::of_command(key, text, code(&exit)));
                }
                return exit;
            }
        };
        let completed = outcome(run, end);
        let started_with = match &self.keyed_in {
            Some(home) => task::schema_of(&Reader::open(home)?, run)?,
            None => None,
        };
        let schema = started_with.or_else(|| self.schema.clone());
        let value = match &schema {
            Some(schema) if completed.is_ok() => Some(task::structured(schema, &end.text).await),
            _ => None,
        };
        let (structured, schema_mismatch) = match value {
            Some(Ok(value)) => (Some(value), Ok(())),
            Some(Err(error)) => (None, Err(error)),
            None => (None, Ok(())),
        };
        let text = structured.as_ref().unwrap_or(&end.text).clone();
        let shown = self.show(follower, end, structured.as_deref());
        // What became of the run says more than what became of the file.
        let exit =
            completed.and(schema_mismatch).and_then(|()| undenied(run, follower)).and(shown).and(self.write(&text));
        if self.as_json {
            let client = follower.client().clone();
            let line = ResultLine::of_run(&client, (key, run), (end.outcome, &end.text), code(&exit)).await;
            follower.screen.result(&line.with(structured));
        }
        exit
    }

    /// Prints the answer that is to fit a schema: nothing else has come to stdout.
    fn show(&self, follower: &mut Follower<'_>, end: &RunEnd, value: Option<&str>) -> Result<(), CliError> {
        if self.schema.is_none() || self.as_json {
            return Ok(());
        }
        follower.screen.hide_status();
        match value {
            Some(value) => print(&format!("{value}\n")),
            None if end.text.is_empty() => Ok(()),
            None => print(&format!("{}\n", end.text)),
        }
    }

    fn write(&self, text: &str) -> Result<(), CliError> {
        self.output.as_ref().map_or(Ok(()), |output| output.write(text))
    }
}

fn code(exit: &Result<(), CliError>) -> u8 {
    exit.as_ref().map_or_else(|error| error.exit() as u8, |()| 0)
}

/// The error if something of a run that completed was denied because nobody could be asked.
fn undenied(run: RunId, follower: &Follower<'_>) -> Result<(), CliError> {
    if !follower.was_denied(run) {
        return Ok(());
    }
    Err(CliError::Refused {
        exit: Exit::Refused,
        what: "the run is done, but it needed approval for something, and there was no terminal to ask on".into(),
        hint: format!("`limulus runs show {run}` shows what was denied, and what would allow it"),
    })
}

/// Whether something of a run that has ended was denied because nobody could be asked.
pub(super) fn denied_before(home: &Path, run: RunId) -> Result<bool, CliError> {
    let reader = Reader::open(home)?;
    let Some(row) = reader.run(run)? else { return Ok(false) };
    let is_denial = |entry: &Entry| {
        matches!(&entry.event, Event::AskAnswered(e)
            if e.call.run == run && !e.allow && e.by.starts_with(NOBODY_TO_ASK))
    };
    Ok(reader.tail(row.branch, row.first_seq)?.entries.iter().any(is_denial))
}
