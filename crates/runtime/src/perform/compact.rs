//! `compact`: compacts the history by a model's summary, an extract, or truncated results. When dropped, it is
//! cancelled.

use std::sync::Arc;

use engine::{
    BodyKind, BudgetRequest, Candidate, CompactionResult, CompactionStep, Content, Failure, FailureClass, Grant, Hash,
    Item, Part, Report, Transcript, Usage,
};
use models::{Cached, Message, ModelEvent, Request};

use super::masked_answer::MaskedAnswer;
use super::{Reporter, request};
use crate::conversation::{self, Conversation};
use crate::runtime::Shared;
use crate::summary::{self, HistoryItem, PieceRequest};

/// Maximum tokens of a summary.
const SUMMARY_TOKENS: u64 = 8_192;

/// The assumed minimum characters of a token in the text to summarise.
const CHARS_PER_TOKEN: u64 = 3;

/// A history that is to be compacted.
pub(super) struct Order {
    pub(super) compaction_step: CompactionStep,
    /// The number of items that a summary replaces.
    pub(super) items: usize,
    pub(super) transcript: Transcript,
    pub(super) candidate: Candidate,
    /// The address that belongs to its credentials in this run.
    pub(super) address: Option<Hash>,
    pub(super) focus: Option<String>,
    /// The grant that a model's summary needs from the budgets of its run.
    pub(super) grant: Option<BudgetRequest>,
}

/// Why the compaction failed, and what it has spent.
struct Failed {
    failure: Failure,
    usage: Usage,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, usage: Usage::default() }
    }
}

pub(super) async fn perform(shared: Arc<Shared>, order: Order, reporter: Reporter) {
    let effect = reporter.effect();
    let report = match compact(&shared, order).await {
        Ok(made) => Report::Compacted { effect, made },
        Err(Failed { failure, usage }) => Report::NotCompacted { effect, failure, usage },
    };
    reporter.report(report).await;
}

async fn compact(shared: &Arc<Shared>, order: Order) -> Result<CompactionResult, Failed> {
    let Order { compaction_step, items, transcript, candidate, address, focus, grant } = order;
    let of = Arc::clone(shared);
    if compaction_step == CompactionStep::Truncate {
        return Ok(blocking(move || results(&of, &transcript)).await?);
    }
    let endpoint = if compaction_step == CompactionStep::Summarise {
        Some(request::endpoint(shared, &candidate, address).await?)
    } else {
        None
    };
    if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.api != models::Api::Offline) {
        let history = blocking(move || history(&of, &transcript, items)).await?;
        if let Some(request) = grant {
            request_grant(shared, &request)?;
        }
        return ask(shared, candidate, endpoint, history, focus.as_deref()).await;
    }
    let text = blocking(move || Ok(summary::extract(&history(&of, &transcript, items)?))).await?;
    let text = Content::text(BodyKind::Message, &text);
    Ok(CompactionResult::Summary { text, by: None, usage: Usage::default() })
}

/// The effect does not wait if a summary is denied: there are other compaction steps, and the next request needs its
/// own grant.
fn request_grant(shared: &Shared, request: &BudgetRequest) -> Result<(), Failure> {
    let denied = |why: String| Err(Failure::new(FailureClass::Refused, why));
    match shared.ask_to_spend(request) {
        Ok(Grant::Granted { .. }) => Ok(()),
        Ok(Grant::Denied { limit, .. }) => denied(format!("no budget for a summary: {}", limit.in_words())),
        Err(error) => Err(Failure::new(FailureClass::Store, error.to_string())),
    }
}

