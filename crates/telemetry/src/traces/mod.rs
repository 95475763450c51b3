//! Traces for a collector of OpenTelemetry, by its conventions for generative AI: a trace is a run and has its id, and in it are
//! its attempts, its requests and its calls. A run that a crash interrupts goes on in the same trace.

mod collector;
mod export;
mod ids;
mod otlp;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{CallOutcome, FailureClass, Outcome, RunId, Timestamp, Usage};
use tokio::sync::mpsc;

use crate::facts::{Answer, Fact, Model, Place};
use crate::name;

pub use collector::{Collector, CollectorError};

pub(crate) use export::Exporter;

use otlp::{Kind, Span, Value};

/// Spans that wait to be sent. A collector that is away for longer loses what comes after them.
const SPANS: usize = 8_192;

/// The runs whose end has not come, and the spans on their way to the collector.
#[derive(Debug)]
pub(crate) struct Traces {
    runs: HashMap<RunId, Attempt>,
    spans: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
}

/// What was begun with the run, or with its last retry.
#[derive(Debug)]
struct Attempt {
    number: u32,
    id: [u8; 8],
    began: Timestamp,
}

impl Attempt {
    fn new(run: RunId, number: u32, began: Timestamp) -> Self {
        // The number alone begins again with an owner that continues a run.
        Self { number, id: ids::span(run, &format!("attempt:{}:{number}", began.0)), began }
    }
}

/// Begins to send spans to a collector. Must be called inside a tokio runtime.
pub(crate) fn start(collector: Collector) -> (Traces, Exporter) {
    let (spans, waiting) = mpsc::channel(SPANS);
    let lost = Arc::default();
    let exporter = Exporter::start(collector, waiting, Arc::clone(&lost));
    (Traces { runs: HashMap::new(), spans, lost }, exporter)
}

impl Traces {
    pub(crate) fn record(&mut self, place: &Place<'_>, fact: &Fact<'_>) {
        let Some(run) = place.run else { return };
        match *fact {
            Fact::RunStarted { .. } | Fact::Recovered => {
                self.runs.insert(run, Attempt::new(run, 1, place.at));
            }
            Fact::RunEnded { agent, outcome, class, ms } => self.run_ended(place, run, (agent, outcome, class, ms)),
            Fact::RetryScheduled { .. } => {
                if let Some(attempt) = self.runs.remove(&run) {
                    let number = attempt.number + 1;
                    self.attempt_ended(run, &attempt, place.at, true);
                    self.runs.insert(run, Attempt::new(run, number, place.at));
                }
            }
            Fact::RequestEnded { id, model, answer, ms, usage, .. } => {
                self.request_ended((place, run), ids::span(run, &id.to_string()), model, (answer, ms, usage));
            }
            Fact::CallEnded { id, tool, outcome, ms: Some(ms) } => {
                self.call_ended((place, run), &id.to_string(), tool, (outcome, ms));
            }
            _ => {}
        }
    }

    fn run_ended(
        &mut self,
        place: &Place<'_>,
        run: RunId,
        (agent, outcome, class, ms): (&str, Outcome, Option<FailureClass>, Option<u64>),
    ) {
        if let Some(attempt) = self.runs.remove(&run) {
            self.attempt_ended(run, &attempt, place.at, outcome == Outcome::Failed);
        }
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::from("invoke_agent")),
            ("gen_ai.agent.name", agent.into()),
            ("gen_ai.conversation.id", place.session.into()),
            ("limulus.run.id", run.to_string().into()),
            ("limulus.run.outcome", outcome.name().into()),
        ];
        let error = match outcome {
            Outcome::Completed => None,
            Outcome::Failed => Some(class.map_or_else(|| outcome.name().to_owned(), FailureClass::name)),
            Outcome::Aborted | Outcome::Interrupted | Outcome::TimedOut | Outcome::Stalled => {
                Some(outcome.name().to_owned())
            }
        };
        attributes.extend(error.clone().map(|error| ("error.type", error.into())));
        self.send(Span {
            trace: ids::trace(run),
            id: ids::root(run),
            parent: None,
            name: format!("invoke_agent {agent}"),
            kind: Kind::Internal,
            time: (earlier(place.at, ms.unwrap_or(0)), place.at),
            attributes,
            error,
        });
    }

    fn attempt_ended(&self, run: RunId, attempt: &Attempt, at: Timestamp, is_failed: bool) {
        self.send(Span {
            trace: ids::trace(run),
            id: attempt.id,
            parent: Some(ids::root(run)),
            name: format!("attempt {}", attempt.number),
            kind: Kind::Internal,
            time: (attempt.began, at),
            attributes: vec![("limulus.attempt", i64::from(attempt.number).into())],
            error: is_failed.then(|| "failed".to_owned()),
        });
    }

    fn request_ended(
        &self,
        (place, run): (&Place<'_>, RunId),
        id: [u8; 8],
        Model { provider, model }: Model<'_>,
        (answer, ms, usage): (Answer, u64, Option<&Usage>),
    ) {
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::from("chat")),
            ("gen_ai.provider.name", provider.into()),
            ("gen_ai.request.model", model.into()),
            ("gen_ai.conversation.id", place.session.into()),
        ];
        if let Some(usage) = usage {
            attributes.extend([
                ("gen_ai.usage.input_tokens", tokens(usage.prompt())),
                ("gen_ai.usage.output_tokens", tokens(usage.output)),
                ("gen_ai.usage.cache_read.input_tokens", tokens(usage.cached)),
                ("gen_ai.usage.cache_creation.input_tokens", tokens(usage.cache_written)),
            ]);
        }
        let error = match answer {
            Answer::Answered => None,
            Answer::Failed(class) => Some(class.name()),
            Answer::Interrupted => Some(answer.name().to_owned()),
        };
        attributes.extend(error.clone().map(|error| ("error.type", error.into())));
        let (name, time) = (format!("chat {model}"), (earlier(place.at, ms), place.at));
        let parent = Some(self.parent(run));
        self.send(Span { trace: ids::trace(run), id, parent, name, kind: Kind::Client, time, attributes, error });
    }

    fn call_ended(&self, (place, run): (&Place<'_>, RunId), id: &str, tool: &str, (outcome, ms): (CallOutcome, u64)) {
        let error = (outcome != CallOutcome::Done).then(|| name(outcome));
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::from("execute_tool")),
            ("gen_ai.tool.name", tool.into()),
            ("gen_ai.tool.call.id", id.into()),
        ];
        attributes.extend(error.clone().map(|error| ("error.type", error.into())));
        self.send(Span {
            trace: ids::trace(run),
            id: ids::span(run, id),
            parent: Some(self.parent(run)),
            name: format!("execute_tool {tool}"),
            kind: Kind::Internal,
            time: (earlier(place.at, ms), place.at),
            attributes,
            error,
        });
    }

    /// The attempt, or the run.
    fn parent(&self, run: RunId) -> [u8; 8] {
        self.runs.get(&run).map_or_else(|| ids::root(run), |attempt| attempt.id)
    }

    fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn tokens(count: u64) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

fn earlier(at: Timestamp, ms: u64) -> Timestamp {
    Timestamp(at.0.saturating_sub_unsigned(ms))
}
