//! Sends one tiny request to a model and waits for the first piece of its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ConfigError};
use engine::{Candidate, Failure, FailureClass};
use futures_util::StreamExt as _;
use models::{Api, Cached, Endpoint, Message, Model as _, ModelSet, Request};

use super::found::{By, Found};
use crate::output::say_step;
use crate::render::SPINNER;

/// Timeout of the request: a local model may have to be loaded first.
const PATIENCE: Duration = Duration::from_mins(2);

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Maximum tokens of the answer: only its first piece is awaited, but some models think before it.
const ANSWER_TOKENS: u64 = 1_024;

/// Sends the request and waits for the first piece of the answer. Returns how long that took.
pub(super) async fn ask(config: &Config, found: &Found) -> Result<u64, Failure> {
    let began = Instant::now();
    let (candidate, endpoint) = order(config, found)
        .map_err(|error| Failure::new(FailureClass::Refused, format!("{error}\n{}", error.hint())))?;
    let messages = vec![Cached::from(Message::user("Say: ready."))];
    let system = Cached::from(Arc::<str>::from(""));
    let tools = Cached::from(vec![]);
    let request = Request { candidate, system, messages, tools, endpoint, continues: false, cache_key: None };
    let mut stream = ModelSet::new().stream(request);
    let mut spinner = Spinner::new(&found.model);
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
        Ok(Some(Ok(_))) => Ok(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
        Ok(Some(Err(failure))) => Err(failure),
        Ok(None) => Err(Failure::new(FailureClass::Network, "the answer ended before it began")),
        Err(_) => {
            let what = format!("no answer in {} s", PATIENCE.as_secs());
            Err(Failure::new(FailureClass::Network, what))
        }
    }
}

/// The endpoint that a run would use after the change of the file.
fn order(config: &Config, found: &Found) -> Result<(Candidate, Endpoint), ConfigError> {
    let mut candidate = config.candidate_of(&found.model)?;
    candidate.max_output = candidate.max_output.min(ANSWER_TOKENS);
    let mut endpoint = match &found.by {
        By::Address(address) if !config.is_configured(found.provider()) => {
            Endpoint::new(Api::Ollama, address.clone(), None)
        }
        By::Address(_) | By::Variable(_) => config.endpoint(&candidate.provider, candidate.profile.as_deref())?,
    };
    if let By::Variable(variable) = found.by {
        endpoint.key = endpoint.key.or_else(|| config.key_in(variable));
    }
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
