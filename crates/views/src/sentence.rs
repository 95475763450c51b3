//! One sentence for each event, for the trace, without times and states: the trace shows those itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::tables::limits::RECOVERIES_MS;
use engine::{
    AnswerRefusal, AskAnswered, Body, CallId, CallOutcome, Candidate, CompactionStep, Event, Failure, FailureClass,
    FilesChanged, Found, Hash, Item, LifecycleChanged, MessageSealed, Next, Opened, ProcessCause, RequestSent, Session,
    Settings, StepBegun, Timestamp, ToolClass, WaitFor,
};
use journal::Read;
use runtime::history::{self, HistoryChanges};
use runtime::prompt;
use serde::Serialize;

use super::caching::CacheWatch;
use super::fold::{Left, Transition};
use super::vocabulary::{count, excerpt, tokens};
use super::{Texts, approvals};
use crate::error::Error;

const EXCERPT_CHARS: usize = 60;

/// What the sentences need from earlier entries.
pub(crate) struct Narrator<'a> {
    /// `PROVIDER/MODEL` of each candidate.
    models: Vec<String>,
    texts: Texts<'a>,
    settings_of: SettingsOf<'a>,
    /// The settings of the run, with their hash.
    settings: Option<(Hash, Arc<Settings>)>,
    tools: BTreeMap<CallId, String>,
    /// The system prompt of the step before.
    prompt: Option<Body>,
    cache: CacheWatch,
    /// What was changed in the history of the last request.
    history: HistoryChanges,
    /// The models that signed answers, by the hash of their blocks.
    signers: BTreeMap<Hash, Option<String>>,
}

/// Reads the settings with this hash; none if they are gone.
pub type SettingsOf<'a> = &'a dyn Fn(Hash) -> Option<Settings>;

/// The settings that a journal holds.
pub fn settings_of(read: &dyn Read) -> impl Fn(Hash) -> Option<Settings> {
    move |hash| read.body(&hash).ok().flatten().and_then(|bytes| Settings::from_bytes(&bytes).ok())
}

/// The names of candidates: with their profile, as failures name them, if there are several.
pub(crate) fn names(candidates: &[Candidate]) -> Vec<String> {
    match candidates {
        [one] => vec![format!("{}/{}", one.provider, one.model)],
        several => several.iter().map(ToString::to_string).collect(),
    }
}

impl<'a> Narrator<'a> {
    pub(crate) fn new(settings_of: SettingsOf<'a>, texts: Texts<'a>) -> Self {
        Self {
            models: vec![],
            texts,
            settings_of,
            settings: None,
            tools: BTreeMap::new(),
            prompt: None,
            cache: CacheWatch::default(),
            history: vec![],
            signers: BTreeMap::new(),
        }
    }

    /// Learns the names of the calls in a state, and those of the models of its run.
    pub(crate) fn learn(&mut self, session: &Session) {
        self.models.clear();
        if let Some(run) = session.run() {
            self.learn_settings(run.settings);
        }
        for item in session.conversation.transcript.items() {
            if let Item::Assistant { calls, .. } = item {
                self.tools.extend(calls.iter().map(|call| (call.id, call.tool.clone())));
            }
        }
    }

    fn learn_settings(&mut self, hash: Hash) {
        if self.settings.as_ref().is_none_or(|(known, _)| *known != hash) {
            self.settings = (self.settings_of)(hash).map(|settings| (hash, Arc::new(settings)));
        }
        self.models = self.settings.as_ref().map(|(_, settings)| names(&settings.candidates)).unwrap_or_default();
    }

