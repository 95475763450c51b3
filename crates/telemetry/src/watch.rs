//! The fold of committed batches into [`Fact`]s: what has begun in each session and has not ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::{
    Batch, CallId, CompactionStep, EffectId, Event, MessageSealed, Record, RunEnded, RunId, SessionId, Settings,
    Timestamp, Usage, WaitFor,
};
use runtime::Published;

use crate::facts::{Answer, Fact, Model, Place};

/// The tool of a call that no tool of the run has the name of.
const UNKNOWN: &str = "unknown";

/// What receives the facts, in order.
pub(crate) type Receive<'a> = dyn FnMut(&Place<'_>, &Fact<'_>) + 'a;

/// The sessions of a home.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    sessions: HashMap<SessionId, SessionWatch>,
}

/// What has begun in a session and has not ended.
#[derive(Debug, Default)]
struct SessionWatch {
    settings: Option<Arc<Settings>>,
    run: Option<RunId>,
    requests: HashMap<EffectId, Request>,
    calls: BTreeMap<CallId, Call>,
    wait: Option<(WaitFor, Timestamp)>,
}

/// A request that is out.
#[derive(Debug)]
struct Request {
    /// The place of its candidate in the settings.
    candidate: u32,
    sent_at: Timestamp,
    first_at: Option<Timestamp>,
    /// Whether it failed or was interrupted. What is kept of it may still come.
    is_ended: bool,
}

/// A call that has no result yet.
#[derive(Debug)]
struct Call {
    tool: Arc<str>,
    started_at: Option<Timestamp>,
}

impl Call {
    fn unknown() -> Self {
        Self { tool: UNKNOWN.into(), started_at: None }
    }
}

impl Watch {
    /// Takes in a batch.
    pub(crate) fn observe(&mut self, published: &Published, receive: &mut Receive<'_>) {
        let session = self.sessions.entry(published.session).or_default();
        if published.settings.is_some() {
            session.settings.clone_from(&published.settings);
        }
        for (call, tool) in &published.found {
            let tool = session.tool(tool);
            session.calls.entry(*call).or_insert(Call { tool, started_at: None });
        }
        for record in &published.batch.records {
            session.record(&published.key, (record, &published.batch), receive);
        }
        if session.is_empty() {
            self.sessions.remove(&published.session);
        }
    }
}

impl SessionWatch {
    fn is_empty(&self) -> bool {
        self.run.is_none() && self.requests.is_empty() && self.calls.is_empty() && self.wait.is_none()
    }

    /// The name of a tool of the run. A model may write any name.
    fn tool(&self, name: &str) -> Arc<str> {
        let tool = self.settings.as_ref().and_then(|settings| settings.tool(name));
        tool.map_or(UNKNOWN, |tool| &tool.name).into()
    }

    fn first_piece(&mut self, request: EffectId, at: Timestamp) {
        if let Some(request) = self.requests.get_mut(&request) {
            request.first_at.get_or_insert(at);
        }
    }

