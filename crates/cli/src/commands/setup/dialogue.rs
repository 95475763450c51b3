//! The dialogue of `limulus setup`. Without a terminal, or with `--yes`, it asks nothing and takes the first model.

use engine::Failure;

use super::file::Change;
use super::found::{By, Found};
use crate::error::{CliError, Exit};
use crate::output::say;
use crate::prompt;
use crate::show::human::printable;

/// The questions of `setup` on the terminal.
pub(super) struct Dialogue {
    asks: bool,
}

impl Dialogue {
    pub(super) fn new(is_yes: bool) -> Result<Self, CliError> {
        let is_terminal = prompt::is_possible();
        if !is_yes && !is_terminal {
            let what = "there is no terminal to ask on".to_owned();
            let hint = "`limulus setup --yes` takes the first model that is found".to_owned();
            return Err(CliError::Refused { exit: Exit::Refused, what, hint });
        }
        Ok(Self { asks: !is_yes })
    }

    /// Prints the found models.
    pub(super) fn list(&self, found: &[Found]) {
        if !self.asks {
            return;
        }
        say!("There is:");
        for (number, found) in (1..).zip(found) {
            let by = match &found.by {
                By::Variable(name) => format!("{name} is set"),
                By::Address(address) => format!("at {address}"),
            };
            say!("  {number}. {} ({by})", printable(&found.model));
        }
    }

    /// The chosen model; the first one without a terminal.
    pub(super) fn choose<'a>(&mut self, found: &'a [Found]) -> Result<&'a Found, CliError> {
        loop {
            let answer = if self.asks { ask("Which one?", " [1] ")? } else { String::new() };
            let number = if answer.is_empty() { Ok(1) } else { answer.parse::<usize>() };
            match number.ok().and_then(|number| found.get(number.wrapping_sub(1))) {
                Some(found) => return Ok(found),
                None => say!("A number from 1 to {}, or Ctrl-C to change nothing.", found.len()),
            }
        }
    }

    /// Reports a chosen model that does not answer. With a terminal the user may choose another.
    pub(super) fn failed(&mut self, found: &Found, failure: &Failure) -> Result<(), CliError> {
        let failure = failure.to_string();
        let text = printable(&failure);
        if self.asks {
            say!("✗ {}: {text}", found.model);
            return Ok(());
        }
        Err(CliError::Failed {
            exit: Exit::RunFailed,
            what: format!("{} does not answer, and nothing was changed: {text}", found.model),
            hint: "fix that and run it again; `limulus setup` without --yes lets you choose".to_owned(),
        })
    }

    /// Shows the change of the file. A new file needs no confirmation, an existing one does.
    pub(super) fn confirm(&mut self, change: &Change) -> Result<(), CliError> {
        if !self.asks {
            return Ok(());
        }
        say!("{} gets:", change.file().display());
        let (added, removed) = change.lines();
        for (mark, lines) in [('-', removed), ('+', added)] {
            for line in lines {
                say!("  {mark} {}", printable(&line));
            }
        }
        if change.is_new_file() {
            return Ok(());
        }
        let line = ask("Write it?", " [Y/n] ")?;
        if line.is_empty() || prompt::is_yes(&line) { Ok(()) } else { Err(unchanged()) }
    }
}

fn ask(question: &str, mark: &str) -> Result<String, CliError> {
    prompt::ask(question, mark).map(|line| line.trim().to_owned()).ok_or_else(unchanged)
}

fn unchanged() -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: "nothing was changed".to_owned(),
        hint: "`limulus setup` asks again".to_owned(),
    }
}