    /// What was changed in the history of a request, if it is not what was changed in the one before.
    fn of_history(&mut self, sent: &RequestSent, transition: &Transition<'_>) -> Option<String> {
        let (_, settings) = self.settings.as_ref()?;
        self.cache.sent((sent, transition.entry.at), transition.session, settings, self.prompt);
        let (signers, texts) = (&mut self.signers, self.texts);
        // What a damaged or a deleted text said is not known, and the trace goes on.
        let read = |blocks: &Body| texts(blocks).ok().and_then(|text| history::signer(&text));
        let signer = |of: &Body| signers.entry(of.hash).or_insert_with(|| read(of)).clone();
        let changes = history::changes(sent, transition.session, settings, signer);
        if changes == self.history {
            return None;
        }
        let said = (!changes.is_empty()).then(|| format!("; history: {}", history::in_words(&changes)));
        self.history = changes;
        said
    }

    /// The sentence of an entry; `None` if the event's name is enough.
    pub(crate) fn notify(&mut self, transition: &Transition<'_>) -> Result<Option<String>, Error> {
        let event = &transition.entry.event;
        let mut besides = None;
        match event {
            Event::RunStarted(started) => self.learn_settings(started.settings),
            Event::RequestSent(sent) => besides = self.of_history(sent, transition),
            Event::MessageSealed(sealed) => {
                besides = self.cache.sealed(sealed.usage, self.texts).map(|said| format!("; {said}"));
            }
            _ => {}
        }
        if let Event::MessageSealed(sealed) = event {
            self.tools.extend(sealed.calls.iter().map(|call| (call.id, call.tool.clone())));
        }
        if let Event::StepBegun(e) = event {
            let before = self.prompt.replace(e.prompt);
            return Ok(Some(format!("step {}", e.step) + &self.of_prompt(before, e)));
        }
        Ok(Some(match event {
            Event::MessageAccepted(e) => self.quoted(&e.body)?,
            Event::MessageSettled(e) => format!("its message is {}", name(&e.state)),
            Event::RunStarted(e) => count(e.inputs.len(), "message"),
            Event::Opened(e) => opened(e, transition.owner),
            Event::Closed(e) => format!("owner {} shut down in order", e.epoch),
            Event::LifecycleChanged(e) => {
                let why = e.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
                let by_itself = by_itself(e, transition.entry.at);
                format!("session {} → {} ({}){why}{by_itself}", e.from, e.to, e.cause)
            }
            Event::CallChecked(_)
            | Event::CallAsked(_)
            | Event::AskAnswered(_)
            | Event::AskExpired(_)
            | Event::AnswerRefused(_)
            | Event::CallStarted(_)
            | Event::CallEnding(_)
            | Event::CallLost(_)
            | Event::CallFound(_)
            | Event::CallSettled(_) => return self.of_call(event),
            Event::RequestSent(_)
            | Event::StreamInterrupted(_)
            | Event::TextRetracted(_)
            | Event::MessageSealed(_)
            | Event::Failed(_)
            | Event::CandidateCooldownSet(_)
            | Event::CandidateCooldownLifted(_)
            | Event::Reported(_)
            | Event::RetryScheduled(_) => {
                let said = self.of_request(event, transition)?;
                return Ok(said.map(|said| said + &besides.unwrap_or_default()));
            }
            Event::Noted(e) => format!("the model receives: {}", excerpt(&(self.texts)(&e.body)?, 3 * EXCERPT_CHARS)),
            Event::CompactionBegun(_)
            | Event::CompactionAsked(_)
            | Event::Compacted(_)
            | Event::ResultsTruncated(_)
            | Event::Uncompacted(_)
            | Event::CompactionFailed(_) => of_history(event),
            _ => return of_run(event),
        }))
    }

    /// What of the system prompt differs from that of the step before, and at the first step what of bootstrap files is left out.
    fn of_prompt(&self, before: Option<Body>, step: &StepBegun) -> String {
        // One that was erased is known by its hash alone.
        let text = |body: Body| (self.texts)(&body).ok();
        if before == Some(step.prompt) && step.step > 1 {
            return String::new();
        }
        let Some(now) = text(step.prompt) else { return String::new() };
        let before = before.filter(|before| *before != step.prompt).and_then(text);
        let changed = before.map(|before| prompt::changes(&before, &now)).unwrap_or_default();
        let (changed, cut) = (changed.join(", "), prompt::not_whole(&now).join(", "));
        let changed = if changed.is_empty() { changed } else { format!("; changed in the prompt: {changed}") };
        if cut.is_empty() { changed } else { format!("{changed}; not whole in the prompt: {cut}") }
    }

