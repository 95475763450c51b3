//! `limulus setup`: finds or asks for a usable model, tries it, and writes it into the configuration, with a reference to its key.
//! A typed key goes into a file of its own, which only the user may read.

mod choice;
mod dialogue;
mod file;
mod flags;
mod found;
mod keys;
#[cfg(test)]
mod page;
mod questions;
mod select;
mod trial;

use config::{Config, FlagValues, Globals, KeyPath, file_of};
use models::{ProviderPreset, provider_preset};
use serde::Serialize;

use self::choice::{Choice, Given};
use self::dialogue::Dialogue;
use self::file::Change;
pub(crate) use self::flags::SetupArgs;
use self::found::Found;
use self::questions::Questions;
use self::select::Picked;
use crate::error::{CliError, Exit};
use crate::show::{json, print, worded};
use crate::{deprecation, prompt};

/// The result of the setup.
#[derive(Debug, Serialize)]
struct Done<'a> {
    found: &'a [Found],
    model: String,
    /// Milliseconds to the first piece of its answer.
    answered_ms: u64,
    file: String,
    /// The lines added to the file; empty if they were there already.
    added: Vec<String>,
    removed: Vec<String>,
    /// The file that got the typed key, if one was typed.
    key_file: Option<String>,
    /// The layer that overrides this model, if one does.
    overridden_by: Option<String>,
}

pub(crate) async fn run(args: SetupArgs, globals: &Globals) -> Result<(), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let dialogue = Dialogue::new(args.yes)?;
    if prompt::is_possible() {
        prompt::leave_on_signals();
    }
    let given = args.given(&config)?;
    let found = if given.is_some() { vec![] } else { found::look(&config, &globals.environment).await };
    if given.is_none() && found.is_empty() && args.yes {
        return Err(nothing());
    }
    let questions = Questions { answers: dialogue.answers(), config: &config, globals };
    let is_named = given.is_some();
    let (chosen, answered_ms) = choose(&dialogue, &questions, &found, given).await?;
    let file = file_of(globals, &KeyPath::parse("agents.main.model")?);
    let change = Change::plan(&file, &chosen, &config)?;
    if change.is_needed() {
        if args.yes && !is_named && change.replaces_a_model() {
            let what = format!("{} has another model already; nothing was changed", file.display());
            let hint =
                "`limulus setup` without --yes shows the change and asks; --provider NAME replaces it".to_owned();
            return Err(CliError::Refused { exit: Exit::Refused, what, hint });
        }
        dialogue.confirm(&change)?;
    }
    let key_file = chosen.key_file(&globals.home);
    if let Some((path, key)) = &key_file {
        keys::write(path, key).map_err(|error| file::failed(path, &error))?;
    }
    if change.is_needed() {
        change.write()?;
    }
    let overridden_by = overriding(globals)?;
    let (added, removed) = change.lines();
    let key_file = key_file.map(|(path, _)| path.display().to_string());
    let (model, shown) = (chosen.name(), file.display().to_string());
    let done = Done { found: &found, model, answered_ms, file: shown, added, removed, key_file, overridden_by };
    print(&if args.json { json(&done) } else { worded(lay_out(&done)) })
}

/// Lets the user choose until a model answers. Without a dialogue the first one must answer.
async fn choose(
    dialogue: &Dialogue,
    questions: &Questions<'_>,
    found: &[Found],
    given: Option<Given>,
) -> Result<(Choice, u64), CliError> {
    let mut next = match given {
        Some(given) => Some((given.preset, questions.complete(&given).await?)),
        None => None,
    };
    let mut is_listed = false;
    loop {
        let (preset, choice) = if let Some(next) = next.take() {
            next
        } else {
            if !std::mem::replace(&mut is_listed, true) {
                dialogue.list(found);
            }
            match dialogue.choose(found)? {
                Picked::Preset(preset) => (preset, questions.complete(&Given::nothing(preset)).await?),
                Picked::Found(found) => (preset_of(found)?, found.choice(questions.config)),
            }
        };
        match trial::ask(questions.globals, &choice).await {
            Ok(answered_ms) => return Ok((choice, answered_ms)),
            Err(failure) => {
                next = match dialogue.failed(preset, &choice, &failure)? {
                    Some(given) => Some((preset, questions.complete(&given).await?)),
                    None => None,
                };
            }
        }
    }
}

fn preset_of(found: &Found) -> Result<&'static ProviderPreset, CliError> {
    provider_preset(found.provider()).ok_or_else(|| CliError::bug("a provider was found that is not known"))
}

fn nothing() -> CliError {
    CliError::not_found(
        "no key of a known provider is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, DEEPSEEK_API_KEY and so on), and no Ollama with a \
         model answers; nothing was changed",
        "`limulus setup` on a terminal asks for a provider and its key, `limulus setup --provider NAME --key-stdin --yes` takes \
         them from a script; until then the built-in offline model answers: limulus agent -m \"What is in this folder?\"",
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
    let key = match &done.key_file {
        Some(path) => format!("Its key is in {path}, which only you can read.\n"),
        None => String::new(),
    };
    let overridden = match &done.overridden_by {
        Some(place) => format!("But {place} sets another model and overrides the file.\n"),
        None => String::new(),
    };
    format!(
        "{model} answers ({answered_ms} ms). {file} {wrote}.\n{key}{overridden}Next: limulus models check, then limulus agent \
         -m \"What is in this folder?\"\n"
    )
}
