//! The flags of `limulus setup`.

use clap::Args;
use config::{Config, is_address, is_reference, shown_address};

use super::choice::{Given, Key};
use super::questions::{address_now, is_model};
use super::select::by_name;
use crate::error::CliError;
use crate::prompt;
use crate::show::human::printable;

/// Choose a model and its key, try it and write it into the configuration.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "It lists the models whose keys are in the environment and those of a local Ollama (OLLAMA_HOST), then every \
    provider that it knows by name. A key is typed unseen into a file that only you can read, or stays where it is: in a variable, \
    or with a command that prints it. It asks the model a question before it writes anything. The configuration never gets the \
    key itself. Everything else in the file stays, comments too."
)]
pub(crate) struct SetupArgs {
    /// Set up the provider of this name, such as deepseek; a unique beginning is enough
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Read its key from this variable at each request
    #[arg(long, value_name = "VARIABLE", requires = "provider", conflicts_with_all = ["key_cmd", "key_stdin"])]
    key_env: Option<String>,
    /// Read its key from the first line that this command prints, such as "pass show deepseek"
    #[arg(long, value_name = "COMMAND", requires = "provider", conflicts_with = "key_stdin")]
    key_cmd: Option<String>,
    /// Read its key from the first line of stdin and store it in a file that only you can read
    #[arg(long, requires = "provider")]
    key_stdin: bool,
    /// Use this address of its API
    #[arg(long, value_name = "ADDRESS", requires = "provider")]
    url: Option<String>,
    /// Use this of its models
    #[arg(long, value_name = "MODEL", requires = "provider")]
    model: Option<String>,
    /// Ask nothing: take what the flags say, or the first model that is found; needs no terminal
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON object
    #[arg(long, requires = "yes")]
    pub(super) json: bool,
}

const SUCH_AS: &str = "such as: pass show deepseek | limulus setup …";

impl SetupArgs {
    /// What the flags say of a provider; none if they name none.
    pub(super) fn given(&self, config: &Config) -> Result<Option<Given>, CliError> {
        let Some(name) = &self.provider else { return Ok(None) };
        let preset = by_name(name).map_err(|may_be| unknown(name, &may_be))?;
        if let Some(url) = self.url.as_ref().filter(|url| !is_address(url)) {
            let what = format!("`--url {}` is no address", printable(&shown_address(url)));
            return Err(usage(&what, "it begins with http:// or https://, and has no blanks"));
        }
        let now = address_now(config, preset);
        let base_url = self.url.clone().filter(|url| Some(url) != now.as_ref());
        let beginning = format!("{}/", preset.name);
        let model = self.model.as_ref().map(|model| model.strip_prefix(&beginning).unwrap_or(model).to_owned());
        if model.as_ref().is_some_and(|model| !is_model(model)) {
            return Err(usage("`--model` takes the name of one model", "such as --model deepseek-v4-flash"));
        }
        Ok(Some(Given { preset, base_url, key: self.key()?, model, is_retry: false }))
    }

    fn key(&self) -> Result<Option<Key>, CliError> {
        let reference = |kind: &str, value: &str, flag: &str| {
            let reference = format!("{kind}:{value}");
            // It is not repeated: a key may have been given in its place.
            let wrong = || {
                usage(
                    &format!("what `{flag}` was given is no name of that kind"),
                    "a key itself goes in with --key-stdin",
                )
            };
            if is_reference(&reference) { Ok(Some(Key::Reference(reference))) } else { Err(wrong()) }
        };
        if let Some(variable) = &self.key_env {
            return reference("env", variable, "--key-env");
        }
        if let Some(command) = &self.key_cmd {
            return reference("cmd", command, "--key-cmd");
        }
        if !self.key_stdin {
            return Ok(None);
        }
        let typed = prompt::unseen_or_piped("The key (nothing is shown), then Enter:");
        let typed =
            typed.map_err(|why| usage(&format!("`--key-stdin` takes the first line of stdin, but {why}"), SUCH_AS))?;
        match typed.trim() {
            "" => Err(usage("`--key-stdin` found no key in the first line of stdin", SUCH_AS)),
            key => Ok(Some(Key::typed(key))),
        }
    }
}

fn usage(what: &str, hint: &str) -> CliError {
    CliError::Usage { what: what.to_owned(), hint: hint.to_owned() }
}

fn unknown(name: &str, may_be: &[&str]) -> CliError {
    let all: Vec<&str> = models::provider_presets().iter().map(|preset| preset.name).collect();
    if may_be.is_empty() {
        let slips = |known: &&&str| strsim::osa_distance(name, known) <= 2;
        let nearest = all.iter().find(slips).map(|known| format!("the nearest is `{known}`; ")).unwrap_or_default();
        return CliError::not_found(
            format!("no provider is called `{name}`"),
            format!(
                "{nearest}there are {}; `custom` with --url is any other with an OpenAI-compatible address",
                all.join(", ")
            ),
        );
    }
    CliError::not_found(
        format!("`{name}` is the beginning of several providers"),
        format!("it may be {}", may_be.join(", ")),
    )
}
