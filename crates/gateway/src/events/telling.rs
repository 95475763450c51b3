//! One record as a line: what is said of each kind of event. What may not live here: which lines a subscriber gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Body, CallId, Content, EffectId, Epoch, Event, Hash, MessageSealed, Outcome, Record, RunEnded, RunId, RunRow, Seq,
    Settings, Timestamp,
};
use journal::{Entry, Error, Read};
use protocol::event::{
    AssistantLine, CompactionLine, Delta, LifecycleLine, QueueLine, ReasoningLine, RunEnd, StateLine, Stream, ToolLine,
    UsageLine,
};

use super::place::{BatchPosition, LinePosition};
use super::position::StreamPosition;
use super::shows::Shows;
use crate::show::names;

/// Characters of a call's arguments or output that a line shows; the whole is in the journal.
const PREVIEW_CHARS: usize = 400;

/// Entries that are looked at in one go, backwards.
const LOOK_BACK: u64 = 64;

/// A line, and where in the journal of its session it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The line.
    pub event: protocol::Event,
    /// Its place.
    pub at: LinePosition,
}

/// Where what is told comes from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The session's key.
    pub(super) key: &'a str,
    /// The batch or entry that is told.
    pub(super) batch: BatchPosition,
    /// What came with it; whatever else it names is in the store.
    pub(super) bodies: &'a [Content],
    pub(super) store: &'a dyn Read,
}

/// How far a session has been told.
#[derive(Debug, Default)]
pub(super) struct Projection {
    pub(super) position: StreamPosition,
    pub(super) run: Option<RunId>,
    /// What the calls of the last message are.
    calls: BTreeMap<CallId, (String, String)>,
    /// The end of a run, until what belongs to it is told.
    end: Option<Line>,
    /// What messages show.
    shows: Shows,
    /// Whom the run asks.
    asked: Asked,
}

/// Whom the run under way asks, as far as that is known.
#[derive(Debug, Default)]
struct Asked {
    /// What its candidates are called.
    names: Vec<String>,
    /// The one that was told last; none where the run began before anybody was told of it.
    told: Option<u32>,
    /// Whether that was told as a probe.
    probe: bool,
}

impl Asked {
    /// What is to be told of it beside what other lines tell.
    fn see(&mut self, source: Source<'_>, event: &Event) -> Option<Stream> {
        match event {
            Event::RunStarted(e) => {
                let settings = source.bytes(&e.settings).and_then(|bytes| Settings::from_bytes(&bytes).ok());
                let names = settings.map(|settings| names(&settings.candidates)).unwrap_or_default();
                *self = Self { names, told: Some(0), probe: false };
                None
            }
            Event::RetryScheduled(e) => {
                self.told = e.candidate.or(self.told);
                None
            }
            Event::RequestSent(e) => self.sent(e.candidate, e.probe),
            _ => None,
        }
    }

    /// A request went to this candidate.
    fn sent(&mut self, candidate: u32, probe: bool) -> Option<Stream> {
        let told = self.told.replace(candidate)?;
        let is_update = told != candidate || probe && !self.probe;
        self.probe = probe;
        let model = self.names.get(candidate as usize).filter(|_| is_update)?.clone();
        Some(Stream::State(StateLine::Asks { model, probe }))
    }
}

impl Source<'_> {
    /// A body; none where it was erased.
    fn bytes(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let here = self.bodies.iter().find(|content| content.body.hash == *hash);
        here.map(|content| Arc::clone(&content.bytes)).or_else(|| self.store.body(hash).ok().flatten())
    }

    /// The text of a body; what was erased is nothing.
    pub(super) fn text(&self, hash: &Hash) -> String {
        self.bytes(hash).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last entry up to this one of which something can be said.
    pub(super) fn look_back<T>(
        &self,
        from: Seq,
        mut find: impl FnMut(&Entry) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut until = from;
        while until > Seq(0) {
            let first = Seq(until.0.saturating_sub(LOOK_BACK - 1).max(1));
            let Ok(entries) = self.store.range(self.batch.branch, first, until) else {
                // Those before were removed: what is still there is looked at in one go.
                return self.look_at_all(until, find);
            };
            if let Some(found) = entries.iter().rev().find_map(&mut find) {
                return Ok(Some(found));
            }
            until = Seq(first.0 - 1);
        }
        Ok(None)
    }

    fn look_at_all<T>(&self, until: Seq, mut find: impl FnMut(&Entry) -> Option<T>) -> Result<Option<T>, Error> {
        let line = self.store.history_until(self.batch.branch, until)?;
        let entries: Vec<&Entry> = line.entries().map(|(_, entry)| entry).collect();
        Ok(entries.into_iter().rev().find_map(&mut find))
    }
}

