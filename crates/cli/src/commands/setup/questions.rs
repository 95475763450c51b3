//! What is asked of a provider that was not found: its address, its key and its model. Without a dialogue nothing is asked, and what
//! is missing is an error that names the flags.

use std::collections::BTreeSet;

use config::{Config, Globals, has_provider_key, is_address, is_reference};
use models::ProviderPreset;
use views::is_unsafe;

use super::choice::{Choice, Given, Key};
use super::dialogue::{ask, unchanged};
use super::trial;
use crate::error::CliError;
use crate::language::text;
use crate::output::say;
use crate::prompt;
use crate::show::human::printable;

/// Models of a server that are listed; any other is typed.
const LISTED: usize = 20;

/// How the questions are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// By the user, on the terminal.
    Typed,
    /// By flags alone.
    Given,
}

/// What is asked and what is known without asking.
pub(super) struct Questions<'a> {
    pub(super) answers: Answers,
    pub(super) config: &'a Config,
    pub(super) globals: &'a Globals,
}

impl Questions<'_> {
    /// The whole choice. What is given is not asked for, unless it failed: then it is the answer to an empty line.
    pub(super) async fn complete(&self, given: &Given) -> Result<Choice, CliError> {
        let provider = given.preset.name.to_owned();
        if self.answers == Answers::Given {
            self.check(given)?;
        }
        let base_url = self.address(given)?;
        self.keep_headers(given, base_url.as_deref())?;
        let key = self.key(given, self.moves(given, base_url.as_deref()))?;
        let choice = Choice { provider, model: String::new(), base_url, key };
        let model = self.model(given, &choice).await?;
        Ok(Choice { model, ..choice })
    }

    /// An error that names every flag that is missing.
    fn check(&self, given: &Given) -> Result<(), CliError> {
        let preset = given.preset;
        let mut missing = vec![];
        if preset.base_url.is_none() && given.base_url.is_none() && !self.is_configured(given) {
            let example = preset.example.unwrap_or_default();
            missing.push(format!("--url ADDRESS (such as {example})"));
        }
        let moves = self.moves(given, given.base_url.as_deref());
        if given.key.is_none() && (moves || !self.has_key(given)) {
            missing.push("--key-env VARIABLE, --key-cmd COMMAND or --key-stdin".to_owned());
        }
        if preset.model.is_none() && given.model.is_none() {
            missing.push("--model MODEL".to_owned());
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(CliError::Usage {
            what: format!("{} needs {}", preset.title, missing.join(", and ")),
            hint: if moves {
                "the key that is there belongs to another address; say which one this address gets".to_owned()
            } else {
                "add that, or run `limulus setup` on a terminal, which asks for it".to_owned()
            },
        })
    }

    /// Refuses another address for a provider with headers: they may be secrets, and would go there too.
    fn keep_headers(&self, given: &Given, base_url: Option<&str>) -> Result<(), CliError> {
        let name = given.preset.name;
        if !self.is_elsewhere(given, base_url) || !self.config.has_headers(name) {
            return Ok(());
        }
        Err(CliError::Usage {
            what: format!("the headers of {name} belong to another address"),
            hint: format!(
                "`limulus config unset providers.{name}.headers` removes them, `limulus config set providers.{name}.base_url ADDRESS` \
                 keeps them"
            ),
        })
    }

    /// Whether a key that is there would go to an address that it was not given for.
    fn moves(&self, given: &Given, base_url: Option<&str>) -> bool {
        let is_set = given.preset.key.is_some_and(|variable| self.is_set(variable));
        self.is_elsewhere(given, base_url) && (is_set || self.config.has_profiles(given.preset.name))
    }

    /// Whether this is another address than the one that the provider has.
    fn is_elsewhere(&self, given: &Given, base_url: Option<&str>) -> bool {
        let now = address_now(self.config, given.preset);
        now.zip(base_url).is_some_and(|(now, new)| now != new)
    }

    fn is_configured(&self, given: &Given) -> bool {
        self.config.endpoint(given.preset.name, None).is_ok()
    }

    /// Whether no key has to be given: it needs none, or there is one.
    fn has_key(&self, given: &Given) -> bool {
        let variable = given.preset.key;
        variable.is_none_or(|variable| self.is_set(variable)) || self.config.has_profiles(given.preset.name)
    }

    fn is_set(&self, variable: &str) -> bool {
        self.globals.environment.get(variable).is_some()
    }

    fn address(&self, given: &Given) -> Result<Option<String>, CliError> {
        let preset = given.preset;
        let is_asked = self.answers == Answers::Typed && (given.base_url.is_none() || given.is_retry);
        // The address of a service is the same for everybody; that of a server on this machine may be another one.
        let is_fixed = preset.base_url.is_some() && preset.key.is_some();
        if !is_asked || is_fixed {
            return Ok(given.base_url.clone());
        }
        let now = address_now(self.config, preset);
        let default = given.base_url.as_ref().or(now.as_ref());
        let question = match (preset.example, default) {
            (Some(example), None) => format!("Its address, such as {example}:"),
            _ => "Its address:".to_owned(),
        };
        loop {
            let answer = ask(&question, &mark(default.map(String::as_str)))?;
            let address = if answer.is_empty() { default.cloned().unwrap_or_default() } else { answer };
            if is_address(&address) {
                return Ok(Some(address).filter(|address| Some(address) != now.as_ref()));
            }
            say!("An address begins with http:// or https://. Ctrl-C changes nothing.");
        }
    }

    /// The key. One that would move to another address is no default.
    fn key(&self, given: &Given, moves: bool) -> Result<Option<Key>, CliError> {
        let preset = given.preset;
        let of_variable = preset.key.filter(|variable| !moves && self.is_set(variable));
        let of_variable = of_variable.map(|variable| Key::Reference(format!("env:{variable}")));
        let is_known = !moves && self.config.has_profiles(preset.name);
        if self.answers == Answers::Given || given.key.is_some() && !given.is_retry {
            return Ok(given.key.clone().or(of_variable.filter(|_| !is_known)));
        }
        if preset.key.is_none() && given.key.is_none() && !prompt::is_yes(&ask("Does it need a key?", " [y/N] ")?) {
            return Ok(None);
        }
        if let Some(page) = preset.keys_at {
            say!("Get a key at {page}");
        }
        let before = given.key.clone().or(of_variable);
        let default = match (&given.key, &before) {
            (Some(_), _) => &*text("as before"),
            (None, Some(Key::Reference(reference))) => reference,
            (None, _) if is_known => &*text("as it is"),
            (None, _) => "1",
        };
        say!(
            "  1. type it; nothing of it is shown\n  2. name the variable that holds it\n  3. name a command that prints it"
        );
        loop {
            let answer = ask("How do you give the key?", &mark(Some(default)))?;
            let key = match answer.as_str() {
                "" if before.is_some() => return Ok(before),
                "" if is_known => return Ok(None),
                "" | "1" => typed()?,
                "2" => self.variable(preset.key)?,
                "3" => command()?,
                _ => None,
            };
            match key {
                Some(key) => return Ok(Some(key)),
                None => say!("1, 2 or 3; Ctrl-C changes nothing."),
            }
        }
    }

    fn variable(&self, usual: Option<&str>) -> Result<Option<Key>, CliError> {
        let answer = ask("Which variable?", &mark(usual))?;
        let name = if answer.is_empty() { usual.unwrap_or_default() } else { &answer };
        let reference = format!("env:{name}");
        if !is_reference(&reference) {
            say!("That is not the name of a variable.");
            return Ok(None);
        }
        if !self.is_set(name) {
            say!("{name} is not set here.");
            return Ok(None);
        }
        Ok(Some(Key::Reference(reference)))
    }

    /// The model: of a provider without a usual one, the server says which ones it has.
    async fn model(&self, given: &Given, choice: &Choice) -> Result<String, CliError> {
        let default = given.model.as_deref().or(given.preset.model);
        match default {
            Some(model) if self.answers == Answers::Given || given.model.is_some() && !given.is_retry => {
                return Ok(model.to_owned());
            }
            _ => {}
        }
        let served = if default.is_none() { trial::served(self.globals, choice).await } else { vec![] };
        let shown = listed(&served);
        if !shown.is_empty() {
            say!("It has:");
        }
        for (number, name) in (1..).zip(&shown) {
            say!("  {number:2}. {}", printable(name));
        }
        let default = default.or(shown.first().copied());
        loop {
            let answer = ask("Which model?", &mark(default))?;
            let named = answer.parse().ok().and_then(|number: usize| shown.get(number.checked_sub(1)?));
            let model = match named {
                Some(name) => (*name).to_owned(),
                None if answer.is_empty() => default.unwrap_or_default().to_owned(),
                None => answer,
            };
            if is_model(&model) {
                return Ok(model);
            }
            say!("The name of a model of {}, as it calls it.", printable(given.preset.title));
        }
    }
}

