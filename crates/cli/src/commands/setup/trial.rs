//! Sends one tiny request to a model and waits for the first piece of its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ConfigError, FlagValues, Globals};
use engine::{Candidate, Failure, FailureClass};
use futures_util::StreamExt as _;
use models::{Api, Cached, Endpoint, Message, Model as _, ModelSet, Request};

use super::choice::Choice;
use crate::output::say_step;
use crate::render::SPINNER;

/// Timeout of the request: a local model may have to be loaded first.
const PATIENCE: Duration = Duration::from_mins(2);

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Maximum tokens of the answer: only its first piece is awaited, but some models think before it.
const ANSWER_TOKENS: u64 = 1_024;

/// Sends the request and waits for the first piece of the answer. Returns how long that took. No secret is in a failure.
pub(super) async fn ask(globals: &Globals, choice: &Choice) -> Result<u64, Failure> {
    let began = Instant::now();
    let refused = |error: ConfigError| Failure::new(FailureClass::Refused, format!("{error}\n{}", error.hint()));
    let environment = choice.environment(&globals.environment);
    let config = Config::load(&globals.home, &environment, FlagValues::default()).map_err(refused)?;
    let masked = |failure: Failure| {
        // A server may quote the key that it refuses.
        let secrets = tools::Secrets::new(config.secrets());
        Failure { message: secrets.mask(&failure.message), ..failure }
    };
    let (candidate, endpoint) = order(&config, choice).map_err(refused).map_err(masked)?;
    answer(candidate, endpoint, &choice.name()).await.map_err(masked)?;
    Ok(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// The models that the server of a choice lists; none if it has another API than that of OpenAI, or does not answer at once.
pub(super) async fn served(globals: &Globals, choice: &Choice) -> Vec<String> {
    let any = Choice { model: "any".to_owned(), ..choice.clone() };
    let config = Config::load(&globals.home, &any.environment(&globals.environment), FlagValues::default());
    match config.and_then(|config| order(&config, &any)) {
        Ok((_, endpoint)) if matches!(endpoint.api, Api::OpenAiChat | Api::OpenAiResponses) => {
            models::served_models(&endpoint).await.unwrap_or_default()
        }
        _ => vec![],
    }
}

async fn answer(candidate: Candidate, endpoint: Endpoint, model: &str) -> Result<(), Failure> {
    let messages = vec![Cached::from(Message::user("Say: ready."))];
    let system = Cached::from(Arc::<str>::from(""));
    let tools = Cached::from(vec![]);
    let (cache_key, output_schema) = (None, None);
    let request = Request { candidate, system, messages, tools, endpoint, continues: false, cache_key, output_schema };
    let mut stream = ModelSet::new().stream(request);
    let mut spinner = Spinner::new(model);
    let answer = async {
        loop {
            tokio::select! {
                event = stream.next() => return event,
                () = tokio::time::sleep(TICK) => spinner.turn(),
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    spinner.clear();
    match answer {
        Ok(Some(Ok(_))) => Ok(()),
        Ok(Some(Err(failure))) => Err(failure),
        Ok(None) => Err(Failure::new(FailureClass::Network, "the answer ended before it began")),
        Err(_) => {
            let what = format!("no answer in {} s", PATIENCE.as_secs());
            Err(Failure::new(FailureClass::Network, what))
        }
    }
}

/// The endpoint that a run would use after the change of the file. Only this command waits for a command that prints the key.
fn order(config: &Config, choice: &Choice) -> Result<(Candidate, Endpoint), ConfigError> {
    let mut candidate = config.candidate_of(&choice.name())?;
    candidate.max_output = candidate.max_output.min(ANSWER_TOKENS);
    let endpoint = config.endpoint(&candidate.provider, candidate.profile.as_deref())?;
    Ok((candidate, endpoint))
}

/// Shows a spinner on a terminal during the request.
struct Spinner<'a> {
    model: &'a str,
    ticks: usize,
}

impl<'a> Spinner<'a> {
    fn new(model: &'a str) -> Self {
        Self { model, ticks: 0 }
    }

    fn turn(&mut self) {
        self.ticks += 1;
        say_step(&format!("{} asking {} …", SPINNER[self.ticks % SPINNER.len()], self.model));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.ticks) > 0 {
            say_step("");
        }
    }
}