    #[expect(clippy::too_many_lines, reason = "a line or a few for each kind of event")]
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are of no interest to those who watch")]
    fn record(&mut self, key: &str, (record, batch): (&Record, &Batch), receive: &mut Receive<'_>) {
        let at = record.at;
        if let Event::RunStarted(e) = &record.event {
            self.run = Some(e.run);
        }
        let place = Place { session: key, run: self.run, at };
        match &record.event {
            Event::MessageAccepted(e) => receive(&place, &Fact::MessageAccepted { mode: e.mode }),
            Event::Opened(_) => {
                // The row says what is after the whole batch. An owner opens a session that waits for its lane, and once more
                // when it has it.
                let starts =
                    |run| batch.records.iter().any(|of| matches!(&of.event, Event::RunStarted(e) if e.run == run));
                let run = batch.views.session.as_ref().and_then(|row| row.run);
                if let Some(run) = run.filter(|run| self.run.is_none() && !starts(*run)) {
                    self.run = Some(run);
                    receive(&Place { run: Some(run), ..place }, &Fact::Recovered);
                }
            }
            Event::RunStarted(_) => receive(&place, &Fact::RunStarted { agent: agent(key) }),
            Event::RunEnded(e) => self.run_ended(place, (e, batch), receive),
            Event::RequestSent(e) => {
                let request = Request { candidate: e.candidate, sent_at: at, first_at: None, is_ended: false };
                if let Some(model) = model(self.settings.as_deref(), &request) {
                    receive(&place, &Fact::RequestSent { model });
                }
                self.requests.insert(e.request, request);
            }
            Event::TextAdded(e) => self.first_piece(e.effect, at),
            Event::ReasoningAdded(e) => self.first_piece(e.effect, at),
            Event::CallPartAdded(e) => self.first_piece(e.effect, at),
            Event::MessageSealed(e) => self.sealed(place, e, receive),
            Event::StreamInterrupted(e) => self.request_ended(place, e.request, (Answer::Interrupted, None), receive),
            Event::Failed(e) => {
                let Some(request) = e.request else { return };
                self.request_ended(place, request, (Answer::Failed(e.failure.class), None), receive);
            }
            Event::RetryScheduled(e) => receive(&place, &Fact::RetryScheduled { is_fallback: e.candidate.is_some() }),
            Event::CandidateCooldownSet(e) => {
                receive(&place, &Fact::CooldownSet { model: &e.model, class: e.class });
            }
            Event::CallStarted(e) => {
                let call = self.calls.entry(e.call).or_insert_with(Call::unknown);
                call.started_at = Some(at);
                receive(&place, &Fact::CallStarted { tool: &call.tool });
            }
            Event::CallSettled(e) => {
                let call = self.calls.remove(&e.call).unwrap_or_else(Call::unknown);
                let ms = call.started_at.map(|started_at| at.since(started_at));
                receive(&place, &Fact::CallEnded { id: e.call, tool: &call.tool, outcome: e.outcome, ms });
            }
            Event::CallAsked(e) if e.takes.is_none() => receive(&place, &Fact::ApprovalAsked),
            Event::AskAnswered(e) if e.answer.is_none() && !e.skipped => {
                receive(&place, &Fact::ApprovalAnswered { allowed: e.allow });
            }
            // One that is kept is still open.
            Event::AskExpired(e) if !e.kept => receive(&place, &Fact::ApprovalExpired),
            Event::WaitBegan(e) => {
                self.wait = Some((e.on, at));
                receive(&place, &Fact::WaitBegan { on: e.on, until: e.until });
            }
            Event::WaitEnded(e) => {
                let ms = self.wait.take().filter(|(on, _)| *on == e.on).map(|(_, since)| at.since(since));
                receive(&place, &Fact::WaitEnded { on: e.on, ms });
            }
            Event::Compacted(e) => {
                spent(place, e.by.as_deref(), (&e.usage, e.cost), receive);
                let step = if e.by.is_some() { CompactionStep::Summarise } else { CompactionStep::Tail };
                receive(&place, &Fact::Compacted { step });
            }
            Event::ResultsTruncated(_) => receive(&place, &Fact::Compacted { step: CompactionStep::Truncate }),
            Event::CompactionFailed(e) => receive(&place, &Fact::CompactionFailed { class: e.failure.class }),
            Event::TitleEnded(e) => spent(place, e.by.as_deref(), (&e.usage, e.cost), receive),
            _ => {}
        }
    }

    /// A request whose answer is there, or is not coming.
    fn request_ended(
        &mut self,
        place: Place<'_>,
        id: EffectId,
        (answer, usage): (Answer, Option<&Usage>),
        receive: &mut Receive<'_>,
    ) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let was_ended = std::mem::replace(&mut request.is_ended, true);
        let ms = place.at.since(request.sent_at);
        let first_ms = request.first_at.map(|first_at| first_at.since(request.sent_at));
        if let Some(model) = model(self.settings.as_deref(), request).filter(|_| !was_ended) {
            receive(&place, &Fact::RequestEnded { id, model, answer, ms, first_ms, usage });
        }
    }

    /// A message of a model. Of one that was interrupted it is the part that is kept.
    fn sealed(&mut self, place: Place<'_>, e: &MessageSealed, receive: &mut Receive<'_>) {
        for call in &e.calls {
            let tool = self.tool(&call.tool);
            self.calls.insert(call.id, Call { tool, started_at: None });
        }
        self.request_ended(place, e.request, (Answer::Answered, Some(&e.usage)), receive);
        let request = self.requests.remove(&e.request);
        if let Some(model) = request.as_ref().and_then(|request| model(self.settings.as_deref(), request)) {
            receive(&place, &Fact::Spent { model, usage: &e.usage, cost: e.cost });
        }
    }

    fn run_ended(&mut self, place: Place<'_>, (e, batch): (&RunEnded, &Batch), receive: &mut Receive<'_>) {
        let row = batch.views.runs.iter().find(|row| row.run == e.run);
        let ms = row.map(|row| place.at.since(row.started_at));
        let class = e.failure.as_ref().map(|failure| failure.class);
        let place = Place { run: Some(e.run), ..place };
        receive(&place, &Fact::RunEnded { agent: agent(place.session), outcome: e.outcome, class, ms });
        self.run = None;
        self.wait = None;
        self.requests.clear();
        self.calls.clear();
    }
}

/// The model that a request was sent to.
fn model<'a>(settings: Option<&'a Settings>, request: &Request) -> Option<Model<'a>> {
    let candidate = settings?.candidate(request.candidate)?;
    Some(Model { provider: &candidate.provider, model: &candidate.model })
}

/// The tokens of a request for a summary or a title.
fn spent(place: Place<'_>, by: Option<&str>, (usage, cost): (&Usage, u64), receive: &mut Receive<'_>) {
    if let Some((provider, model)) = by.and_then(|by| by.split_once('/')) {
        receive(&place, &Fact::Spent { model: Model { provider, model }, usage, cost });
    }
}

/// The agent of a session, by its key `agent:AGENT:NAME`.
fn agent(key: &str) -> &str {
    key.split(':').nth(1).unwrap_or(key)
}
