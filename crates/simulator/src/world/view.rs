//! A subscriber's own record: what it received, and what it may rely on.
//!
//! It survives every crash. When the journal is opened again, it compares as a client with a cursor does, and continues
//! reading from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Batch, Body, CallId, CallOutcome, Durability, EffectId, EffectKind, Event, Hash, MessageId, ReceiptState, Record,
    RunId, Seq, ToolClass, WaitFor,
};
use journal::{Entry, Read};

use super::model::text_of;
use crate::case::Form;
use crate::invariant::{Invariant, Violation};
use crate::workload::When;

/// What begins the result of a call whose arguments the user changed.
const EDITED: &str = "The user changed the arguments of this call to ";

/// The output of one effect, as it was received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Streamed {
    pub text: String,
    /// Bytes of everything, including calls and reasoning.
    bytes: u64,
    /// Bytes of text that no crash may take away.
    safe: usize,
    /// Whether an entry has sealed it.
    sealed: bool,
    /// Whether that entry replaced it by something else (a call that was interrupted, or stopped).
    replaced: bool,
}

/// What a subscriber knows.
#[derive(Debug, Clone, Default)]
pub struct View {
    entries: Vec<Arc<Event>>,
    /// The number of entries that no crash may take away.
    safe: usize,
    streams: BTreeMap<EffectId, Streamed>,
    /// Open approval requests, each with its fingerprint.
    pub asks: BTreeMap<CallId, Hash>,
    /// Calls of class `Once` whose start was published.
    pub started: BTreeSet<CallId>,
    /// Settled calls of each run.
    pub settled: BTreeMap<RunId, u32>,
    /// Runs whose end was published.
    pub ended: BTreeSet<RunId>,
    /// Messages whose acceptance was published.
    pub accepted: BTreeSet<MessageId>,
    /// Messages whose cancellation was published.
    pub cancelled: BTreeSet<MessageId>,
    /// Runs whose start was published.
    pub begun: BTreeSet<RunId>,
    /// The run in progress.
    pub run: Option<RunId>,
    /// The entry that paused it.
    pub held: Option<Seq>,
    /// The entry since which a run waits for more budget.
    pub poor: Option<Seq>,
    /// The entry after which only a human can help.
    pub trouble: Option<Seq>,
}

impl View {
    /// The entries that it received.
    pub fn entries(&self) -> &[Arc<Event>] {
        &self.entries
    }

    /// Bytes of text that the open stream of this run has shown.
    pub fn open_text(&self, run: RunId) -> usize {
        let open = self
            .streams
            .iter()
            .filter(|(effect, stream)| effect.run == run && effect.kind == EffectKind::Request && !stream.sealed);
        open.map(|(_, stream)| stream.text.len()).sum()
    }

    /// Whether a run has ended or will never start.
    pub fn is_over(&self, run: RunId) -> bool {
        self.ended.contains(&run) || self.cancelled.contains(&run.into())
    }

    /// Whether a run is in this state now.
    pub fn has_come(&self, when: When, run: RunId) -> bool {
        let settled = self.settled.get(&run).copied().unwrap_or_default();
        match when {
            When::Begun => self.begun.contains(&run),
            When::Streaming => self.open_text(run) > 0,
            When::Settled => settled > 0,
            When::Asked => self.asks.keys().any(|call| call.run == run),
            When::Call => self.started.iter().any(|call| call.run == run),
            When::Text => settled >= 2 && self.open_text(run) > 12,
        }
    }

    /// Receives a batch.
    pub fn receive(&mut self, batch: &Batch, journal: &dyn Read) -> Result<(), Violation> {
        for record in &batch.records {
            if let Some(seq) = record.seq {
                let next = self.entries.len() as u64 + 1;
                Invariant::Published.holds(seq.0 == next, || format!("entry {next} should come, {seq} came"))?;
            }
            self.see(&record.event, journal)?;
        }
        if batch.durability() == Durability::Synced {
            self.safe = self.entries.len();
            self.streams.values_mut().for_each(|stream| stream.safe = stream.text.len());
        }
        Ok(())
    }

    /// Comes back after a crash: what it saw must be in the journal; then it reads what it missed.
    pub fn come_back(
        &mut self,
        entries: &[Entry],
        progress: &[Record],
        form: Form,
        journal: &dyn Read,
    ) -> Result<(), Violation> {
        let mut now = Self::default();
        for event in entries.iter().map(|entry| &entry.event).chain(progress.iter().map(|record| &record.event)) {
            now.see(event, journal)?;
        }
        self.compare(&now, form)?;
        // A process that only discarded its machine has synced nothing. The output of a call that was then lost is
        // gone.
        now.safe = self.safe.min(now.entries.len());
        for (effect, stream) in &self.streams {
            let kept = now.streams.entry(*effect).or_default();
            kept.safe = stream.safe.min(kept.text.len());
        }
        *self = now;
        Ok(())
    }

    /// Marks everything that it knows as durable: it survived a crash.
    pub fn relies_on_all(&mut self) {
        self.safe = self.entries.len();
        self.streams.values_mut().for_each(|stream| stream.safe = stream.text.len());
    }

