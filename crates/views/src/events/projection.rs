//! Projects one record as a line: the sentence for each kind of event.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Body, CallId, CallOutcome, Content, EffectId, Epoch, Event, FileKind, FilesChanged, Hash, LineDiff, MessageSealed,
    Next, Note, Outcome, PlanSet, Record, RunEnded, RunId, RunRow, Seq, Settings, Timestamp, plan_items,
};
use journal::{Entry, Error, Read};
use protocol::event::{
    AssistantLine, CompactionLine, DeliveryLine, Delta, LifecycleLine, PlanLine, QueueLine, ReasoningLine, RunEnd,
    StateLine, Stream, ToolLine, UsageLine,
};
use protocol::method::{FileAct, FileDiff};

use super::batch_position::{BatchPosition, LinePosition};
use super::lines::LastRun;
use super::position::StreamPosition;
use super::shows::Shows;
use crate::sentence::names;

/// Characters of a call's arguments or output that a line shows; the journal holds the whole text.
const PREVIEW_CHARS: usize = 400;

/// Characters of the end of a longer output of a call that failed.
const TAIL_CHARS: usize = 1_600;

/// Entries that are read at once, backwards.
const LOOK_BACK: u64 = 64;

/// A line, and its anchor in the journal of its session.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub event: protocol::Event,
    pub at: LinePosition,
}

/// The source of the projected lines.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) key: &'a str,
    /// The batch or entry that is reported.
    pub(super) batch: BatchPosition,
    /// The bodies that came with it; all other bodies are in the store.
    pub(super) bodies: &'a [Content],
    pub(super) store: &'a dyn Read,
}

/// How far a session has been reported.
#[derive(Debug, Default)]
pub(super) struct Projection {
    pub(super) position: StreamPosition,
    pub(super) run: Option<RunId>,
    /// What calls changed in files, until the result of the call follows in the same batch.
    changes: Vec<(CallId, FileDiff)>,
    /// The calls of the last message.
    calls: BTreeMap<CallId, (String, String)>,
    /// The end of a run, until everything recorded with it is reported.
    end: Option<Line>,
    shows: Shows,
    /// The last run of the session that has ended; none if that was not looked up yet.
    pub(super) last: Option<LastRun>,
    /// The model candidates that the run asks.
    candidates: Candidates,
}

/// The candidates of the active run, as far as they are known.
#[derive(Debug, Default)]
struct Candidates {
    /// The names of the candidates.
    names: Vec<String>,
    /// The candidate that was reported last; `None` if the run began before anything of it was reported.
    reported: Option<u32>,
    /// Whether it was reported as a probe.
    probe: bool,
}

impl Candidates {
    /// What is reported of a request beside what other lines report.
    fn see(&mut self, source: Source<'_>, event: &Event) -> Option<Stream> {
        match event {
            Event::RunStarted(e) => {
                let settings = source.bytes(&e.settings).and_then(|bytes| Settings::from_bytes(&bytes).ok());
                let names = settings.map(|settings| names(&settings.candidates)).unwrap_or_default();
                *self = Self { names, reported: Some(0), probe: false };
                None
            }
            Event::RetryScheduled(e) => {
                self.reported = e.candidate.or(self.reported);
                None
            }
            Event::RequestSent(e) => self.sent(e.candidate, e.probe),
            _ => None,
        }
    }

    /// Records a request to this candidate. Returns the model to report, if it has to be reported.
    fn sent(&mut self, candidate: u32, probe: bool) -> Option<Stream> {
        let reported = self.reported.replace(candidate)?;
        let is_update = reported != candidate || probe && !self.probe;
        self.probe = probe;
        let model = self.names.get(candidate as usize).filter(|_| is_update)?.clone();
        Some(Stream::State(StateLine::Asks { model, probe }))
    }
}

/// The bytes of the texts that the line of an event may have, or is made of.
pub fn text_bytes(event: &Event) -> u64 {
    match event {
        Event::TextAdded(e) => e.text.len() as u64,
        Event::ReasoningAdded(e) => e.text.len() as u64,
        Event::OutputAdded(e) => e.text.len() as u64,
        event => event.bodies().iter().map(|body| body.bytes).sum(),
    }
}

