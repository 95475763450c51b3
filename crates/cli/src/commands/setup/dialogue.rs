//! The dialogue of `limulus setup`. Without a terminal, or with `--yes`, it asks nothing.

use engine::Failure;
use models::ProviderPreset;

use super::choice::{Choice, Given};
use super::file::Change;
use super::found::{By, Found};
use super::questions::Answers;
use super::select::{Picked, others, pick};
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say;
use crate::prompt;
use crate::show::human::printable;

/// The questions of `setup` on the terminal.
pub(super) struct Dialogue {
    answers: Answers,
}

impl Dialogue {
    pub(super) fn new(is_yes: bool) -> Result<Self, CliError> {
        if !is_yes && !prompt::is_possible() {
            let what = "there is no terminal to ask on".to_owned();
            let hint = "`limulus setup --yes` takes the first model that is found; `limulus setup --provider NAME --yes` with \
                        --key-env VARIABLE, --key-cmd COMMAND or --key-stdin sets one up (--url, --model: if it has none)"
                .to_owned();
            return Err(CliError::Refused { exit: Exit::Refused, what, hint });
        }
        Ok(Self { answers: if is_yes { Answers::Given } else { Answers::Typed } })
    }

    pub(super) fn answers(&self) -> Answers {
        self.answers
    }

    fn asks(&self) -> bool {
        self.answers == Answers::Typed
    }

    /// Prints the found models, then every other provider.
    pub(super) fn list(&self, found: &[Found]) {
        if !self.asks() {
            return;
        }
        if !found.is_empty() {
            say!("There is:");
        }
        for (number, found) in (1..).zip(found) {
            let by = match &found.by {
                By::Variable(name) => format!("{name} is set"),
                By::Address(address) => format!("at {address}"),
            };
            say!("  {number:2}. {} ({by})", printable(&found.model));
        }
        say!(
            "{}",
            if found.is_empty() { "Providers, by number or name:" } else { "Other providers, by number or name:" }
        );
        for (number, preset) in (found.len() + 1..).zip(others(found)) {
            say!("  {number:2}. {} ({})", word(preset.title), preset.name);
        }
    }

    /// The chosen model or provider; the first model without a terminal.
    pub(super) fn choose<'a>(&self, found: &'a [Found]) -> Result<Picked<'a>, CliError> {
        let first = found.first().map(Picked::Found);
        if !self.asks() {
            return first.ok_or_else(|| CliError::bug("nothing was found"));
        }
        loop {
            let answer = ask("Which one?", if found.is_empty() { prompt::OPEN } else { " [1] " })?;
            if let (true, Some(found)) = (answer.is_empty(), found.first()) {
                return Ok(Picked::Found(found));
            }
            match pick(&answer, found) {
                Ok(picked) => return Ok(picked),
                Err(names) if !names.is_empty() => say!("That may be {}.", names.join(", ")),
                Err(_) => {
                    let most = found.len() + others(found).count();
                    say!("A number from 1 to {most}, or a name of the list; Ctrl-C changes nothing.");
                }
            }
        }
    }

    /// Reports a chosen model that does not answer. With a terminal the user may try other values, or choose another provider: none.
    pub(super) fn failed(
        &self,
        preset: &'static ProviderPreset,
        choice: &Choice,
        failure: &Failure,
    ) -> Result<Option<Given>, CliError> {
        let failure = failure.to_string();
        let text = printable(&failure);
        if self.asks() {
            say!("✗ {}: {text}", choice.name());
            let again = ask("Again with other values?", " [Y/n] ")?;
            let is_again = again.is_empty() || prompt::is_yes(&again);
            return Ok(is_again.then(|| Given::again(preset, choice)));
        }
        Err(CliError::Failed {
            exit: Exit::RunFailed,
            what: format!("{} does not answer, and nothing was changed: {text}", choice.name()),
            hint: "fix that and run it again; `limulus setup` without --yes lets you choose".to_owned(),
        })
    }

    /// Shows the change of the file. A new file needs no confirmation, an existing one does.
    pub(super) fn confirm(&self, change: &Change) -> Result<(), CliError> {
        if !self.asks() {
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

pub(super) fn ask(question: &str, mark: &str) -> Result<String, CliError> {
    prompt::ask(question, mark).map(|line| line.trim().to_owned()).ok_or_else(unchanged)
}

pub(super) fn unchanged() -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: "nothing was changed".to_owned(),
        hint: "`limulus setup` asks again".to_owned(),
    }
}