impl Projection {
    /// Of a session of which nothing waits and nothing is under way.
    pub(super) fn at_rest() -> Self {
        Self { shows: Shows::Nothing, ..Self::default() }
    }

    /// For a reader that stands here.
    pub(super) fn standing_at(position: StreamPosition) -> Self {
        Self { position, ..Self::default() }
    }

    /// Tells a record. `following` is what was recorded together with it and after it.
    pub(super) fn notify<'e>(
        &mut self,
        source: Source<'_>,
        (record, epoch): (&Record, Epoch),
        following: impl Iterator<Item = &'e Event>,
        lines: &mut Vec<Line>,
    ) {
        let event = &record.event;
        if !matches!(event, Event::LifecycleChanged(_)) {
            self.flush(lines);
        }
        let (seq, progress) = self.see(record, epoch);
        let queue = self.shows.see(source, record);
        if let Event::MessageSealed(sealed) = event {
            self.learn(source, sealed);
        }
        let what = match event {
            Event::RunEnded(ended) => Some(run_ended(source, ended)),
            Event::Failed(e) => Some(failed(&e.failure, following)),
            Event::CompactionFailed(e) => {
                let ends_run = ends_run(following);
                Some(Stream::Compaction(CompactionLine::Failed { failure: e.failure.clone(), ends_run }))
            }
            event => self.of_call(source, event).or_else(|| plain(source, event)),
        };
        let what = self.asked.see(source, event).or(what);
        let changed = || (!queue.is_empty()).then_some(Stream::Queue(QueueLine::Shows));
        if let Some(what) = what.or_else(changed) {
            let at = LinePosition::new(source.batch, seq, progress);
            let mut line = Line { at, ..self.line(source, record.at, what) };
            line.event.queue = queue;
            line.event.run = match event {
                Event::MessageAccepted(e) => Some(RunId::from(e.message)),
                Event::RunEnded(e) => Some(e.run),
                // It is the last line of the run that never began.
                Event::MessageSettled(e) if line.event.never_began(e.message.into()).is_some() => {
                    Some(e.message.into())
                }
                _ => line.event.run,
            };
            if let (Event::RunEnded(_), Some(seq)) = (event, record.seq) {
                // A client that waits for the end has seen all that came with it.
                self.position.owe(seq);
                self.end = Some(line);
            } else {
                lines.push(line);
            }
        }
    }

    /// Goes on behind records of which nobody is told.
    pub(super) fn pass(&mut self, records: &[Record], epoch: Epoch) {
        for record in records {
            self.see(record, epoch);
        }
        self.shows = Shows::Unknown;
    }

    /// Goes on behind a record.
    fn see(&mut self, record: &Record, epoch: Epoch) -> (Seq, Option<(EffectId, u64)>) {
        let place = self.position.see(record, epoch);
        self.run = run_of(&record.event).or(self.run);
        if let Event::RunEnded(_) = &record.event {
            self.run = None;
            self.calls.clear();
        }
        place
    }

    /// A line that tells no record, behind those that were told.
    pub(super) fn line(&self, source: Source<'_>, at: Timestamp, what: Stream) -> Line {
        let event = protocol::Event {
            cursor: self.position.to_string(),
            session: source.key.to_owned(),
            run: self.run,
            at,
            what,
            queue: vec![],
        };
        Line { event, at: LinePosition::new(source.batch, self.position.seq(), None) }
    }

    /// The line of what a run has taken so far.
    pub(super) fn usage(&self, source: Source<'_>, at: Timestamp, run: &RunRow) -> Line {
        let what = Stream::Usage(UsageLine::Run { model: run.model.clone(), usage: run.usage });
        let mut line = self.line(source, at, what);
        line.event.run = Some(run.run);
        line
    }

    /// Tells the end of a run that was held back.
    pub(super) fn flush(&mut self, lines: &mut Vec<Line>) {
        if let Some(mut line) = self.end.take() {
            self.position.owe_nothing();
            line.event.cursor = self.position.to_string();
            lines.push(line);
        }
    }

    /// Whether nothing of the session is under way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.run.is_none() && self.position.is_at_rest()
    }

    /// The run that is under way at this cursor, as the journal has it.
    pub(super) fn find_run(&mut self, source: Source<'_>) -> Result<(), Error> {
        let found = source.look_back(self.position.seq(), |entry| match &entry.event {
            Event::RunEnded(_) => Some(None),
            event => run_of(event).map(Some),
        })?;
        self.run = found.flatten();
        Ok(())
    }

    fn learn(&mut self, source: Source<'_>, sealed: &MessageSealed) {
        for call in &sealed.calls {
            self.calls.insert(call.id, (call.tool.clone(), preview(&source.text(&call.arguments.hash))));
        }
    }

    /// A call's tool and arguments. What was asked for before is looked up.
    fn call(&mut self, source: Source<'_>, id: CallId) -> (String, String) {
        if !self.calls.contains_key(&id) {
            let sealed = source.look_back(self.position.seq(), |entry| match &entry.event {
                Event::MessageSealed(sealed) if sealed.calls.iter().any(|call| call.id == id) => Some(sealed.clone()),
                _ => None,
            });
            // What cannot be read has no name; whoever reads the journal is told why.
            if let Ok(Some(sealed)) = sealed {
                self.learn(source, &sealed);
            }
        }
        self.calls.get(&id).cloned().unwrap_or_default()
    }

    fn of_call(&mut self, source: Source<'_>, event: &Event) -> Option<Stream> {
        Some(Stream::Tool(match event {
            Event::CallStarted(e) => {
                let (tool, arguments) = self.call(source, e.call);
                ToolLine::Start { call: e.call, effect: e.effect, class: e.class, tool, arguments }
            }
            Event::CallSettled(e) => ToolLine::End {
                call: e.call,
                tool: self.call(source, e.call).0,
                outcome: e.outcome,
                bytes: e.output.bytes,
                output: preview(&source.text(&e.output.hash)),
            },
            Event::OutputAdded(e) => ToolLine::Update(delta(e.effect, e.offset, &e.text)),
            Event::CallAsked(e) => {
                ToolLine::Asked { call: e.call, question: e.question.clone(), fingerprint: e.fingerprint }
            }
            Event::AskAnswered(e) => ToolLine::Answered { call: e.call, allow: e.allow, by: e.by.clone() },
            Event::CallLost(e) => ToolLine::Lost { call: e.call },
            Event::CallFound(e) => ToolLine::Found { call: e.call, found: e.found },
            Event::CallEnding(e) => ToolLine::Ending { call: e.call, why: e.why },
            Event::ProcessAdopted(e) => {
                ToolLine::Background { process: e.process.process_name(), call: e.call, until: e.until }
            }
            Event::ProcessEnding(e) => ToolLine::BackgroundEnding { process: e.process.process_name(), why: e.why },
            Event::ProcessEnded(e) => {
                ToolLine::BackgroundEnded { process: e.process.process_name(), outcome: e.outcome, how: e.how.clone() }
            }
            _ => return None,
        }))
    }
}

