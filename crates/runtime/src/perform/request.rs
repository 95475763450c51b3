//! `request`: sends a request to a model and reports its stream piece by piece. When dropped, it is cancelled.

use std::sync::Arc;
use std::time::Duration;

use engine::{
    Candidate, Failure, FailureClass, Hash, LedgerInput, Part, Report, Settings, Thinking, ThinkingLowered, Timestamp,
    ToolSpec,
};
use futures_util::FutureExt as _;
use models::{Cached, Endpoint, Message, ModelEvent, Request};
use tools::{SchemaChecker, StructuredError};

use super::Reporter;
use super::masked_answer::{MaskedAnswer, StreamEvent};
use crate::crashpoint;
use crate::ledger;
use crate::runtime::Shared;

/// Most events of a stream that are reported together; text that has come must not wait long for what follows it.
const PIECES: usize = 64;

/// How often another task may run while nothing comes: the chunks that end an answer carry no event until the last one.
const YIELDS: u32 = 4;

/// A request without its endpoint: keys are resolved when it is sent and are in no record.
pub(super) struct Order {
    pub(super) candidate: Candidate,
    /// The address that belongs to its credentials in this run.
    pub(super) address: Option<Hash>,
    /// The thinking level of the settings, if the model has refused it in this run.
    pub(super) refused: Option<Thinking>,
    /// Whether its provider has no other profile in the run's settings.
    pub(super) alone: bool,
    pub(super) system: Cached<Arc<str>>,
    pub(super) messages: Vec<Cached<Message>>,
    pub(super) tools: Cached<Arc<[ToolSpec]>>,
    pub(super) continues: bool,
    pub(super) cache_key: Arc<str>,
    /// What the answer is to fit, if anything.
    pub(super) to_fit: Option<ToFit>,
}

/// The schema that an answer is to fit.
pub(super) struct ToFit {
    /// Settings with a schema.
    pub(super) settings: Arc<Settings>,
    /// What this step has of its answer already, if that was cut: the parts together are the answer.
    pub(super) parts: Vec<Arc<str>>,
}

pub(super) async fn perform(shared: Arc<Shared>, order: Order, reporter: Reporter) {
    let effect = reporter.effect();
    let Order { candidate, address, refused, alone, system, messages, tools, continues, cache_key, to_fit } = order;
    let output_schema = to_fit.as_ref().and_then(|to_fit| to_fit.settings.output_schema.clone()).map(Arc::new);
    let mut answer = to_fit.map(Answer::to_fit);
    let (asked, since) = (candidate.clone(), shared.clock.now());
    let sends_schema = asked.structured_output && output_schema.is_some() && !continues;
    // Every failure names its candidate, whatever its source.
    let named = |mut failure: Failure| {
        if sends_schema {
            explain_schema(&mut failure, &asked);
        }
        failure.provider = Some(asked.provider.clone());
        failure.model = Some(asked.model.clone());
        failure.profile.clone_from(&asked.profile);
        failure
    };
    let endpoint = match endpoint(&shared, &candidate, address).await {
        Ok(endpoint) => endpoint,
        Err(failure) => return reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await,
    };
    let lowered = lowered(&candidate, refused, &endpoint);
    let cache_key = Some(cache_key);
    let request = Request { candidate, system, messages, tools, endpoint, continues, cache_key, output_schema };
    let mut stream = MaskedAnswer::new(&shared, request);
    crashpoint::hit("request_sent");
    while let Some(first) = stream.next().await {
        for event in ready_now(first, &mut stream).await {
            let report = match event {
                Ok(ModelEvent::Opened) => Report::RequestOpened { effect },
                Ok(ModelEvent::Part(part)) => {
                    if let Some(answer) = &mut answer {
                        answer.add(&part);
                    }
                    Report::Streamed { effect, part }
                }
                Ok(ModelEvent::Ended { usage, stop_reason, .. }) => {
                    // Reported at once: the effect is stopped when its end is decided.
                    answered(&shared, asked, alone, since);
                    remember_level(&shared, lowered);
                    let schema_mismatch = match answer {
                        Some(answer) => answer.schema_mismatch().await,
                        None => None,
                    };
                    return reporter.report(Report::RequestEnded { effect, usage, stop_reason, schema_mismatch }).await;
                }
                Err(failure) => {
                    return reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await;
                }
            };
            reporter.report(report).await;
        }
    }
    let failure = Failure::new(FailureClass::Network, "the response ended before its end mark");
    reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await;
}

/// An answer that is to fit a schema.
struct Answer {
    settings: Arc<Settings>,
    text: String,
    has_calls: bool,
}

impl Answer {
    fn to_fit(ToFit { settings, parts }: ToFit) -> Self {
        let mut answer = Self { settings, text: String::new(), has_calls: false };
        for part in &parts {
            answer.add_text(part);
        }
        answer
    }

