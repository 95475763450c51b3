//! How far one session is reported to a resuming reader, entry by entry: the missed part of a text comes from the entry
//! that seals the text.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{BranchId, EffectId, Event, Machine, Record, Settings, Timestamp, Usage};
use journal::{Entry, Error, Read};
use protocol::event::{AssistantLine, ReasoningLine, Stream};
use protocol::limits::PART_BYTES;

use super::lines::current;
use super::position::StreamPosition;
use super::projection::{Line, Projection, Source, delta};
use super::resume::text_of;

/// How far a session is reported.
pub(super) struct Missed {
    pub(super) projection: Projection,
    /// Requests whose text is known to begin here, or was reported.
    begun: BTreeSet<EffectId>,
}

impl Missed {
    pub(super) fn at_position(position: StreamPosition) -> Self {
        Self { projection: Projection::at_position(position), begun: BTreeSet::new() }
    }

    /// Reports an entry, after the missed part of the text that it seals. `following` is what was recorded after it.
    pub(super) fn notify<'e>(
        &mut self,
        source: Source<'_>,
        entry: &Entry,
        following: impl Iterator<Item = &'e Event>,
        lines: &mut Vec<Line>,
    ) -> Result<(), Error> {
        if let Event::RequestSent(e) = &entry.event {
            self.begun.insert(e.request);
        }
        self.rest_of(source, entry, lines)?;
        let record = Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
        self.projection.notify(source, (&record, entry.epoch), following, lines);
        Ok(())
    }

    /// Reports progress whose owner is not known.
    pub(super) fn show(&mut self, source: Source<'_>, record: &Record, lines: &mut Vec<Line>) {
        self.projection.notify(source, (record, engine::Epoch(0)), std::iter::empty(), lines);
    }

    /// Reports the missed part of the text that this entry seals.
    fn rest_of(&mut self, source: Source<'_>, entry: &Entry, lines: &mut Vec<Line>) -> Result<(), Error> {
        let (Some(effect), Some(text)) = (entry.event.seals(), text_of(&entry.event)) else { return Ok(()) };
        if matches!(entry.event, Event::CallSettled(_)) || self.was_reported(source, effect)? {
            return Ok(());
        }
        let reasoning = match &entry.event {
            Event::MessageSealed(e) => e.reasoning,
            _ => None,
        };
        let mut reached = self.projection.position.reached(effect).unwrap_or_default();
        let mut piece = |reached, what| {
            self.projection.flush(lines);
            self.projection.run = Some(effect.run);
            self.projection.position.set_reached(effect, reached);
            lines.push(self.projection.line(source, entry.at, what));
        };
        let missed = reasoning.and_then(|body| rest(&source.text(&body.hash), reached.reasoning));
        for part in missed.iter().flat_map(|text| parts(text)) {
            let delta = delta(effect, reached.end, part);
            reached.end += part.len() as u64;
            reached.reasoning += part.len() as u64;
            piece(reached, Stream::Reasoning(ReasoningLine::Delta(delta)));
        }
        let missed = rest(&source.text(&text.hash), reached.text);
        for part in missed.iter().flat_map(|text| parts(text)) {
            let delta = delta(effect, reached.end, part);
            reached.end += part.len() as u64;
            reached.text += part.len() as u64;
            piece(reached, Stream::Assistant(AssistantLine::Delta(delta)));
        }
        Ok(())
    }

    /// Whether the text of a request was sealed before: what follows an interruption is a message of the same text.
    fn was_reported(&mut self, source: Source<'_>, effect: EffectId) -> Result<bool, Error> {
        if self.projection.position.reached(effect).is_some() {
            self.begun.remove(&effect);
            return Ok(false);
        }
        if self.begun.remove(&effect) {
            return Ok(false);
        }
        let sealed = source.look_back(self.projection.position.seq(), |entry| match &entry.event {
            Event::RequestSent(e) if e.request == effect => Some(false),
            event if event.seals() == Some(effect) => Some(true),
            _ => None,
        })?;
        Ok(sealed.unwrap_or(false))
    }

    /// Returns the state of the session at the end; `None` if the session does not fold. `last` is the time of the last
    /// missed entry.
    pub(super) fn state(&mut self, source: Source<'_>, last: Option<Timestamp>, lines: &mut Vec<Line>) {
        let store = source.store;
        let machine = recovered(store, source.batch.branch);
        if let Some(session) = machine.as_ref().and_then(Machine::session) {
            let at = last.unwrap_or(session.account.last_activity);
            lines.push(self.projection.line(source, at, Stream::State(current(store, session))));
            let spends = session.run().filter(|run| run.usage != Usage::default());
            // Without a row, the usage is reported with the next request.
            if let Some(row) = spends.and_then(|run| store.run(run.id).ok().flatten()) {
                lines.push(self.projection.usage(source, at, &row));
            }
        }
        self.projection.flush(lines);
    }
}

/// Returns the text behind this many bytes; `None` if it is empty.
fn rest(text: &str, seen: u64) -> Option<String> {
    let rest = text.get(usize::try_from(seen).ok()?..)?;
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// A text in parts as a model sends them: each is a line.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut left = text;
    std::iter::from_fn(move || {
        let (part, rest) = left.split_at(left.floor_char_boundary(PART_BYTES));
        left = rest;
        (!part.is_empty()).then_some(part)
    })
}

/// A session as it is in the journal, from its last snapshot on; `None` if it cannot be read.
pub(super) fn recovered(store: &dyn Read, branch: BranchId) -> Option<Machine> {
    let settings = |hash| Settings::from_bytes(&store.body(&hash).ok().flatten()?).ok().map(Arc::new);
    Machine::recover(store.line(branch).ok()?.into(), &settings).ok()
}
