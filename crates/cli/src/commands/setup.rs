//! `limulus setup`: finds a usable model, tries it, and writes it into the configuration, with a reference to its key
//! and never the key itself.

mod dialogue;
mod file;
mod found;
mod trial;

use clap::Args;
use config::{Config, FlagValues, Globals, KeyPath, file_of, key_variables};
use serde::Serialize;

use self::dialogue::Dialogue;
use self::file::Change;
use self::found::Found;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::show::{json, print};

/// Find a usable model, try it and write it into the configuration.
#[derive(Debug, Clone, Copy, Args)]
#[command(
    after_help = "It looks for the keys of known providers in the environment and for a local Ollama (OLLAMA_HOST). \
    The file gets the name of the variable, never the key. Everything else in the file stays, comments too."
)]
pub(crate) struct SetupArgs {
    /// Take the first model that is found, without asking; needs no terminal
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long, requires = "yes")]
    json: bool,
}

/// The result of the setup.
#[derive(Debug, Serialize)]
struct Done<'a> {
    found: &'a [Found],
    model: &'a str,
    /// Milliseconds to the first piece of its answer.
    answered_ms: u64,
    file: String,
    /// The lines added to the file; empty if they were there already.
    added: Vec<String>,
    removed: Vec<String>,
    /// The layer that overrides this model, if one does.
    overridden_by: Option<String>,
}

pub(crate) async fn run(args: SetupArgs, globals: &Globals) -> Result<(), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let mut dialogue = Dialogue::new(args.yes)?;
    let found = found::look(&config, &globals.environment).await;
    if found.is_empty() {
        return Err(nothing());
    }
    dialogue.list(&found);
    let (chosen, answered_ms) = choose(&mut dialogue, &config, &found).await?;
    let file = file_of(globals, &KeyPath::parse("agents.main.model")?);
    let change = Change::plan(&file, &chosen, &config)?;
    if change.is_needed() {
        if args.yes && change.replaces_a_model() {
            let what = format!("{} has another model already; nothing was changed", file.display());
            let hint = "`limulus setup` without --yes shows the change and asks".to_owned();
            return Err(CliError::Refused { exit: Exit::Refused, what, hint });
        }
        dialogue.confirm(&change)?;
        change.write()?;
    }
    let overridden_by = overriding(globals)?;
    let (added, removed) = change.lines();
    let model = &chosen.model;
    let shown = file.display().to_string();
    let done = Done { found: &found, model, answered_ms, file: shown, added, removed, overridden_by };
    print(&if args.json { json(&done) } else { lay_out(&done) })
}

/// Lets the user choose a model until one answers. Without a dialogue the first one must answer.
async fn choose(dialogue: &mut Dialogue, config: &Config, found: &[Found]) -> Result<(Found, u64), CliError> {
    loop {
        let chosen = dialogue.choose(found)?;
        match trial::ask(config, chosen).await {
            Ok(answered_ms) => return Ok((chosen.clone(), answered_ms)),
            Err(failure) => dialogue.failed(chosen, &failure)?,
        }
    }
}

fn nothing() -> CliError {
    let variables = key_variables().join(", ");
    CliError::not_found(
        format!("none of {variables} is set, and no Ollama with a model answers; nothing was changed"),
        "set one of them or start Ollama, then `limulus setup` again; until then the built-in offline model answers: \
         limulus agent -m \"What is in this folder?\"",
    )
}

/// The layer above the file that sets the model, if one does.
fn overriding(globals: &Globals) -> Result<Option<String>, CliError> {
    let effective = Config::effective(&globals.home, &globals.environment, FlagValues::default())?;
    let model = effective.settings.into_iter().find(|setting| setting.key == "agents.main.model");
    Ok(model.filter(|setting| setting.layer != "file").and_then(|setting| setting.at))
}

fn lay_out(done: &Done<'_>) -> String {
    let Done { model, answered_ms, file, added, .. } = done;
    let wrote = if added.is_empty() { "has it already" } else { "has it now" };
    let overridden = match &done.overridden_by {
        Some(place) => format!("But {place} sets another model and overrides the file.\n"),
        None => String::new(),
    };
    format!(
        "{model} answers ({answered_ms} ms). {file} {wrote}.\n{overridden}Next: limulus agent -m \"What is in this folder?\"\n"
    )
}
