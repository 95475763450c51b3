//! `compact`: the history made shorter, by a model's summary, an extract, or long results cut. Dropped, it is cancelled.

use std::sync::Arc;

use engine::{
    BodyKind, BudgetRequest, Candidate, CompactionResult, CompactionStep, Content, Failure, FailureClass, Grant, Item,
    Part, Report, Transcript, Usage,
};
use futures_util::StreamExt as _;
use models::{Cached, Message, Model as _, ModelEvent, Request};

use super::Reporter;
use crate::conversation::{self, Conversation};
use crate::runtime::Shared;
use crate::summary::{self, PieceRequest, Told};

/// Tokens of a summary at most.
const SUMMARY_TOKENS: u64 = 8_192;

/// Characters that a token of what is to be summarised is taken to have at least.
const CHARS_PER_TOKEN: u64 = 3;

/// A history that is to be made shorter.
pub(super) struct Order {
    pub(super) compaction_step: CompactionStep,
    /// How many items a summary stands for.
    pub(super) items: usize,
    pub(super) transcript: Transcript,
    pub(super) candidate: Candidate,
    pub(super) focus: Option<String>,
    /// The leave that a model's summary needs of those who spend with its run.
    pub(super) grant: Option<BudgetRequest>,
}

/// Why there is none, and what was taken all the same.
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
    let report = match shorten(&shared, order).await {
        Ok(made) => Report::Compacted { effect, made },
        Err(Failed { failure, usage }) => Report::NotCompacted { effect, failure, usage },
    };
    reporter.report(report).await;
}

async fn shorten(shared: &Arc<Shared>, order: Order) -> Result<CompactionResult, Failed> {
    let Order { compaction_step, items, transcript, candidate, focus, grant } = order;
    let of = Arc::clone(shared);
    if compaction_step == CompactionStep::Truncate {
        return Ok(beside(move || results(&of, &transcript)).await?);
    }
    let endpoint =
        if compaction_step == CompactionStep::Summarise { Some(shared.resolver.endpoint(&candidate)?) } else { None };
    if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.api != models::Api::Offline) {
        let told = beside(move || told(&of, &transcript, items)).await?;
        if let Some(request) = grant {
            ask_leave(shared, &request)?;
        }
        return ask(shared, candidate, endpoint, told, focus.as_deref()).await;
    }
    let text = beside(move || Ok(summary::extract(&told(&of, &transcript, items)?))).await?;
    let text = Content::text(BodyKind::Message, &text);
    Ok(CompactionResult::Summary { text, by: None, usage: Usage::default() })
}

/// A summary that is denied is not waited for: there are other ways, and the request that follows asks for itself.
fn ask_leave(shared: &Shared, request: &BudgetRequest) -> Result<(), Failure> {
    let denied = |why: String| Err(Failure::new(FailureClass::Refused, why));
    match shared.ask_to_spend(request) {
        Ok(Grant::Granted { .. }) => Ok(()),
        Ok(Grant::Denied { limit, .. }) => denied(format!("no leave for a summary: {}", limit.in_words())),
        Err(error) => Err(Failure::new(FailureClass::Store, error.to_string())),
    }
}

/// Works through what may be megabytes beside the threads that serve others.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, journal::Error> + Send + 'static,
) -> Result<T, Failure> {
    let worked = tokio::task::spawn_blocking(work).await;
    let failed = |why: String| Failure::new(FailureClass::Refused, format!("the history could not be read: {why}"));
    worked.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

fn told(shared: &Shared, transcript: &Transcript, items: usize) -> Result<Vec<Told>, journal::Error> {
    let (mark, store) = (shared.resolver.mark(), shared.journal.as_ref());
    let mut conversation = Conversation::default();
    let messages = conversation.render(transcript, items, &mark, store)?;
    // What limulus itself told the model was for its time, and is no request of the user.
    let notes = transcript.items().iter().take(items).filter_map(|item| match item {
        Item::Note { body } => Some(conversation.text(body, store)),
        _ => None,
    });
    let notes = notes.collect::<Result<Vec<_>, _>>()?;
    let nothing: Vec<&str> = notes.iter().map(AsRef::as_ref).chain([conversation::GO_ON]).collect();
    Ok(summary::told(&messages, &nothing))
}

/// All long results, each as its beginning and its end.
fn results(shared: &Shared, transcript: &Transcript) -> Result<CompactionResult, journal::Error> {
    let store = shared.journal.as_ref();
    let long = transcript.items().iter().filter_map(Item::long_result);
    let cut = |(call, output): (engine::CallId, engine::Body)| {
        let text = Conversation::default().text(&output, store)?;
        let hash = output.hash.to_string();
        Ok((call, Content::text(BodyKind::Output, &summary::cut(&text, &hash[..12]))))
    };
    Ok(CompactionResult::Results(long.map(cut).collect::<Result<_, journal::Error>>()?))
}

/// A model's summary, piece after piece where the history is too large for one request.
async fn ask(
    shared: &Shared,
    candidate: Candidate,
    endpoint: models::Endpoint,
    told: Vec<Told>,
    focus: Option<&str>,
) -> Result<CompactionResult, Failed> {
    let candidate = Candidate { max_output: candidate.max_output.min(SUMMARY_TOKENS), ..candidate };
    // A summary so far, and the words around it, are in a request as well.
    let room =
        (candidate.context_window / 2).saturating_sub(2 * candidate.max_output.min(candidate.context_window / 8));
    let chars = (room * CHARS_PER_TOKEN) as usize;
    let (told, chunks) = beside(move || {
        let chunks = summary::chunks(&told, chars);
        Ok((told, chunks))
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
            cache_key: None,
        };
        match answer(shared, request).await {
            Ok((text, cost)) => {
                usage.add(&cost);
                before = Some(text);
            }
            Err(failure) => return Err(Failed { failure: named(failure, &candidate), usage }),
        }
    }
    let text = beside(move || Ok(summary::completed(&before.unwrap_or_default(), &told))).await?;
    let by = Some(format!("{}/{}", candidate.provider, candidate.model));
    Ok(CompactionResult::Summary { text: Content::text(BodyKind::Message, &text), by, usage })
}

fn named(failure: Failure, candidate: &Candidate) -> Failure {
    let (provider, model) = (Some(candidate.provider.clone()), Some(candidate.model.clone()));
    Failure { provider, model, profile: candidate.profile.clone(), ..failure }
}

/// The text of a whole answer, and what it cost.
async fn answer(shared: &Shared, request: Request) -> Result<(String, Usage), Failure> {
    let mut stream = shared.models.stream(request);
    let mut text = String::new();
    while let Some(said) = stream.next().await {
        match said? {
            ModelEvent::Part(Part::Text(part)) => text.push_str(&part),
            ModelEvent::Ended { usage, .. } => return Ok((text, usage)),
            ModelEvent::Opened | ModelEvent::Part(_) => {}
        }
        if text.len() as u64 > engine::tables::limits::STREAM_BYTES {
            return Err(Failure::new(FailureClass::Malformed, "the summary has no end; it was cut off"));
        }
    }
    Err(Failure::new(FailureClass::Network, "the summary stopped before its end mark"))
}