/// Processes what may be megabytes on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, journal::Error> + Send + 'static,
) -> Result<T, Failure> {
    let worked = tokio::task::spawn_blocking(work).await;
    let failed = |why: String| Failure::new(FailureClass::Refused, format!("the history could not be read: {why}"));
    worked.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

fn history(shared: &Shared, transcript: &Transcript, items: usize) -> Result<Vec<HistoryItem>, journal::Error> {
    let (mark, store) = (shared.resolver.mark(), shared.journal.as_ref());
    let mut conversation = Conversation::default();
    let messages = conversation.render(transcript, (items, 0..0), &mark, store)?;
    // Notes of limulus to the model are outdated, and are not requests of the user.
    let notes = transcript.items().iter().take(items).filter_map(|item| match item {
        Item::Note { body } => Some(conversation.text(body, store)),
        _ => None,
    });
    let notes = notes.collect::<Result<Vec<_>, _>>()?;
    let nothing: Vec<&str> = notes.iter().map(AsRef::as_ref).chain([conversation::CONTINUE_PROMPT]).collect();
    Ok(summary::history_items(&messages, &nothing))
}

/// Truncates all long results to their beginning and end.
fn results(shared: &Shared, transcript: &Transcript) -> Result<CompactionResult, journal::Error> {
    let store = shared.journal.as_ref();
    let long = transcript.items().iter().filter_map(Item::long_result);
    let truncate = |(call, output): (engine::CallId, engine::Body)| {
        let text = Conversation::default().text(&output, store)?;
        let hash = output.hash.to_string();
        Ok((call, Content::text(BodyKind::Output, &summary::truncate(&text, &hash[..12]))))
    };
    Ok(CompactionResult::Results(long.map(truncate).collect::<Result<_, journal::Error>>()?))
}

/// Asks a model for a summary, piece by piece if the history is too large for one request.
async fn ask(
    shared: &Arc<Shared>,
    candidate: Candidate,
    endpoint: models::Endpoint,
    history: Vec<HistoryItem>,
    focus: Option<&str>,
) -> Result<CompactionResult, Failed> {
    let candidate = Candidate { max_output: candidate.max_output.min(SUMMARY_TOKENS), ..candidate };
    // A request also holds the summary so far and the instructions.
    let piece_tokens =
        (candidate.context_window / 2).saturating_sub(2 * candidate.max_output.min(candidate.context_window / 8));
    let chars = (piece_tokens * CHARS_PER_TOKEN) as usize;
    let (history, chunks) = blocking(move || {
        let chunks = summary::chunks(&history, chars);
        Ok((history, chunks))
    })
    .await?;
    let (mut before, mut usage) = (None::<String>, Usage::default());
    for (at, chunk) in chunks.iter().enumerate() {
        let request = PieceRequest { focus, piece: (at + 1, chunks.len()), before: before.as_deref() };
        let (system, question) = summary::question(request, chunk);
        let request = Request {
            candidate: candidate.clone(),
            system: Arc::<str>::from(system).into(),
            messages: vec![Cached::from(Message::user(question))],
            tools: Cached::from(Arc::<[engine::ToolSpec]>::from([])),
            endpoint: endpoint.clone(),
            continues: false,
            cache_key: None,
            output_schema: None,
        };
        match answer(shared, request).await {
            Ok((text, cost)) => {
                usage.add(&cost);
                before = Some(text);
            }
            Err(Failed { failure, usage: cost }) => {
                usage.add(&cost);
                return Err(Failed { failure: named(failure, &candidate), usage });
            }
        }
    }
    let text = blocking(move || Ok(summary::completed(&before.unwrap_or_default(), &history))).await?;
    let by = Some(format!("{}/{}", candidate.provider, candidate.model));
    Ok(CompactionResult::Summary { text: Content::text(BodyKind::Message, &text), by, usage })
}

fn named(failure: Failure, candidate: &Candidate) -> Failure {
    let (provider, model) = (Some(candidate.provider.clone()), Some(candidate.model.clone()));
    Failure { provider, model, profile: candidate.profile.clone(), ..failure }
}

/// The text of a complete response, and its usage.
async fn answer(shared: &Arc<Shared>, request: Request) -> Result<(String, Usage), Failed> {
    let mut stream = MaskedAnswer::new(shared, request);
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Part(Part::Text(part)) => text.push_str(&part),
            // The part that is missing would be lost with the history, and the same request would be cut again.
            ModelEvent::Ended { stop_reason: Some(reason), usage, .. } => {
                let why = format!("the summary is incomplete: {}", reason.in_words());
                return Err(Failed { failure: Failure::new(FailureClass::InvalidRequest, why), usage });
            }
            ModelEvent::Ended { usage, .. } => return Ok((text, usage)),
            ModelEvent::Opened | ModelEvent::Part(_) => {}
        }
        if text.len() as u64 > engine::tables::limits::STREAM_BYTES {
            return Err(Failure::new(FailureClass::Malformed, "the summary was truncated at the token limit").into());
        }
    }
    Err(Failure::new(FailureClass::Network, "the summary stopped before its end mark").into())
}
