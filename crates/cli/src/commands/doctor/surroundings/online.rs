//! `limulus doctor --online`: sends one tiny request to each provider that is in use.

use config::{Config, Globals};

use super::{Level, Look};
use crate::output::say_step;
use crate::probes::{Answer, Asker};

/// Providers that are asked; of further ones only the number is reported.
const MOST: usize = 16;

/// Asks the first model in use of each provider. On a terminal a line on stderr shows which.
pub(crate) async fn ask(globals: &Globals) -> Vec<Look> {
    // What keeps it from being read is in another section.
    let Ok(config) = globals.load(config::FlagValues::default()) else { return vec![] };
    let models = config.models_to_try();
    let mut looks = vec![];
    for model in models.iter().take(MOST) {
        say_step(&format!("asking {model} …"));
        looks.push(ask_one(&config, model).await);
    }
    say_step("");
    if models.len() > MOST {
        looks.push(look(Level::Note, format!("{} more were not asked", models.len() - MOST), None));
    }
    if models.is_empty() {
        looks.push(look(Level::Note, "no provider is configured: nobody was asked".to_owned(), None));
    }
    looks
}

async fn ask_one(config: &Config, model: &str) -> Look {
    let route = config.candidate_of(model).and_then(|candidate| {
        let endpoint = config.endpoint(&candidate.provider, candidate.profile.as_deref())?;
        Ok((candidate, endpoint))
    });
    match route {
        Err(error) => look(Level::Warning, format!("{model}: {error}"), Some(error.hint())),
        Ok((candidate, endpoint)) => match Asker::new(candidate, endpoint, None).answers().await {
            Answer::Came { ms } => look(Level::Ok, format!("{model} answers ({ms} ms)"), None),
            Answer::Refused { why, hint } => {
                let hint = hint.unwrap_or_else(|| format!("`limulus models check {model}` says more"));
                look(Level::Warning, format!("{model} does not answer: {why}"), Some(hint))
            }
        },
    }
}

fn look(level: Level, text: String, hint: Option<String>) -> Look {
    Look { section: "online", name: "answer", level, text, hint }
}