fn run_ended(source: Source<'_>, e: &RunEnded) -> Stream {
    let end = RunEnd {
        outcome: e.outcome,
        text: e.text.iter().map(|body: &Body| source.text(&body.hash)).collect(),
        usage: e.usage,
        error: e.failure.as_ref().map(ToString::to_string),
    };
    Stream::Lifecycle(match e.outcome {
        Outcome::Completed => LifecycleLine::End(end),
        _ => LifecycleLine::Error(end),
    })
}

/// What follows a failure is decided in the same batch.
fn failed<'e>(failure: &engine::Failure, following: impl Iterator<Item = &'e Event>) -> Stream {
    Stream::State(StateLine::Failed { failure: failure.clone(), ends_run: ends_run(following) })
}

fn ends_run<'e>(mut following: impl Iterator<Item = &'e Event>) -> bool {
    let decided = following.find(|event| {
        matches!(event, Event::RunEnded(_) | Event::RetryScheduled(_) | Event::WaitBegan(_) | Event::CompactionBegun(_))
    });
    matches!(decided, Some(Event::RunEnded(_)))
}

fn plain(source: Source<'_>, event: &Event) -> Option<Stream> {
    Some(match event {
        Event::MessageAccepted(e) => Stream::Queue(QueueLine::Accepted { message: e.message, key: e.key.clone() }),
        Event::MessageSettled(e) => {
            Stream::Queue(QueueLine::Settled { message: e.message, state: e.state, taken_by: e.run, leg: e.leg })
        }
        Event::Opened(e) => Stream::Lifecycle(LifecycleLine::Opened { epoch: e.epoch }),
        Event::RunStarted(_) => Stream::Lifecycle(LifecycleLine::Start),
        Event::TextAdded(e) => Stream::Assistant(AssistantLine::Delta(delta(e.effect, e.offset, &e.text))),
        Event::ReasoningAdded(e) => Stream::Reasoning(ReasoningLine::Delta(delta(e.effect, e.offset, &e.text))),
        Event::StreamCut(e) => Stream::Assistant(AssistantLine::Cut { effect: e.request, cause: e.cause }),
        Event::TextStruck(e) => Stream::Assistant(AssistantLine::Struck { effect: e.request }),
        Event::MessageSealed(e) => Stream::Assistant(AssistantLine::Message {
            effect: e.request,
            text: e.text.as_ref().map(|body| source.text(&body.hash)),
            calls: e.calls.len() as u32,
            usage: e.usage,
        }),
        Event::RetryScheduled(e) => Stream::State(StateLine::Retry {
            until: e.until,
            try_no: e.try_no,
            model: e.model.clone(),
            thinking: e.thinking,
        }),
        Event::CompactionBegun(e) => Stream::Compaction(CompactionLine::Begun {
            cause: e.cause,
            compaction_step: e.compaction_step,
            try_no: e.try_no,
            tokens: e.tokens,
        }),
        Event::Compacted(e) => {
            let (before, after, by) = (e.before, e.after, e.by.clone());
            Stream::Compaction(CompactionLine::Done { before, after, by, results: None })
        }
        Event::ResultsCut(e) => {
            let (before, after, results) = (e.before, e.after, Some(e.results.len() as u32));
            Stream::Compaction(CompactionLine::Done { before, after, by: None, results })
        }
        Event::Uncompacted(e) => Stream::Compaction(CompactionLine::Undone { items: e.restored.len() as u32 }),
        Event::Noted(e) => Stream::State(StateLine::Noted { text: source.text(&e.body.hash) }),
        Event::CandidateCooled(e) => {
            Stream::State(StateLine::Cooling { model: e.model.clone(), until: e.until, class: e.class })
        }
        Event::CandidateCleared(e) => Stream::State(StateLine::Cleared { model: e.model.clone() }),
        Event::Reported(e) => Stream::State(StateLine::Reported { request: e.request }),
        Event::WaitBegan(e) => Stream::State(StateLine::Waiting { on: e.on, until: e.until }),
        Event::EndingSet(e) => Stream::State(StateLine::Ending { outcome: e.outcome, terminate: e.terminate }),
        Event::LifecycleChanged(e) => Stream::State(StateLine::Lifecycle {
            from: e.from,
            to: e.to,
            cause: e.cause,
            reason: e.failure.as_ref().map(ToString::to_string),
            remedy: e.remedy.clone(),
        }),
        _ => return None,
    })
}