    fn compare(&self, now: &Self, form: Form) -> Result<(), Violation> {
        for (index, (seen, kept)) in self.entries.iter().zip(&now.entries).enumerate() {
            let (seq, seen_kind, kept_kind) = (index + 1, seen.kind(), kept.kind());
            Invariant::Published.holds(seen == kept, || {
                format!("entry {seq} was shown as {seen_kind} and is another {kept_kind} now")
            })?;
        }
        let least = if matches!(form, Form::Power { .. }) { self.safe } else { self.entries.len() };
        let (seen, kept) = (self.entries.len(), now.entries.len());
        Invariant::Published.holds(kept >= least, || {
            format!("{seen} entries were shown, {least} of them for good, but {kept} are in the journal")
        })?;
        self.streams.iter().try_for_each(|(effect, seen)| seen.compare(*effect, now.streams.get(effect), form))
    }

    fn see(&mut self, event: &Event, journal: &dyn Read) -> Result<(), Violation> {
        if let Some((effect, offset)) = event.progress() {
            return self.streams.entry(effect).or_default().add(effect, offset, event);
        }
        match event {
            Event::MessageAccepted(e) => drop(self.accepted.insert(e.message)),
            Event::CallAsked(e) => drop(self.asks.insert(e.call, e.fingerprint)),
            Event::AskAnswered(e) => drop(self.asks.remove(&e.call)),
            Event::AskExpired(e) if !e.kept => drop(self.asks.remove(&e.call)),
            Event::CallStarted(e) if e.class == ToolClass::Once => drop(self.started.insert(e.call)),
            Event::MessageSettled(e) if e.state == ReceiptState::Cancelled => {
                self.cancelled.insert(e.message);
            }
            Event::RunStarted(e) => {
                self.begun.insert(e.run);
                self.run = Some(e.run);
            }
            Event::RunEnded(e) => {
                self.ended.insert(e.run);
                (self.run, self.held, self.poor) = (None, None, None);
            }
            Event::WaitBegan(e) if e.on == WaitFor::Budget => self.poor = Some(Seq(self.entries.len() as u64 + 1)),
            Event::WaitEnded(e) if e.on == WaitFor::Budget => self.poor = None,
            Event::Paused(_) => self.held = Some(Seq(self.entries.len() as u64 + 1)),
            Event::Resumed(_) => self.held = None,
            Event::LifecycleChanged(e) => {
                let seq = Seq(self.entries.len() as u64 + 1);
                self.trouble = (e.to == LifecycleKind::Error).then_some(seq);
            }
            Event::MessageSealed(e) => self.seal(e.request, e.text, journal)?,
            Event::StreamInterrupted(e) => self.seal(e.request, e.text, journal)?,
            Event::Failed(e) => {
                if let Some(request) = e.request {
                    self.seal(request, e.text, journal)?;
                }
            }
            Event::CallSettled(e) => {
                self.asks.remove(&e.call);
                *self.settled.entry(e.call.run).or_default() += 1;
                // What earlier tries showed went with them.
                for effect in e
                    .effect
                    .into_iter()
                    .flat_map(|last| (1..last.try_no).map(move |try_no| EffectId { try_no, ..last }))
                {
                    let stream = self.streams.entry(effect).or_default();
                    (stream.sealed, stream.replaced) = (true, true);
                }
                match (e.effect, e.outcome) {
                    (Some(effect), CallOutcome::Done) => {
                        self.seal_output(effect, &text_of(journal, &e.whole.unwrap_or(e.output))?)?;
                    }
                    (Some(effect), _) => {
                        let stream = self.streams.entry(effect).or_default();
                        (stream.sealed, stream.replaced) = (true, true);
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        self.entries.push(Arc::new(event.clone()));
        Ok(())
    }

    /// Checks that the entry that seals a stream names the text that was shown, or more if some of it was missed.
    fn seal(&mut self, request: EffectId, text: Option<Body>, journal: &dyn Read) -> Result<(), Violation> {
        let sealed = text.map_or(Ok(String::new()), |text| text_of(journal, &text))?;
        let stream = self.streams.entry(request).or_default();
        let missed = stream.bytes == 0;
        Invariant::Stream.holds(missed || stream.text == sealed, || {
            format!("{request} streamed `{}` and was sealed as `{sealed}`", stream.text)
        })?;
        stream.text = sealed;
        stream.sealed = true;
        Ok(())
    }

    /// Checks that the output that was shown while a call ran is the beginning of its result.
    fn seal_output(&mut self, effect: EffectId, output: &str) -> Result<(), Violation> {
        let stream = self.streams.entry(effect).or_default();
        // The model also receives with which arguments a call ran that were not its own.
        let edited = output.strip_prefix(EDITED).and_then(|rest| rest.split_once('\n'));
        let own = edited.map_or(output, |(_, own)| own);
        Invariant::Stream.holds(own.starts_with(&stream.text), || {
            format!("{effect} showed `{}` and gave back `{output}`", stream.text)
        })?;
        own.clone_into(&mut stream.text);
        stream.sealed = true;
        Ok(())
    }
}

impl Streamed {
    fn add(&mut self, effect: EffectId, offset: u64, event: &Event) -> Result<(), Violation> {
        let ended = self.sealed || offset != self.bytes;
        Invariant::Stream
            .holds(!ended, || format!("{effect} stands at byte {}, a piece at {offset} came", self.bytes))?;
        match event {
            Event::TextAdded(e) => self.text.push_str(&e.text),
            Event::OutputAdded(e) => self.text.push_str(&e.text),
            _ => {}
        }
        self.bytes += length(event);
        Ok(())
    }

    fn compare(&self, effect: EffectId, now: Option<&Self>, form: Form) -> Result<(), Violation> {
        let kept = now.map_or("", |stream| stream.text.as_str());
        let least = if matches!(form, Form::Power { .. }) { &self.text[..self.safe] } else { self.text.as_str() };
        let replaced = now.is_some_and(|stream| stream.replaced);
        let held = kept.starts_with(least) && (kept.starts_with(&self.text) || self.text.starts_with(kept));
        Invariant::Published
            .holds(held || replaced, || format!("{effect} had shown `{}`, the journal has `{kept}`", self.text))
    }
}

/// Bytes that a piece of progress adds to the output of its effect.
fn length(event: &Event) -> u64 {
    let bytes = match event {
        Event::TextAdded(e) => e.text.len(),
        Event::ReasoningAdded(e) => e.text.len(),
        Event::OutputAdded(e) => e.text.len(),
        Event::CallPartAdded(e) => {
            let names = e.provider_id.as_ref().map_or(0, String::len) + e.name.as_ref().map_or(0, String::len);
            (names + e.arguments.len()).max(1)
        }
        _ => 0,
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use engine::{Closed, Epoch, Position, TextAdded, Timestamp, Views};
    use journal::Memory;

    use super::*;
    use crate::plan::{branch_id, message_id, session_id};

    fn request() -> EffectId {
        EffectId { run: message_id(0).into(), kind: EffectKind::Request, ordinal: 1, try_no: 1 }
    }

    fn text(offset: u64, text: &str) -> Event {
        TextAdded { effect: request(), offset, text: text.into() }.into()
    }

    fn closed(epoch: u64) -> Event {
        Closed { epoch: Epoch(epoch) }.into()
    }

    fn entry(seq: u64, event: Event) -> Entry {
        let (position, epoch, at) = (Position(seq), Epoch(1), Timestamp(0));
        let (payload_hash, chain) = (Hash([0; 32]), Hash([0; 32]));
        Entry { seq: Seq(seq), position, epoch, at, event, payload_hash, chain }
    }

    fn record(seq: Option<u64>, event: Event) -> Record {
        Record { seq: seq.map(Seq), at: Timestamp(0), event }
    }

    fn batch(records: Vec<Record>) -> Batch {
        let (session, branch, views) = (session_id(), branch_id(), Views::default());
        Batch { session, branch, records, bodies: vec![], views }
    }

    /// Two batches are shown, one synced entry and two pieces of text; then these are found in the journal.
    fn check_comes_back(kept: (&[Entry], &[Record]), form: Form, expected: Option<Invariant>) {
        let journal = Memory::new();
        let mut view = View::default();
        view.receive(&batch(vec![record(Some(1), closed(1))]), &journal).unwrap();
        view.receive(&batch(vec![record(None, text(0, "ab")), record(None, text(2, "cd"))]), &journal).unwrap();
        let back = view.come_back(kept.0, kept.1, form, &journal);
        assert_eq!(back.err().map(|violation| violation.invariant), expected, "{kept:?} after {form}");
    }

    #[test]
    fn r10_what_was_shown_may_only_lose_an_unsynced_end_and_only_with_the_power() {
        let (entries, power) = ([entry(1, closed(1))], Form::Power { keep: 0 });
        let (whole, half) = ([record(None, text(0, "abcd"))], [record(None, text(0, "ab"))]);
        let other = [record(None, text(0, "abx"))];
        check_comes_back((&entries, &whole), Form::Process, None);
        check_comes_back((&entries, &half), Form::Process, Some(Invariant::Published));
        check_comes_back((&entries, &half), power, None);
        check_comes_back((&entries, &[]), power, None);
        check_comes_back((&entries, &other), power, Some(Invariant::Published));
        check_comes_back((&[], &[]), power, Some(Invariant::Published));
        check_comes_back((&[entry(1, closed(2))], &whole), Form::Process, Some(Invariant::Published));
    }

    #[test]
    fn r12_text_that_comes_twice_or_leaves_a_gap_is_found() {
        for (offset, fits) in [(2, true), (0, false), (1, false), (3, false)] {
            let mut view = View::default();
            view.receive(&batch(vec![record(None, text(0, "ab"))]), &Memory::new()).unwrap();
            let received = view.receive(&batch(vec![record(None, text(offset, "cd"))]), &Memory::new());
            assert_eq!(
                received.err().map(|violation| violation.invariant),
                (!fits).then_some(Invariant::Stream),
                "{offset}"
            );
        }
    }
}
