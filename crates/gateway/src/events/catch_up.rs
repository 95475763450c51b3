//! What a subscriber that comes back has not seen: the lines that it would have read, from the journal. What may not live
//! here: what happens from now on.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{EffectId, Event, Machine, Record, RunId, Seq, SessionRow, Settings};
use journal::{Entry, Error, Read, Tail};
use protocol::event::{AssistantLine, ReasoningLine, Stream};

use super::cursor::{Cursor, Reached, Since, text_of};
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
    let mut missed = Missed { source, position: Position::standing_at(cursor), begun: BTreeSet::new(), lines };
    missed.position.find_run(source)?;
    missed.tell(&tail)?;
    missed.state(&tail);
    Ok(CatchUp { lines: missed.lines, cursor: missed.position.cursor })
}

/// Where a subscriber of a run begins: before its first entry.
pub fn before_run(store: &dyn Read, session: &SessionRow, run: RunId) -> Result<Cursor, Error> {
    let Some(row) = store.run(run)? else { return Ok(Cursor::default()) };
    let before = Seq(row.first_seq.0.saturating_sub(1));
    let entry = store.range(session.branch, before, before)?.into_iter().next();
    Ok(entry.map_or_else(Cursor::default, |entry| Cursor::at(entry.epoch, entry.seq)))
}

struct Missed<'a> {
    source: Source<'a>,
    position: Position,
    /// Requests whose text is known to begin here, or was told.
    begun: BTreeSet<EffectId>,
    lines: Vec<Line>,
}

impl Missed<'_> {
    fn tell(&mut self, tail: &Tail) -> Result<(), Error> {
        for (at, entry) in tail.entries.iter().enumerate() {
            if let Event::RequestSent(e) = &entry.event {
                self.begun.insert(e.request);
            }
            self.rest_of(entry)?;
            let record = Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
            let following = tail.entries[at + 1..].iter().map(|entry| &entry.event);
            self.position.tell(self.source, (&record, entry.epoch), following, &mut self.lines);
        }
        let epoch = engine::Epoch(0);
        for record in &tail.progress {
            self.position.tell(self.source, (record, epoch), std::iter::empty(), &mut self.lines);
        }
        Ok(())
    }

    /// What was missed of the text that this entry seals.
    fn rest_of(&mut self, entry: &Entry) -> Result<(), Error> {
        let (Some(effect), Some(text)) = (entry.event.seals(), text_of(&entry.event)) else { return Ok(()) };
        if matches!(entry.event, Event::CallSettled(_)) || self.was_told(effect)? {
            return Ok(());
        }
        let reasoning = match &entry.event {
            Event::MessageSealed(e) => e.reasoning,
            _ => None,
        };
        let mut reached = self.position.cursor.reached(effect).unwrap_or_default();
        if let Some(rest) = reasoning.and_then(|body| rest(&self.source.text(&body.hash), reached.reasoning)) {
            let piece = delta(effect, reached.end, &rest);
            reached.end += rest.len() as u64;
            reached.reasoning += rest.len() as u64;
            self.piece(entry, effect, reached, Stream::Reasoning(ReasoningLine::Delta(piece)));
        }
        if let Some(rest) = rest(&self.source.text(&text.hash), reached.text) {
            let piece = delta(effect, reached.end, &rest);
            reached.end += rest.len() as u64;
            reached.text += rest.len() as u64;
            self.piece(entry, effect, reached, Stream::Assistant(AssistantLine::Delta(piece)));
        }
        Ok(())
    }

    fn piece(&mut self, entry: &Entry, effect: EffectId, reached: Reached, what: Stream) {
        self.position.flush(&mut self.lines);
        self.position.run = Some(effect.run);
        self.position.cursor.reach(effect, reached);
        self.lines.push(self.position.line(self.source, entry.at, self.position.cursor.place(), what));
    }

    /// Whether the text of a request was sealed before: what follows a cut is a message of the same text.
    fn was_told(&mut self, effect: EffectId) -> Result<bool, Error> {
        if self.position.cursor.reached(effect).is_some() {
            self.begun.remove(&effect);
            return Ok(false);
        }
        if self.begun.remove(&effect) {
            return Ok(false);
        }
        let sealed = self.source.look_back(self.position.cursor.seq(), |entry| match &entry.event {
            Event::RequestSent(e) if e.request == effect => Some(false),
            event if event.seals() == Some(effect) => Some(true),
            _ => None,
        })?;
        Ok(sealed.unwrap_or(false))
    }

    /// The state of the session at the end; one that does not fold has none.
    fn state(&mut self, tail: &Tail) {
        let Source { store, branch, .. } = self.source;
        let Ok(line) = store.line(branch) else { return };
        let settings = |hash| Settings::from_bytes(&store.body(&hash).ok().flatten()?).ok().map(Arc::new);
        let machine = Machine::recover(line.into(), &settings).ok();
        if let Some(session) = machine.as_ref().and_then(Machine::session) {
            let now = (session.run_state(), session.lifecycle.kind(), session.flags());
            let last = tail.progress.last().map(|record| record.at).or(tail.entries.last().map(|entry| entry.at));
            let at = last.unwrap_or(session.last_activity);
            let what = Stream::State(changed(now));
            self.lines.push(self.position.line(self.source, at, self.position.cursor.place(), what));
        }
        self.position.flush(&mut self.lines);
    }
}

/// What is behind so many bytes; none if nothing is.
fn rest(text: &str, seen: u64) -> Option<String> {
    let rest = text.get(usize::try_from(seen).ok()?..)?;
    (!rest.is_empty()).then(|| rest.to_owned())
}
