//! What a subscriber that comes back has not seen: the lines that it would have read, from the journal. What may not live
//! here: what happens from now on.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{EffectId, Event, Machine, Record, RunId, Seq, SessionRow, Settings, Timestamp, Usage};
use journal::{Entry, Error, Read, Tail};
use protocol::event::{AssistantLine, ReasoningLine, Stream};

use super::cursor::{Cursor, Since, text_of};
use super::lines::{changed, rewound};
use super::telling::{Line, Position, Source, delta};

/// What was missed.
#[derive(Debug, Clone, PartialEq)]
pub struct CatchUp {
    /// In order. Of an answer that was sealed meanwhile, what was missed of its text is one piece.
    pub lines: Vec<Line>,
    /// Where a subscriber stands that has read them.
    pub cursor: Cursor,
}

/// What a subscriber of this session that stands here has missed, and the state of the session at the end.
pub fn catch_up(store: &dyn Read, session: &SessionRow, from: &Cursor) -> Result<CatchUp, Error> {
    let source = Source { key: &session.key, branch: session.branch, bodies: &[], store };
    let mut lines = vec![];
    let since = if *from == Cursor::default() {
        // From the beginning is from what is still there.
        let line = store.history(session.branch)?;
        let entries = line.entries().map(|(_, entry)| entry.clone()).collect();
        Since::Tail(Tail { entries, progress: line.progress })
    } else {
        from.since(store, session.branch)?
    };
    let (cursor, tail) = match since {
        Since::Tail(tail) => (from.clone(), tail),
        Since::Rewound { to } => {
            // What is kept of an open answer is told again from its beginning: nobody knows what of it stands on a screen.
            let to = to.at_rest();
            let line = rewound(session, &to, session.last_activity);
            lines.push(Line { event: line, place: to.place() });
            let Since::Tail(tail) = to.since(store, session.branch)? else {
                return Ok(CatchUp { lines, cursor: to });
            };
            (to, tail)
        }
    };
    let mut missed = Missed::standing_at(cursor);
    missed.position.find_run(source)?;
    for (at, entry) in tail.entries.iter().enumerate() {
        let following = tail.entries[at + 1..].iter().map(|entry| &entry.event);
        missed.notify(source, entry, following, &mut lines)?;
    }
    for record in &tail.progress {
        missed.show(source, record, &mut lines);
    }
    let last = tail.progress.last().map(|record| record.at).or(tail.entries.last().map(|entry| entry.at));
    missed.state(source, last, &mut lines);
    Ok(CatchUp { lines, cursor: missed.position.cursor })
}

/// Where a subscriber of a run begins: before its first entry.
pub fn before_run(store: &dyn Read, session: &SessionRow, run: RunId) -> Result<Cursor, Error> {
    let Some(row) = store.run(run)? else { return Ok(Cursor::default()) };
    let before = Seq(row.first_seq.0.saturating_sub(1));
    let entry = store.range(session.branch, before, before)?.into_iter().next();
    Ok(entry.map_or_else(Cursor::default, |entry| Cursor::at(entry.epoch, entry.seq)))
}

/// How far one branch has been told to whoever comes back.
pub(super) struct Missed {
    pub(super) position: Position,
    /// Requests whose text is known to begin here, or was told.
    begun: BTreeSet<EffectId>,
}

impl Missed {
    pub(super) fn standing_at(cursor: Cursor) -> Self {
        Self { position: Position::standing_at(cursor), begun: BTreeSet::new() }
    }

    /// Tells an entry, behind what was missed of the text that it seals. `following` is what was recorded after it.
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
        self.position.notify(source, (&record, entry.epoch), following, lines);
        Ok(())
    }

    /// Tells progress, of which the owner is not known.
    pub(super) fn show(&mut self, source: Source<'_>, record: &Record, lines: &mut Vec<Line>) {
        self.position.notify(source, (record, engine::Epoch(0)), std::iter::empty(), lines);
    }

    /// What was missed of the text that this entry seals.
    fn rest_of(&mut self, source: Source<'_>, entry: &Entry, lines: &mut Vec<Line>) -> Result<(), Error> {
        let (Some(effect), Some(text)) = (entry.event.seals(), text_of(&entry.event)) else { return Ok(()) };
        if matches!(entry.event, Event::CallSettled(_)) || self.was_told(source, effect)? {
            return Ok(());
        }
        let reasoning = match &entry.event {
            Event::MessageSealed(e) => e.reasoning,
            _ => None,
        };
        let mut reached = self.position.cursor.reached(effect).unwrap_or_default();
        let mut piece = |reached, what| {
            self.position.flush(lines);
            self.position.run = Some(effect.run);
            self.position.cursor.reach(effect, reached);
            lines.push(self.position.line(source, entry.at, self.position.cursor.place(), what));
        };
        if let Some(rest) = reasoning.and_then(|body| rest(&source.text(&body.hash), reached.reasoning)) {
            let delta = delta(effect, reached.end, &rest);
            reached.end += rest.len() as u64;
            reached.reasoning += rest.len() as u64;
            piece(reached, Stream::Reasoning(ReasoningLine::Delta(delta)));
        }
        if let Some(rest) = rest(&source.text(&text.hash), reached.text) {
            let delta = delta(effect, reached.end, &rest);
            reached.end += rest.len() as u64;
            reached.text += rest.len() as u64;
            piece(reached, Stream::Assistant(AssistantLine::Delta(delta)));
        }
        Ok(())
    }

    /// Whether the text of a request was sealed before: what follows a cut is a message of the same text.
    fn was_told(&mut self, source: Source<'_>, effect: EffectId) -> Result<bool, Error> {
        if self.position.cursor.reached(effect).is_some() {
            self.begun.remove(&effect);
            return Ok(false);
        }
        if self.begun.remove(&effect) {
            return Ok(false);
        }
        let sealed = source.look_back(self.position.cursor.seq(), |entry| match &entry.event {
            Event::RequestSent(e) if e.request == effect => Some(false),
            event if event.seals() == Some(effect) => Some(true),
            _ => None,
        })?;
        Ok(sealed.unwrap_or(false))
    }

    /// The state of the session at the end; one that does not fold has none. `last` is when the last was recorded that was
    /// missed.
    pub(super) fn state(&mut self, source: Source<'_>, last: Option<Timestamp>, lines: &mut Vec<Line>) {
        let Source { store, branch, .. } = source;
        let Ok(line) = store.line(branch) else { return };
        let settings = |hash| Settings::from_bytes(&store.body(&hash).ok().flatten()?).ok().map(Arc::new);
        let machine = Machine::recover(line.into(), &settings).ok();
        if let Some(session) = machine.as_ref().and_then(Machine::session) {
            let now = (session.run_state(), session.lifecycle.kind(), session.flags());
            let at = last.unwrap_or(session.last_activity);
            lines.push(self.position.line(source, at, self.position.cursor.place(), Stream::State(changed(now))));
            let spends = session.run().filter(|run| run.usage != Usage::default());
            // What has no row is told with the next request.
            if let Some(row) = spends.and_then(|run| store.run(run.id).ok().flatten()) {
                lines.push(self.position.usage(source, at, &row));
            }
        }
        self.position.flush(lines);
    }
}

/// What is behind so many bytes; none if nothing is.
fn rest(text: &str, seen: u64) -> Option<String> {
    let rest = text.get(usize::try_from(seen).ok()?..)?;
    (!rest.is_empty()).then(|| rest.to_owned())
}