impl Source<'_> {
    /// A body; `None` if it was erased.
    fn bytes(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let here = self.bodies.iter().find(|content| content.body.hash == *hash);
        here.map(|content| Arc::clone(&content.bytes)).or_else(|| self.store.body(hash).ok().flatten())
    }

    /// The text of a body; empty if it was erased.
    pub(super) fn text(&self, hash: &Hash) -> String {
        self.bytes(hash).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last entry up to this one that can be reported.
    pub(super) fn look_back<T>(
        &self,
        from: Seq,
        mut find: impl FnMut(&Entry) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut until = from;
        while until > Seq(0) {
            let first = Seq(until.0.saturating_sub(LOOK_BACK - 1).max(1));
            let Ok(entries) = self.store.range(self.batch.branch, first, until) else {
                // Earlier entries were removed: what still exists is read at once.
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
    /// For a session without waiting messages and without an active run.
    pub(super) fn idle() -> Self {
        Self { shows: Shows::Nothing, ..Self::default() }
    }

    /// For a reader at this position.
    pub(super) fn at_position(position: StreamPosition) -> Self {
        Self { position, ..Self::default() }
    }

    /// Projects a record. `following` is what was recorded together with it and after it.
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
        if let Event::FilesChanged(changed) = event {
            self.changes.extend(file_diff(source, changed).map(|diff| (changed.call, diff)));
        }
        let what = match event {
            Event::RunEnded(ended) => Some(run_ended(source, ended)),
            Event::Failed(e) => Some(failed(&e.failure, following)),
            Event::CompactionFailed(e) => {
                let ends_run = ends_run(following);
                Some(Stream::Compaction(CompactionLine::Failed {
                    failure: e.failure.clone(),
                    ends_run,
                    category: Some(e.failure.category()),
                }))
            }
            Event::PlanSet(e) => Some(plan_set(source, e)),
            event => self.of_call(source, event).or_else(|| delivery(source, event)).or_else(|| plain(source, event)),
        };
        let what = self.candidates.see(source, event).or(what);
        let changed = || (!queue.is_empty()).then_some(Stream::Queue(QueueLine::Shows));
        if let Some(what) = what.or_else(changed) {
            let at = LinePosition::new(source.batch, seq, progress);
            let mut line = Line { at, ..self.line(source, record.at, what) };
            line.event.queue = queue;
            line.event.run = match event {
                Event::MessageAccepted(e) => Some(RunId::from(e.message)),
                Event::RunEnded(e) => Some(e.run),
                // They may come when that run has ended, and another one is active.
                Event::DeliveryWanted(e) => Some(e.delivery.run),
                Event::DeliveryFailed(e) => Some(e.delivery.run),
                Event::DeliveryEnded(e) => Some(e.delivery.run),
                // This is the last line of the run that never began.
                Event::MessageSettled(e) if line.event.never_began(e.message.into()).is_some() => {
                    Some(e.message.into())
                }
                _ => line.event.run,
            };
            if let (Event::RunEnded(_), Some(seq)) = (event, record.seq) {
                // A client that waits for the end has seen everything recorded with it.
                self.position.set_pending_end(seq);
                self.end = Some(line);
            } else {
                lines.push(line);
            }
        }
    }

    /// Advances past records that nobody receives.
    pub(super) fn pass(&mut self, records: &[Record], epoch: Epoch) {
        for record in records {
            self.see(record, epoch);
        }
        self.shows = Shows::Unknown;
    }

    /// Advances past a record.
    fn see(&mut self, record: &Record, epoch: Epoch) -> (Seq, Option<(EffectId, u64)>) {
        let place = self.position.see(record, epoch);
        self.run = run_of(&record.event).or(self.run);
        if let Event::RunEnded(_) = &record.event {
            self.run = None;
            self.calls.clear();
            self.changes.clear();
        }
        place
    }

    /// A line without a record, behind the lines so far.
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

    /// The line of what a run has spent so far.
    pub(super) fn usage(&self, source: Source<'_>, at: Timestamp, run: &RunRow) -> Line {
        let what = Stream::Usage(UsageLine::Run { model: run.model.clone(), usage: run.usage });
        let mut line = self.line(source, at, what);
        line.event.run = Some(run.run);
        line
    }

    /// Reports the end of a run that was deferred.
    pub(super) fn flush(&mut self, lines: &mut Vec<Line>) {
        if let Some(mut line) = self.end.take() {
            self.position.clear_pending_end();
            line.event.cursor = self.position.to_string();
            lines.push(line);
        }
    }

    /// Whether nothing of the session is active.
    pub(super) fn is_idle(&self) -> bool {
        self.run.is_none() && self.position.has_nothing_open()
    }

    /// Reads the run that is active at this cursor from the journal.
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

    /// A call's tool and arguments; read from the journal if the call was requested earlier.
    fn call(&mut self, source: Source<'_>, id: CallId) -> (String, String) {
        if !self.calls.contains_key(&id) {
            let sealed = source.look_back(self.position.seq(), |entry| match &entry.event {
                Event::MessageSealed(sealed) if sealed.calls.iter().any(|call| call.id == id) => Some(sealed.clone()),
                _ => None,
            });
            // A call that cannot be read has no name; readers of the journal receive the reason.
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
            Event::CallSettled(e) => {
                let (tool, text) = (self.call(source, e.call).0, source.text(&e.output.hash));
                let changes = std::mem::take(&mut self.changes).into_iter();
                let changes = changes.filter(|(call, _)| *call == e.call).map(|(_, diff)| diff);
                ToolLine::End {
                    call: e.call,
                    tool,
                    outcome: e.outcome,
                    bytes: e.output.bytes,
                    output: preview(&text),
                    lines: counted_lines(&text),
                    tail: (e.outcome != CallOutcome::Done).then(|| tail(&text)).flatten(),
                    changes: changes.collect(),
                }
            }
            Event::OutputAdded(e) => ToolLine::Update(delta(e.effect, e.offset, &e.text)),
            Event::CallAsked(e) => {
                let question = e.question.clone();
                ToolLine::Asked { call: e.call, question, fingerprint: e.fingerprint, takes: e.takes }
            }
            Event::AskAnswered(e) => ToolLine::Answered {
                call: e.call,
                allow: e.allow,
                question: e.answer.is_some() || e.skipped,
                by: e.by.clone(),
                reason: e.reason.clone(),
                edited: e.edited.as_ref().map(|edited| edited.shown.clone()),
                always: e.grant.is_some(),
            },
            Event::AskExpired(e) => ToolLine::Expired { call: e.call, kept: e.kept },
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

/// What a call changed in the lines of a file; none if that is not recorded.
fn file_diff(source: Source<'_>, e: &FilesChanged) -> Option<FileDiff> {
    let LineDiff { added, removed, text } = e.diff?;
    let act = match (e.before, e.after) {
        (None, _) => FileAct::Created,
        (_, None) => FileAct::Removed,
        (Some(_), Some(_)) => FileAct::Changed,
    };
    let diff = Some(source.text(&text.hash)).filter(|diff| !diff.is_empty());
    let (path, kind) = (e.path.clone(), FileKind::File);
    let (added, removed) = (added as usize, removed as usize);
    Some(FileDiff { path, kind, act, mode: None, added, removed, diff, note: None })
}

fn run_ended(source: Source<'_>, e: &RunEnded) -> Stream {
    let end = RunEnd {
        outcome: e.outcome,
        text: e.text.iter().map(|body: &Body| source.text(&body.hash)).collect(),
        usage: e.usage,
        error: e.failure.as_ref().map(ToString::to_string),
        stop_reason: e.stop_reason,
        category: e.failure.as_ref().map(engine::Failure::category),
        checkpoint: e.checkpoint.map(|seq| format!("{}@{seq}", source.batch.branch)),
    };
    Stream::Lifecycle(match e.outcome {
        Outcome::Completed => LifecycleLine::End(end),
        _ => LifecycleLine::Error(end),
    })
}

/// Returns the reaction to a failure, which is decided in the same batch.
fn failed<'e>(failure: &engine::Failure, following: impl Iterator<Item = &'e Event>) -> Stream {
    let category = Some(failure.category());
    Stream::State(StateLine::Failed { failure: failure.clone(), ends_run: ends_run(following), category })
}

fn ends_run<'e>(mut following: impl Iterator<Item = &'e Event>) -> bool {
    let decided = following.find(|event| {
        matches!(event, Event::RunEnded(_) | Event::RetryScheduled(_) | Event::WaitBegan(_) | Event::CompactionBegun(_))
    });
    matches!(decided, Some(Event::RunEnded(_)))
}

fn plan_set(source: Source<'_>, e: &PlanSet) -> Stream {
    let items = plan_items(source.text(&e.items.hash).as_bytes());
    Stream::Plan(PlanLine::Set { call: e.call, items: items.into_iter().map(Into::into).collect() })
}

fn plain(source: Source<'_>, event: &Event) -> Option<Stream> {
    Some(match event {
        Event::MessageAccepted(e) => {
            let text = Some(preview(&source.text(&e.body.hash))).filter(|text| !text.is_empty());
            Stream::Queue(QueueLine::Accepted { message: e.message, key: e.key.clone(), text })
        }
        Event::MessageSettled(e) => {
            Stream::Queue(QueueLine::Settled { message: e.message, state: e.state, taken_by: e.run, leg: e.leg })
        }
        Event::Opened(e) => Stream::Lifecycle(LifecycleLine::Opened { epoch: e.epoch }),
        Event::RunStarted(_) => Stream::Lifecycle(LifecycleLine::Start),
        Event::TextAdded(e) => Stream::Assistant(AssistantLine::Delta(delta(e.effect, e.offset, &e.text))),
        Event::ReasoningAdded(e) => Stream::Reasoning(ReasoningLine::Delta(delta(e.effect, e.offset, &e.text))),
        Event::StreamInterrupted(e) => Stream::Assistant(AssistantLine::Cut { effect: e.request, cause: e.cause }),
        Event::TextRetracted(e) => Stream::Assistant(AssistantLine::Struck { effect: e.request }),
        Event::MessageSealed(e) => Stream::Assistant(AssistantLine::Message {
            effect: e.request,
            text: e.text.as_ref().map(|body| source.text(&body.hash)),
            calls: e.calls.len() as u32,
            stop_reason: e.stop_reason,
            continues: e.next == Next::Continue,
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
        Event::ResultsTruncated(e) => {
            let (before, after, results) = (e.before, e.after, Some(e.results.len() as u32));
            Stream::Compaction(CompactionLine::Done { before, after, by: None, results })
        }
        Event::Uncompacted(e) => Stream::Compaction(CompactionLine::Undone { items: e.restored.len() as u32 }),
        Event::Noted(e) => {
            Stream::State(StateLine::Noted { text: source.text(&e.body.hash), facts: e.note == Note::Facts })
        }
        Event::CandidateCooldownSet(e) => {
            Stream::State(StateLine::Cooling { model: e.model.clone(), until: e.until, class: e.class })
        }
        Event::CandidateCooldownLifted(e) => Stream::State(StateLine::Cleared { model: e.model.clone() }),
        Event::UndoStarted(e) => Stream::State(StateLine::Undoing { of: e.run, redo: e.redo, copy: e.copy }),
        Event::UndoEnded(e) => Stream::State(StateLine::Undone { of: e.undo.run, left: e.left.len() }),
        Event::ErasureEnded(e) => Stream::State(StateLine::Erased { error: e.failure.clone() }),
        Event::TitleEnded(e) => Stream::State(StateLine::Titled { title: source.text(&e.text?.hash) }),
        Event::Reported(e) => Stream::State(StateLine::Reported { request: e.request }),
        Event::WaitBegan(e) => {
            Stream::State(StateLine::Waiting { on: e.on, until: e.until, budget: e.limit.map(Into::into) })
        }
        Event::EndingSet(e) => Stream::State(StateLine::Ending { outcome: e.outcome, terminate: e.terminate }),
        Event::LifecycleChanged(e) => Stream::State(StateLine::Lifecycle {
            from: e.from,
            to: e.to,
            cause: e.cause,
            reason: e.failure.as_ref().map(ToString::to_string),
            remedy: e.remedy.clone(),
            attempt: e.attempt,
            retry_at: e.retry_at,
        }),
        _ => return None,
    })
}

/// What goes out of the session.
fn delivery(source: Source<'_>, event: &Event) -> Option<Stream> {
    Some(Stream::Delivery(match event {
        Event::DeliveryWanted(e) => {
            let text = e.text.map(|text| source.text(&text.hash));
            let text = if e.to.is_none() { text } else { text.map(|text| preview(&text)) };
            let (id, to) = (e.delivery.delivery_name(), e.to.clone());
            DeliveryLine::Wanted { id, kind: e.kind, to, text, call: e.call }
        }
        Event::DeliveryFailed(e) => {
            let (id, why) = (e.delivery.delivery_name(), e.why.clone());
            DeliveryLine::Failed { id, why, until: e.until }
        }
        Event::DeliveryEnded(e) => {
            let (id, why) = (e.delivery.delivery_name(), e.why.clone());
            DeliveryLine::Ended { id, arrived: e.arrived, why, dropped: e.dropped }
        }
        _ => return None,
    }))
}

pub(super) fn delta(effect: EffectId, offset: u64, text: &str) -> Delta {
    Delta { effect, offset, text: text.to_owned() }
}

/// The run that an event names: a subscriber of a run that another process began learns it from the first such event.
fn run_of(event: &Event) -> Option<RunId> {
    match event {
        Event::RunStarted(e) => Some(e.run),
        Event::RunEnded(e) => Some(e.run),
        Event::RequestSent(e) => Some(e.request.run),
        Event::CallChecked(e) => Some(e.call.run),
        Event::CallAsked(e) => Some(e.call.run),
        Event::AskAnswered(e) => Some(e.call.run),
        Event::AskExpired(e) => Some(e.call.run),
        Event::AnswerRefused(e) => Some(e.call.run),
        Event::CallStarted(e) => Some(e.call.run),
        Event::CallEnding(e) => Some(e.call.run),
        Event::CallLost(e) => Some(e.call.run),
        Event::CallFound(e) => Some(e.call.run),
        Event::CallSettled(e) => Some(e.call.run),
        Event::ProcessAdopted(e) => Some(e.call.run),
        Event::FilesChanged(e) => Some(e.call.run),
        Event::PlanSet(e) => Some(e.call.run),
        event => event.progress().map(|(effect, _)| effect.run).or(event.seals().map(|effect| effect.run)),
    }
}

/// The beginning of a text, on one line, not sanitized.
fn preview(text: &str) -> String {
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The lines of an output, without what a tool says about them: that there are none, or that more follow.
fn counted_lines(text: &str) -> u64 {
    const NOTES: [&str; 3] = ["[more lines follow", "[more follow after these ", "[stopped after "];
    const NOTE_ENDS: [&str; 2] =
        [" files or folders could not be read]", " more entries left out; search with grep, or list with a command]"];
    let is_note = |line: &&str| {
        NOTES.iter().any(|note| line.starts_with(note)) || NOTE_ENDS.iter().any(|end| line.ends_with(end))
    };
    let notes = text.lines().rev().take(NOTES.len()).take_while(is_note).count();
    let lines = text.lines().count() - notes;
    let says_none = |line: &str| line == "no matches" || line.ends_with(" is empty");
    if lines == 1 && text.lines().next().is_some_and(says_none) { 0 } else { lines as u64 }
}

/// The end of a text, from the beginning of a line if one begins soon; none if its preview is all of it.
fn tail(text: &str) -> Option<String> {
    text.char_indices().nth(PREVIEW_CHARS)?;
    let (at, _) = text.char_indices().rev().nth(TAIL_CHARS - 1).unwrap_or_default();
    let is_near = |line: &usize| at > 0 && *line < TAIL_CHARS / 4;
    let from = text[at..].find('\n').filter(is_near).map_or(at, |line| at + line + 1);
    Some(text[from..].to_owned()).filter(|tail| !tail.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r43_the_end_of_a_long_output_is_whole_lines_of_its_end() {
        assert_eq!((tail(""), tail(&"x".repeat(PREVIEW_CHARS))), (None, None));
        let lines = |most: usize| (0..most).map(|line| format!("line {line} ü\n")).collect::<Vec<_>>().concat();
        assert_eq!(tail(&lines(60)), Some(lines(60)), "what is not much longer is all of it");
        let long = tail(&lines(1_000)).unwrap();
        assert!(long.starts_with("line ") && long.ends_with("line 999 ü\n"), "{long}");
        assert!((TAIL_CHARS - 20..TAIL_CHARS).contains(&long.chars().count()));
        assert_eq!(tail(&"ü".repeat(9_000)), Some("ü".repeat(TAIL_CHARS)), "one line");
        let long_line = tail(&("x".repeat(9_000) + "\n[exit status 1]\n")).unwrap();
        assert!(long_line.starts_with("xxx") && long_line.ends_with("x\n[exit status 1]\n"), "{long_line}");
    }

    #[test]
    fn r09_what_a_tool_says_about_its_output_is_no_line_of_it() {
        for (text, lines) in [
            ("no matches\n", 0),
            ("notes is empty\n", 0),
            ("a\nb\n", 2),
            ("a\n[more lines follow; continue with offset=2]\n", 1),
            ("a\n[stopped after 200 matches; narrow it]\n[2 files or folders could not be read]\n", 1),
            ("[section]\n", 1),
            ("", 0),
        ] {
            assert_eq!(counted_lines(text), lines, "{text}");
        }
    }

    #[test]
    fn r51_a_probe_is_reported_again_after_an_answer_in_between() {
        let names = vec!["acme/one".to_owned(), "acme/two".to_owned()];
        let mut candidates = Candidates { names, reported: Some(0), probe: false };
        let mut sent = |candidate, probe| match candidates.sent(candidate, probe) {
            Some(Stream::State(StateLine::Asks { model, probe })) => Some((model, probe)),
            _ => None,
        };
        let one = || Some(("acme/one".to_owned(), true));
        // The selected candidate is reported once, and once for each probe.
        assert_eq!([sent(0, false), sent(0, true), sent(0, true)], [None, one(), None]);
        assert_eq!([sent(0, false), sent(0, true)], [None, one()]);
        assert_eq!(sent(1, false), Some(("acme/two".to_owned(), false)));
        assert_eq!(Candidates::default().sent(1, true), None, "the candidates were never reported");
    }
}