pub(super) fn delta(effect: EffectId, offset: u64, text: &str) -> Delta {
    Delta { effect, offset, text: text.to_owned() }
}

/// The run that an event names: a subscriber of a run that another process began learns it from the first one.
fn run_of(event: &Event) -> Option<RunId> {
    match event {
        Event::RunStarted(e) => Some(e.run),
        Event::RunEnded(e) => Some(e.run),
        Event::RequestSent(e) => Some(e.request.run),
        Event::CallChecked(e) => Some(e.call.run),
        Event::CallAsked(e) => Some(e.call.run),
        Event::AskAnswered(e) => Some(e.call.run),
        Event::CallStarted(e) => Some(e.call.run),
        Event::CallEnding(e) => Some(e.call.run),
        Event::CallLost(e) => Some(e.call.run),
        Event::CallFound(e) => Some(e.call.run),
        Event::CallSettled(e) => Some(e.call.run),
        Event::ProcessAdopted(e) => Some(e.call.run),
        event => event.progress().map(|(effect, _)| effect.run).or(event.seals().map(|effect| effect.run)),
    }
}

/// The beginning of a text, on one line as it stands.
fn preview(text: &str) -> String {
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r51_a_probe_is_told_again_when_there_was_an_answer_between() {
        let names = vec!["acme/one".to_owned(), "acme/two".to_owned()];
        let mut asked = Asked { names, told: Some(0), probe: false };
        let mut sent = |candidate, probe| match asked.sent(candidate, probe) {
            Some(Stream::State(StateLine::Asks { model, probe })) => Some((model, probe)),
            _ => None,
        };
        let one = || Some(("acme/one".to_owned(), true));
        // It is the one that was chosen; once for each time that it is a probe.
        assert_eq!([sent(0, false), sent(0, true), sent(0, true)], [None, one(), None]);
        assert_eq!([sent(0, false), sent(0, true)], [None, one()]);
        assert_eq!(sent(1, false), Some(("acme/two".to_owned(), false)));
        assert_eq!(Asked::default().sent(1, true), None, "nobody was told whom it asks");
    }
}