/// The address of a provider as it is configured, else its usual one.
pub(super) fn address_now(config: &Config, preset: &ProviderPreset) -> Option<String> {
    config.address_of(preset.name).or_else(|| preset.base_url.map(str::to_owned))
}

/// Bytes of the name of a model: what is longer is none, whatever a server says.
const NAME_BYTES: usize = 256;

/// Whether this can be the name of a model, and is not a key that was given in its place.
pub(super) fn is_model(name: &str) -> bool {
    let is_text = !name.is_empty() && name.len() <= NAME_BYTES;
    is_text && !name.contains(|c: char| c.is_whitespace() || is_unsafe(c)) && !has_provider_key(name)
}

/// The names of a list that a server sent, each once, as many as are shown.
fn listed(served: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    served.iter().map(String::as_str).filter(|name| is_model(name) && seen.insert(*name)).take(LISTED).collect()
}

/// What stands behind a question: the answer to an empty line.
fn mark(default: Option<&str>) -> String {
    default.map_or_else(|| prompt::OPEN.to_owned(), |default| format!(" [{}] ", printable(default)))
}

fn typed() -> Result<Option<Key>, CliError> {
    let typed = prompt::ask_unseen("The key (nothing is shown), then Enter:").ok_or_else(unchanged)?;
    Ok(Some(typed.trim()).filter(|typed| !typed.is_empty()).map(Key::typed))
}

fn command() -> Result<Option<Key>, CliError> {
    let answer = ask("Which command? The first line that it prints is the key:", prompt::OPEN)?;
    let reference = format!("cmd:{}", answer.strip_prefix("cmd:").unwrap_or(&answer));
    if is_reference(&reference) {
        return Ok(Some(Key::Reference(reference)));
    }
    say!("That is no command, or a key is in it.");
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R50: a server may list anything; what is shown are names, each once, and nothing that a terminal would obey or hide.
    #[test]
    fn r50_only_names_of_a_list_are_shown_and_each_once() {
        let long = "x".repeat(100_000);
        let served = [
            "a/b:c",
            "",
            "a b",
            "a\nb",
            "\u{1b}[31mred",
            "\u{202e}live",
            "zero\u{200b}width",
            &long,
            "模型",
            "a/b:c",
            "\0",
        ];
        let served: Vec<String> = served.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed(&served), ["a/b:c", "模型"]);
        let many: Vec<String> = (0..100_000).map(|number| format!("m{number}")).collect();
        assert_eq!(listed(&many).len(), LISTED);
    }
}
