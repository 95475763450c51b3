//! One small request, and all that came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Candidate, Failure, FailureClass, Part, ToolSpec, Usage};
use futures_util::StreamExt as _;
use models::{Cached, Endpoint, File, Levels, Message, Model as _, ModelEvent, ModelSet, Request};

use crate::show::human::excerpt;

/// How long one request may take: a local model may have to be loaded first.
const LIMIT: Duration = Duration::from_mins(2);

/// Tokens that an answer may have: enough for a model that thinks before its few words, and no cost to speak of.
const MOST_OUTPUT: u64 = 2_048;

/// What every request begins with, unless a probe has its own.
const SYSTEM: &str = "This is a check of the connection. Do just what is asked, in as few words as you can.";

/// Who is asked.
pub(crate) struct Asker {
    models: ModelSet,
    pub(super) candidate: Candidate,
    endpoint: Endpoint,
    /// How it can be asked to think.
    pub(super) levels: Option<Levels>,
}

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Question {
    /// What it begins with; empty for the usual words.
    pub(super) system: String,
    pub(super) text: &'static str,
    pub(super) files: Vec<File>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) thinking: Option<engine::Thinking>,
}

/// What came.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) text: String,
    /// Pieces of text and of calls.
    pub(super) pieces: usize,
    pub(super) reasoning: String,
    /// The tools that were called, with their arguments.
    pub(super) calls: Vec<(String, String)>,
    pub(super) usage: Usage,
    /// Whether the usage is the provider's own count.
    pub(super) is_counted: bool,
    /// Until the first piece.
    pub(super) first_ms: Option<u64>,
    /// Until the end.
    pub(super) ms: u64,
    pub(super) failure: Option<Failure>,
}

impl Asker {
    pub(crate) fn new(candidate: Candidate, endpoint: Endpoint, levels: Option<Levels>) -> Self {
        Self { models: ModelSet::new(), candidate, endpoint, levels }
    }

    /// Whether a key is sent.
    pub(super) fn has_key(&self) -> bool {
        self.endpoint.key.is_some() || self.endpoint.login.is_some()
    }

    /// The format that is spoken.
    pub(super) fn api(&self) -> models::Api {
        self.endpoint.api
    }

    /// Asks, and waits for the end of the answer.
    pub(super) async fn ask(&self, question: Question) -> Heard {
        let Question { system, text, files, tools, thinking } = question;
        let system = if system.is_empty() { SYSTEM.to_owned() } else { system };
        let request = Request {
            candidate: Candidate {
                max_output: self.candidate.max_output.min(MOST_OUTPUT),
                thinking,
                // Whether it sees images is what is to be found out.
                images: true,
                ..self.candidate.clone()
            },
            system: Cached::from(Arc::from(system)),
            messages: vec![Cached::from(Message::User { text: text.into(), files })],
            tools: Cached::from(Arc::from(tools)),
            endpoint: self.endpoint.clone(),
            cache_key: Some("limulus-models-check".into()),
        };
        let began = Instant::now();
        let mut observed = Heard::default();
        if tokio::time::timeout(LIMIT, self.listen(request, began, &mut observed)).await.is_err() {
            let message = format!("no whole answer within {} s", LIMIT.as_secs());
            observed.failure = Some(Failure::new(FailureClass::Timeout, message));
        }
        observed.ms = ms_since(began);
        observed
    }

    async fn listen(&self, request: Request, began: Instant, observed: &mut Heard) {
        let mut stream = self.models.stream(request);
        while let Some(said) = stream.next().await {
            match said {
                Ok(ModelEvent::Opened) => {}
                Ok(ModelEvent::Part(part)) => {
                    observed.first_ms.get_or_insert_with(|| ms_since(began));
                    observed.take(part);
                }
                Ok(ModelEvent::Ended { usage, is_counted }) => {
                    (observed.usage, observed.is_counted) = (usage, is_counted)
                }
                Err(failure) => observed.failure = Some(failure),
            }
        }
    }
}

impl Heard {
    fn take(&mut self, part: Part) {
        match part {
            Part::Text(text) => {
                self.pieces += 1;
                self.text.push_str(&text);
            }
            Part::Reasoning(text) => self.reasoning.push_str(&text),
            Part::Call { name: Some(name), arguments, .. } => {
                self.pieces += 1;
                self.calls.push((name, arguments));
            }
            Part::Call { index, arguments, .. } => {
                self.pieces += 1;
                if let Some((_, known)) = self.calls.get_mut(index as usize) {
                    known.push_str(&arguments);
                }
            }
            Part::Signature { .. } | Part::Image(_) => {}
        }
    }

    /// What the server answered instead, on one line.
    pub(super) fn refusal(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(failure.message.lines().next().unwrap_or_default().to_owned())
    }

    /// What it said, on one short line.
    pub(super) fn quoted(&self) -> String {
        format!("“{}”", excerpt(&self.text, 60))
    }
}

fn ms_since(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}