    fn of_request(&self, event: &Event, transition: &Transition<'_>) -> Result<Option<String>, Error> {
        Ok(Some(match event {
            Event::RequestSent(e) => {
                let model = self.model(e.candidate);
                let again = if e.request.try_no > 1 { format!(", try {}", e.request.try_no) } else { String::new() };
                let probe = if e.probe { ", a probe: it failed and has not answered since" } else { "" };
                format!("request {}{again} to {model}, {}{probe}", e.request.ordinal, count(e.items as usize, "item"))
            }
            Event::StreamInterrupted(e) => format!("{}; {} received", name(&e.cause), bytes(e.text.as_ref())),
            Event::TextRetracted(e) => format!("the partial text of request {} is retracted", e.request.ordinal),
            Event::MessageSealed(e) => self.sealed(e)?,
            Event::Failed(e) => failed(&e.failure, e.text.as_ref()),
            Event::Reported(_) => "other sessions are notified".to_owned(),
            Event::RetryScheduled(e) => {
                let with = e.model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
                let at = e.thinking.map(|level| format!(" at thinking level {}", name(&level))).unwrap_or_default();
                let how = match e.compaction_step {
                    Some(_) if e.as_it_is => " with the history unchanged".to_owned(),
                    Some(compaction_step) => format!(" to compact the history ({})", compaction_step.name()),
                    None => String::new(),
                };
                format!("tries again{with}{at}{how} in {} ms", e.until.since(transition.entry.at))
            }
            Event::CandidateCooldownLifted(e) => format!("{}: cooldown cleared by the user", e.model),
            Event::CandidateCooldownSet(e) => {
                let until = e.until.map(|until| format!("for {} s", until.since(transition.entry.at).div_ceil(1000)));
                let until = until.unwrap_or_else(|| "until another candidate answers".to_owned());
                let why = e.class.map(|class| format!(": {}", name(&class))).unwrap_or_default();
                format!("{} is in cooldown {until}{why}", e.model)
            }
            _ => return Ok(None),
        }))
    }

    fn model(&self, candidate: u32) -> &str {
        self.models.get(candidate as usize).map_or("?", String::as_str)
    }

    fn of_call(&self, event: &Event) -> Result<Option<String>, Error> {
        Ok(Some(match event {
            Event::CallChecked(e) => {
                let why = e.reason.as_deref().map(|why| format!(": {}", excerpt(why, 2 * EXCERPT_CHARS)));
                let label = self.label(e.call);
                match e.grant {
                    Some(grant) => format!("{label} allowed by the grant {}", approvals::id(grant)),
                    None => format!("{label} {}{}", name(&e.decision), why.unwrap_or_default()),
                }
            }
            Event::CallAsked(e) => {
                let (label, what) = (self.label(e.call), excerpt(&e.question, 2 * EXCERPT_CHARS));
                match e.takes {
                    Some(_) => format!("{label} asks the user: {what}"),
                    None => format!("{label} asks to {what}"),
                }
            }
            Event::AskAnswered(e) => answered(&self.label(e.call), e),
            Event::AskExpired(e) if e.kept => {
                format!("{}: nobody answered in time, and it still waits", self.label(e.call))
            }
            Event::AskExpired(e) => format!("{}: nobody answered in time", self.label(e.call)),
            Event::AnswerRefused(e) => {
                let why = match e.why {
                    AnswerRefusal::Closed => "the call asks nothing any more",
                    AnswerRefusal::Fingerprint => "it is for a call with another fingerprint",
                    AnswerRefusal::InCall => "a command of a call is not the user",
                };
                format!("{}: an answer was refused, {why}; it came from {}", self.label(e.call), e.by)
            }
            Event::CallStarted(e) => {
                let class = match e.class {
                    ToolClass::ReadOnly => "read-only",
                    ToolClass::Idempotent => "idempotent",
                    ToolClass::Once => "once",
                };
                format!("{} by owner {} ({class})", self.label(e.call), e.epoch)
            }
            Event::CallEnding(e) => match e.why {
                engine::EndingCause::Limit => format!("{} exceeded its time limit", self.label(e.call)),
                engine::EndingCause::Run => format!("{} ends with its run", self.label(e.call)),
            },
            Event::CallLost(e) => format!("{}: its owner crashed, so the call is looked up", self.label(e.call)),
            Event::CallFound(e) => format!("{} {}", self.label(e.call), found(e.found)),
            Event::CallSettled(e) => {
                let result = match e.outcome {
                    CallOutcome::Done => bytes(Some(&e.output)),
                    _ => self.quoted(&e.output)?,
                };
                format!("{} {}: {result}", self.label(e.call), name(&e.outcome))
            }
            _ => return Ok(None),
        }))
    }