    fn add(&mut self, part: &Part) {
        match part {
            Part::Text(text) => self.add_text(text),
            Part::Call { .. } => self.has_calls = true,
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        // More than that is no answer: it is not looked at any further.
        if self.text.len() <= tools::STRUCTURED_BYTES {
            self.text += text;
        }
    }

    /// Why it does not fit. A message with calls is no answer yet. If nobody knows whether it fits, it is not asked for again: the
    /// client says why.
    async fn schema_mismatch(self) -> Option<String> {
        let Self { settings, text, has_calls } = self;
        let schema = settings.output_schema.as_ref().filter(|_| !has_calls)?;
        let checker = SchemaChecker::of_this_program();
        let checking = checker.structured(schema.clone(), text);
        // The clock of the request goes on: a check that takes long, or waits for others, must not look like a silent answer.
        let most = Duration::from_millis(settings.limits.idle_timeout_ms / 2);
        match tokio::time::timeout(most, checking).await {
            Ok(Err(StructuredError::Mismatch(why))) => Some(why),
            Ok(Err(StructuredError::Unchecked(_)) | Ok(_)) | Err(_) => None,
        }
    }
}

/// What providers call the field with the schema of an answer.
const SCHEMA_FIELDS: &[&str] = &[
    "response_format",
    "text.format",
    "output_config",
    "output_format",
    "json_schema",
    "responsejsonschema",
    "responsemimetype",
    "response_mime_type",
];

/// Says how to leave the schema out, if a provider has refused a request because of it.
fn explain_schema(failure: &mut Failure, candidate: &Candidate) {
    let said = failure.message.to_lowercase().replace(' ', "_");
    if failure.class == FailureClass::InvalidRequest && SCHEMA_FIELDS.iter().any(|field| said.contains(field)) {
        let Candidate { provider, model, .. } = candidate;
        let hint = format!(
            "`structured_output = false` in [models.\"{provider}/{model}\"] leaves the schema of the answer out of requests: the model \
             then reads it in its instructions only."
        );
        failure.message = format!("{}\n{hint}", failure.message);
    }
}

/// Where the request goes now. Credentials only go where they went when the run began: whoever changes an address in the
/// configuration must not get the key that is used with it.
pub(super) async fn endpoint(
    shared: &Arc<Shared>,
    candidate: &Candidate,
    address: Option<Hash>,
) -> Result<Endpoint, Failure> {
    let endpoint = if shared.resolver.may_block(candidate) {
        let (of, asked) = (Arc::clone(shared), candidate.clone());
        // If the run ends meanwhile, this future is dropped, and what it holds with it.
        let held = Arc::new(());
        let awaits = Arc::downgrade(&held);
        let is_awaited = move || awaits.strong_count() > 0;
        let resolving = tokio::task::spawn_blocking(move || of.resolver.endpoint_while(&asked, &is_awaited));
        resolving.await.expect("it neither panics nor is cancelled")?
    } else {
        shared.resolver.endpoint(candidate)?
    };
    if !endpoint.has_credentials() || address.is_none_or(|address| address == endpoint.address()) {
        return Ok(endpoint);
    }
    let message = format!(
        "{} was not asked: its address, its proxy or its token server has changed since this run began (it is at {} now), and \
         its credentials only go where they went then\nSend the message again: a new run uses the new address. Or restore \
         the old one in config.toml.",
        candidate.provider,
        endpoint.host()
    );
    Err(Failure::new(FailureClass::Refused, message))
}

/// The events that are there, beginning with this one. Each chunk of a body passes through the task of its connection, so
/// whatever arrived together is only seen together if that task runs in between; else each piece costs a commit.
async fn ready_now(first: StreamEvent, stream: &mut MaskedAnswer) -> Vec<StreamEvent> {
    let (mut events, mut yields) = (vec![first], 0);
    while events.len() < PIECES {
        match stream.next().now_or_never() {
            Some(Some(event)) => {
                events.push(event);
                yields = 0;
            }
            None if yields < YIELDS => {
                tokio::task::yield_now().await;
                yields += 1;
            }
            Some(None) | None => break,
        }
    }
    events
}

/// The level that the model accepts instead of one that it has refused.
fn lowered(candidate: &Candidate, refused: Option<Thinking>, endpoint: &Endpoint) -> Option<ThinkingLowered> {
    let (asked, accepted) = refused.zip(candidate.thinking)?;
    let (provider, model) = (candidate.provider.clone(), candidate.model.clone());
    let config = ledger::level_config(endpoint, candidate);
    Some(ThinkingLowered { provider, model, asked, accepted, config })
}

/// Notifies the ledger of an accepted level that it does not know, so that later runs begin there. The answer does not
/// wait for the record, and an abort in between would lose it. The record is ahead of the end of the run in the journal,
/// since the process may end with this run.
fn remember_level(shared: &Arc<Shared>, lowered: Option<ThinkingLowered>) {
    let now = shared.clock.now();
    if let Some(lowered) = lowered.filter(|lowered| shared.ledger.is_lowered_anew(lowered, now)) {
        // If this report is lost, the next response repeats it.
        drop(ledger::begin_record(shared, LedgerInput::Lowered(lowered)));
    }
}

/// Notifies the ledger if that changes which candidate anyone asks.
fn answered(shared: &Arc<Shared>, candidate: Candidate, alone: bool, since: Timestamp) {
    if shared.ledger.is_update(&candidate, alone, since) {
        // If this report is lost, the next response repeats it.
        drop(ledger::begin_record(shared, LedgerInput::Answered { candidate, alone, since }));
    }
}
