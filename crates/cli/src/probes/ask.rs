//! One small request and its observed response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Candidate, Failure, FailureClass, Part, ToolSpec, Usage};
use futures_util::StreamExt as _;
use models::{Cached, Endpoint, File, Levels, Message, Model as _, ModelEvent, ModelSet, Request};

use crate::show::human::excerpt;

/// Timeout of a request: a local model may have to be loaded first.
const LIMIT: Duration = Duration::from_mins(2);

/// Maximum tokens of an answer: enough for a model that thinks before it writes a few words, at a negligible cost.
const MOST_OUTPUT: u64 = 2_048;

/// The system prompt of every request, unless a probe has its own.
const SYSTEM: &str = "This is a check of the connection. Do just what is asked, in as few words as you can.";

/// The model and endpoint that a probe uses.
pub(crate) struct Asker {
    models: ModelSet,
    pub(super) candidate: Candidate,
    endpoint: Endpoint,
    /// The thinking levels of the model.
    pub(super) levels: Option<Levels>,
}

/// A request of a probe.
#[derive(Debug, Default)]
pub(super) struct ProbeRequest {
    /// The system prompt; if empty, the usual one.
    pub(super) system: String,
    pub(super) text: &'static str,
    pub(super) files: Vec<File>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) thinking: Option<engine::Thinking>,
}

/// The response of a model to a probe.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) text: String,
    /// Number of received pieces of text and calls.
    pub(super) pieces: usize,
    pub(super) reasoning: String,
    /// The tools that were called, with their arguments.
    pub(super) calls: Vec<(String, String)>,
    pub(super) usage: Usage,
    /// Whether the provider counted the usage itself.
    pub(super) is_counted: bool,
    /// Milliseconds to the first piece.
    pub(super) first_ms: Option<u64>,
    /// Milliseconds to the end.
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

    /// Sends the request and waits for the end of the answer.
    pub(super) async fn ask(&self, request: ProbeRequest) -> Observed {
        let ProbeRequest { system, text, files, tools, thinking } = request;
        let system = if system.is_empty() { SYSTEM.to_owned() } else { system };
        let request = Request {
            candidate: Candidate {
                max_output: self.candidate.max_output.min(MOST_OUTPUT),
                thinking,
                // The probe has to find out whether the model sees images.
                images: true,
                structured_output: false,
                sampling: engine::Sampling::default(),
                ..self.candidate.clone()
            },
            system: Cached::from(Arc::from(system)),
            messages: vec![Cached::from(Message::User { text: text.into(), files })],
            tools: Cached::from(Arc::from(tools)),
            endpoint: self.endpoint.clone(),
            continues: false,
            cache_key: Some("limulus-models-check".into()),
            output_schema: None,
        };
        let began = Instant::now();
        let mut observed = Observed::default();
        if tokio::time::timeout(LIMIT, self.listen(request, began, &mut observed)).await.is_err() {
            let message = format!("no whole answer within {} s", LIMIT.as_secs());
            observed.failure = Some(Failure::new(FailureClass::Timeout, message));
        }
        observed.ms = ms_since(began);
        observed
    }

    async fn listen(&self, request: Request, began: Instant, observed: &mut Observed) {
        let mut stream = self.models.stream(request);
        while let Some(event) = stream.next().await {
            match event {
                Ok(ModelEvent::Opened) => {}
                Ok(ModelEvent::Part(part)) => {
                    observed.first_ms.get_or_insert_with(|| ms_since(began));
                    observed.take(part);
                }
                Ok(ModelEvent::Ended { usage, is_counted, .. }) => {
                    (observed.usage, observed.is_counted) = (usage, is_counted);
                }
                Err(failure) => observed.failure = Some(failure),
            }
        }
    }
}

impl Observed {
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

    /// The failure of the request, on one line.
    pub(super) fn refusal(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(failure.message.lines().next().unwrap_or_default().to_owned())
    }

    /// The quoted answer, shortened to one line.
    pub(super) fn quoted(&self) -> String {
        format!("“{}”", excerpt(&self.text, 60))
    }
}

fn ms_since(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}