    fn sealed(&self, e: &MessageSealed) -> Result<String, Error> {
        let mut parts = vec![];
        if let Some(text) = &e.text {
            parts.push(self.quoted(text)?);
        }
        if !e.calls.is_empty() {
            let tools: Vec<String> = e.calls.iter().map(|call| excerpt(&call.tool, EXCERPT_CHARS)).collect();
            parts.push(format!("calls {}", tools.join(", ")));
        }
        if let Some(reason) = e.stop_reason {
            let then = if e.next == Next::Continue { ", so it is continued" } else { "" };
            parts.push(format!("incomplete: {}{then}", reason.in_words()));
        }
        parts.push(tokens(&e.usage));
        Ok(parts.join("; "))
    }

    /// The tool, with the step and the index of the call.
    fn label(&self, call: CallId) -> String {
        let tool = self.tools.get(&call).map_or("call", String::as_str);
        format!("{} {}/{}", excerpt(tool, EXCERPT_CHARS), call.step, call.index)
    }

    fn quoted(&self, body: &Body) -> Result<String, Error> {
        Ok(format!("“{}”", excerpt(&(self.texts)(body)?, EXCERPT_CHARS)))
    }
}

/// The attempt of a held session to continue without a human, if the change is about one.
fn by_itself(e: &LifecycleChanged, at: Timestamp) -> String {
    let most = RECOVERIES_MS.len();
    match (e.attempt, e.retry_at) {
        (Some(no), Some(until)) => format!("; tries again by itself in {} s ({no} of {most})", until.since(at) / 1_000),
        (Some(no), None) => format!(", by itself ({no} of {most})"),
        (None, _) => String::new(),
    }
}

fn opened(e: &Opened, (before, left): (engine::Epoch, Left)) -> String {
    match left {
        Left::Not => format!("opened by epoch {} — the previous owner (epoch {before}) did not close: crash", e.epoch),
        Left::InOrder => format!("opened by epoch {}", e.epoch),
    }
}

fn of_run(event: &Event) -> Result<Option<String>, Error> {
    Ok(Some(match event {
        Event::WaitBegan(e) => match e.on {
            WaitFor::Approval => "for approval".to_owned(),
            WaitFor::Answer => "for an answer of the user".to_owned(),
            WaitFor::Lane => "for a slot of its lane again".to_owned(),
            on => match e.limit {
                Some(limit) => format!("for {}: {}", name(&on), limit.figures()),
                None => format!("for {}", name(&on)),
            },
        },
        Event::WaitEnded(e) => format!("for {}", name(&e.on)),
        Event::EndingSet(e) => {
            let too = if e.terminate { ", and its session with it" } else { "" };
            format!("to end as {}{too}", e.outcome.name())
        }
        Event::RunEnded(e) => {
            let why = e.failure.as_ref().map(|failure| format!(": {}", failed(failure, None)));
            let at = e.checkpoint.map(|seq| format!(" at entry {seq}")).unwrap_or_default();
            let cut = e.stop_reason.map(|reason| format!(", incomplete: {}", reason.in_words()));
            let (why, cut) = (why.unwrap_or_default(), cut.unwrap_or_default());
            format!("{}{at}{why}{cut}; {}", e.outcome.name(), tokens(&e.usage))
        }
        Event::ProcessAdopted(e) => format!("{} continues in the background", e.process.process_name()),
        Event::ProcessEnding(e) => match e.why {
            ProcessCause::Limit => format!("{} exceeded its time limit", e.process.process_name()),
            ProcessCause::Session => format!("{} ends with its session", e.process.process_name()),
        },
        Event::ProcessEnded(e) => format!("{} {}: {}", e.process.process_name(), name(&e.outcome), e.how),
        Event::ProcessForgotten(e) => format!("{} is no longer listed", e.process.process_name()),
        Event::FilesChanged(e) => changed(e),
        Event::UndoStarted(e) => match e.copy {
            Some(engine::CopyAct::Apply) => format!("the changes of run {} are taken over from its copy", e.run),
            Some(engine::CopyAct::Discard) => format!("the copy in which run {} worked is discarded", e.run),
            None => format!("the files of run {} are {}", e.run, if e.redo { "changed once more" } else { "restored" }),
        },
        Event::UndoEnded(e) => match e.left.as_slice() {
            [] => "done".to_owned(),
            left => format!("done, but {} stayed as they were", count(left.len(), "file")),
        },
        Event::ErasureEnded(e) => match &e.failure {
            None => format!("its deleted conversation is erased: {}", count(e.bodies as usize, "text")),
            Some(why) => format!("its deleted conversation could not be erased: {why}"),
        },
        Event::PlanSet(e) if e.steps == 0 => "the plan is cleared".to_owned(),
        Event::PlanSet(e) => format!("the plan is set: {} of {} done", e.done, e.steps),
        Event::DeliveryWanted(_) | Event::DeliveryStarted(_) | Event::DeliveryFailed(_) | Event::DeliveryEnded(_) => {
            delivery(event)
        }
        Event::TitleAsked(_) => "a model is asked for the title of the conversation".to_owned(),
        Event::TitleEnded(e) => match &e.failure {
            None => format!(
                "the conversation has a title{}",
                e.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default()
            ),
            Some(failure) => format!("no title: {}", failure.message.lines().next().unwrap_or_default()),
        },
        Event::SessionLabelled(e) => match (e.title.is_some(), e.visibility) {
            (true, _) => "the session has another title".to_owned(),
            (false, visibility) => format!("the session is {}", name(&visibility.unwrap_or_default())),
        },
        Event::OverrideSet(e) => e.model.clone().unwrap_or_else(|| "the agent's model".to_owned()),
        _ => return Ok(None),
    }))
}

/// What became of a delivery.
fn delivery(event: &Event) -> String {
    match event {
        Event::DeliveryWanted(e) => match &e.to {
            None => "a message to whoever follows the session".to_owned(),
            Some(to) if e.again.is_some() => format!("a {} goes to {to} once more", e.kind.name()),
            Some(to) => format!("a {} goes to {to}", e.kind.name()),
        },
        Event::DeliveryStarted(e) => format!("try {} of {}", e.delivery.try_no, e.delivery.delivery_name()),
        Event::DeliveryFailed(e) => format!("{}: {}; tried again", e.delivery.delivery_name(), e.why),
        Event::DeliveryEnded(e) => {
            let why = e.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let what = match e.arrived {
                _ if e.dropped => "given up",
                Some(true) => "arrived",
                Some(false) => "not delivered",
                None => "its outcome is unknown",
            };
            format!("{}: {what}{why}", e.delivery.delivery_name())
        }
        _ => String::new(),
    }
}

/// What happened to a file.
fn changed(e: &FilesChanged) -> String {
    let act = match (e.before, e.after) {
        (None, _) => "created",
        (_, None) => "removed",
        (Some(_), Some(_)) => "changed",
    };
    format!("{act}: {}", e.path)
}

/// How the history is compacted.
fn of_history(event: &Event) -> String {
    match event {
        Event::CompactionBegun(e) => {
            let way = match e.compaction_step {
                CompactionStep::Summarise => format!("a summary of {}", count(e.items as usize, "item")),
                compaction_step => compaction_step.name().to_owned(),
            };
            let again = if e.try_no > 1 { format!(", try {}", e.try_no) } else { String::new() };
            format!("{way}{again} ({}); the next request would hold about {} tokens", name(&e.cause), e.tokens)
        }
        Event::CompactionAsked(_) => "the user requests a compaction before the next request".to_owned(),
        Event::Compacted(e) => {
            let by = e.by.as_deref().unwrap_or("an extract");
            format!("{} → {} tokens by {by}; entries from {} on are kept", e.before, e.after, e.kept_from)
        }
        Event::ResultsTruncated(e) => {
            format!("{} → {} tokens: {} truncated", e.before, e.after, count(e.results.len(), "long result"))
        }
        Event::Uncompacted(e) => format!("undone: {} in force again", count(e.restored.len(), "item")),
        Event::CompactionFailed(e) => failed(&e.failure, None),
        _ => String::new(),
    }
}

fn failed(failure: &Failure, kept: Option<&Body>) -> String {
    let status = failure.status.map(|status| format!(" {status}")).unwrap_or_default();
    let class = if failure.class == FailureClass::Unknown { "unclassified".to_owned() } else { name(&failure.class) };
    let kept = kept.map(|kept| format!("; {} received", bytes(Some(kept)))).unwrap_or_default();
    let passes = failure.category().recoverability.name();
    format!("{class}{status} ({passes}): {}{kept}", excerpt(&failure.message, 3 * EXCERPT_CHARS))
}

fn found(found: Found) -> &'static str {
    match found {
        Found::NeverStarted => "had never started, so it may run",
        Found::Running => "is still running, so this owner attaches to it",
        Found::Ended => "has ended, so its result is read",
        Found::Unknown => "cannot be determined, so the model is informed",
    }
}

fn bytes(body: Option<&Body>) -> String {
    body.map_or_else(|| "nothing".to_owned(), |body| count(body.bytes as usize, "byte"))
}

/// The name of a variant on the wire.
pub fn name<T: Serialize>(variant: &T) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// The answer to the question of a call.
fn answered(label: &str, e: &AskAnswered) -> String {
    let by = excerpt(&e.by, EXCERPT_CHARS);
    if e.answer.is_some() {
        return format!("{label} answered by {by}");
    }
    if e.skipped {
        let why = e.reason.as_ref().map(|reason| format!(": {}", excerpt(reason, 2 * EXCERPT_CHARS)));
        return format!("{label} skipped by {by}{}", why.unwrap_or_default());
    }
    match (e.allow, &e.edited, e.grant, &e.reason) {
        (true, Some(edited), ..) => {
            format!("{label} allowed with other arguments by {by}: {}", excerpt(&edited.shown, 2 * EXCERPT_CHARS))
        }
        (true, None, Some(grant), _) => {
            format!("{label} allowed by {by}, and all such calls by the grant {}", approvals::id(grant))
        }
        (true, None, None, _) => format!("{label} allowed by {by}"),
        (false, _, _, Some(reason)) => {
            format!("{label} not allowed by {by}: {}", excerpt(reason, 2 * EXCERPT_CHARS))
        }
        (false, _, _, None) => format!("{label} not allowed by {by}"),
    }
}
