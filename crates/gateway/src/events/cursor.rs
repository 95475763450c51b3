//! Where a subscriber of a session stands, and what it is told when it comes back: what follows, without a gap, or that
//! it has seen what power took. What may not live here: how it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use engine::{Body, BranchId, EffectId, Epoch, Event, Record, RunId, Seq};
use journal::{Entry, Error, Read, Tail};

/// What a subscriber has seen: the last entry, and how far the output of each effect that was open then.
///
/// For subscribers it is an opaque string. It holds the owner that recorded the entry too: after a loss of power another
/// owner may have put something else in the same place, and a place is taken once by each owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    epoch: Epoch,
    seq: Seq,
    /// The end of a run that is told behind what follows it, and was not told yet.
    owed: Option<Seq>,
    open: BTreeMap<EffectId, Reached>,
}

/// How far the output of an effect was seen, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    /// Of all of it.
    pub(super) end: u64,
    /// Of these, text.
    pub(super) text: u64,
    /// Of these, reasoning.
    pub(super) reasoning: u64,
}

/// Where in the journal of its session a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its entry; of progress and of states, the one before it.
    seq: Seq,
    /// The effect of progress, and the offset behind it.
    progress: Option<(EffectId, u64)>,
}

impl Place {
    /// The entry that this line tells; none of progress and of states.
    pub(super) fn entry(&self, line: &protocol::Event) -> Option<Seq> {
        (self.progress.is_none() && !line.is_state()).then_some(self.seq)
    }

    /// The effect of progress, and the offset behind it.
    pub(super) fn progress(&self) -> Option<(EffectId, u64)> {
        self.progress
    }
}

/// What a subscriber with a cursor is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Since {
    /// What it has not seen, in order. Of an effect that was sealed since, the entry names the whole body.
    Tail(Tail),
    /// It has seen what is not in the journal any more: what it has beyond this never happened.
    Rewound {
        /// Where to go on from.
        to: Cursor,
    },
}

/// A text that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no cursor: give one as it was received, or none to begin at the beginning")]
pub struct InvalidCursor {
    /// The text.
    pub text: String,
}

impl Cursor {
    /// Whoever has this cursor has also seen this record, which this owner recorded. Gives its place.
    pub(super) fn see(&mut self, record: &Record, epoch: Epoch) -> Place {
        if let Some(seq) = record.seq {
            self.owed = self.owed.filter(|owed| *owed != seq);
            // What was owed stands before what was seen.
            if seq > self.seq {
                (self.epoch, self.seq) = (epoch, seq);
            }
        }
        self.open.retain(|effect, _| !ends(&record.event, *effect));
        let progress = end(&record.event);
        if let Some((effect, end)) = progress {
            self.open.entry(effect).or_default().see(&record.event, end);
        }
        Place { seq: record.seq.unwrap_or(self.seq), progress }
    }

    /// Whoever has seen all up to this entry.
    pub(crate) fn at(epoch: Epoch, seq: Seq) -> Self {
        Self { epoch, seq, ..Self::default() }
    }

    /// Whoever begins now: all that there is counts as seen.
    pub fn now(store: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        let last = store.last(branch)?;
        let tail = store.tail(branch, Seq(last.0.max(1)))?;
        let mut cursor = Self::default();
        for entry in &tail.entries {
            let record = Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
            cursor.see(&record, entry.epoch);
        }
        for record in &tail.progress {
            cursor.see(record, Epoch(0));
        }
        Ok(cursor)
    }

    /// The same without what was open.
    pub(super) fn at_rest(self) -> Self {
        Self { open: BTreeMap::new(), ..self }
    }

    /// The same for whoever was told of every end.
    pub(super) fn owing_nothing(self) -> Self {
        Self { owed: None, ..self }
    }

    /// Whoever has this cursor was not told of this end of a run yet.
    pub(super) fn owe(&mut self, end: Seq) {
        self.owed = Some(end);
    }

    /// The end that was owed is told.
    pub(super) fn owe_nothing(&mut self) {
        self.owed = None;
    }

    /// Whoever has this cursor has seen so much of this effect.
    pub(super) fn reach(&mut self, effect: EffectId, reached: Reached) {
        self.open.insert(effect, reached);
    }

    /// How far this effect was seen; none when nothing of it was, or it is sealed.
    pub(super) fn reached(&self, effect: EffectId) -> Option<Reached> {
        self.open.get(&effect).copied()
    }

    /// How much text was seen of each effect that is open here, in bytes.
    pub(super) fn open_text(&self) -> impl Iterator<Item = (EffectId, u64)> + '_ {
        self.open.iter().map(|(effect, reached)| (*effect, reached.text))
    }

    /// Whether so much of an effect was seen, of one that is open here.
    pub(super) fn has_reached(&self, (effect, end): (EffectId, u64)) -> bool {
        self.open.get(&effect).is_some_and(|reached| end <= reached.end)
    }

    /// The run of what is open.
    pub(super) fn run(&self) -> Option<RunId> {
        self.open.keys().next().map(|effect| effect.run)
    }

    /// The last entry.
    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether anything is open here.
    pub(super) fn is_at_rest(&self) -> bool {
        self.open.is_empty()
    }

    /// The place of a line that tells of no record.
    pub(super) fn place(&self) -> Place {
        Place { seq: self.seq, progress: None }
    }

    /// Whether what stands at this place was seen.
    pub fn has_seen(&self, place: &Place) -> bool {
        match place.progress {
            None => place.seq <= self.seq && self.owed != Some(place.seq),
            Some((effect, end)) => match self.open.get(&effect) {
                Some(reached) => end <= reached.end,
                // It is sealed, or nothing of it was there.
                None => place.seq < self.seq,
            },
        }
    }

    /// Whether an entry behind the last one that was seen stands before this place.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        place.seq > self.seq
    }

    /// What a subscriber of this branch that stands here is told.
    pub fn since(&self, store: &dyn Read, branch: BranchId) -> Result<Since, Error> {
        let mut tail = store.tail(branch, Seq(self.seq.0.max(1)))?;
        if self.seq > Seq(0) {
            if !tail.entries.first().is_some_and(|entry| self.is_at(entry)) {
                return Ok(Since::Rewound { to: self.before(store, branch)? });
            }
            tail.entries.remove(0);
        }
        let mut to = self.clone();
        for (effect, reached) in &self.open {
            match self.kept(&tail, *effect) {
                Kept::Whole => {}
                Kept::UpTo(kept) if kept.end >= reached.end => {}
                Kept::UpTo(Reached { end: 0, .. }) | Kept::Cut => drop(to.open.remove(effect)),
                Kept::UpTo(kept) => drop(to.open.insert(*effect, kept)),
            }
        }
        if to != *self {
            return Ok(Since::Rewound { to });
        }
        if let Some(owed) = self.owed {
            tail.entries.splice(0..0, store.range(branch, owed, owed)?);
        }
        tail.progress.retain(|record| !self.has_shown(record));
        Ok(Since::Tail(tail))
    }

    /// Whether this progress was seen.
    pub(super) fn has_shown(&self, record: &Record) -> bool {
        end(&record.event).is_some_and(|progress| self.has_reached(progress))
    }

    fn is_at(&self, entry: &Entry) -> bool {
        (entry.seq, entry.epoch) == (self.seq, self.epoch)
    }

    /// The last entry that this subscriber has seen and that is still there. What later owners recorded it has not seen.
    fn before(&self, store: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        for seq in (1..self.seq.0).rev() {
            let entry = store.read(branch, Seq(seq))?.into_iter().next();
            if let Some(entry) = entry.filter(|entry| entry.epoch <= self.epoch) {
                return Ok(Self { epoch: entry.epoch, seq: entry.seq, ..Self::default() });
            }
        }
        Ok(Self::default())
    }

    /// What the journal has of an effect that was open at this cursor.
    fn kept(&self, tail: &Tail, effect: EffectId) -> Kept {
        if let Some(entry) = tail.entries.iter().find(|entry| ends(&entry.event, effect)) {
            // Its own owner sealed all of it; a later one what it found, of which the text alone is kept.
            let text = text_of(&entry.event).map_or(0, |body| body.bytes);
            let is_whole = entry.epoch == self.epoch || self.open.get(&effect).is_some_and(|seen| text >= seen.text);
            return if is_whole { Kept::Whole } else { Kept::Cut };
        }
        let mut kept = Reached::default();
        for record in &tail.progress {
            if let Some((_, end)) = end(&record.event).filter(|(of, _)| *of == effect) {
                kept.see(&record.event, end);
            }
        }
        Kept::UpTo(kept)
    }
}

/// What is left of an effect's output.
enum Kept {
    /// All that anybody saw.
    Whole,
    /// Sealed by a later owner, with less than was seen.
    Cut,
    /// Not sealed; so much is there.
    UpTo(Reached),
}

impl Reached {
    /// Progress up to this offset was seen as well.
    fn see(&mut self, event: &Event, end: u64) {
        self.end = self.end.max(end);
        match event {
            Event::TextAdded(e) => self.text += e.text.len() as u64,
            Event::OutputAdded(e) => self.text += e.text.len() as u64,
            Event::ReasoningAdded(e) => self.reasoning += e.text.len() as u64,
            _ => {}
        }
    }
}

/// What an entry keeps of the text of the effect that it seals.
pub(super) fn text_of(event: &Event) -> Option<Body> {
    match event {
        Event::MessageSealed(e) => e.text,
        Event::StreamCut(e) => e.text,
        Event::Failed(e) => e.text,
        Event::CallSettled(e) => Some(e.whole.unwrap_or(e.output)),
        _ => None,
    }
}

/// The effect of progress, and the offset behind it.
fn end(event: &Event) -> Option<(EffectId, u64)> {
    let (effect, offset) = event.progress()?;
    let bytes = match event {
        Event::TextAdded(e) => e.text.len() as u64,
        Event::ReasoningAdded(e) => e.text.len() as u64,
        Event::OutputAdded(e) => e.text.len() as u64,
        Event::CallPartAdded(e) => e.bytes(),
        Event::BlockSigned(e) => e.signature.len() as u64,
        _ => 0,
    };
    Some((effect, offset + bytes))
}

/// Whether there is no progress of this effect behind this entry: it is sealed, or another try of it, or its run has ended.
fn ends(event: &Event, effect: EffectId) -> bool {
    let tries = |sealed: EffectId| EffectId { try_no: effect.try_no, ..sealed } == effect;
    event.seals().is_some_and(tries) || matches!(event, Event::RunEnded(ended) if ended.run == effect.run)
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.seq.0)?;
        if let Some(owed) = self.owed {
            write!(f, "-{owed}")?;
        }
        self.open.iter().try_for_each(|(effect, reached)| write!(f, ":{effect}={reached}"))
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, text, reasoning } = self;
        if end == text { write!(f, "{end}") } else { write!(f, "{end}.{text}.{reasoning}") }
    }
}

impl Reached {
    fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split('.').map(str::parse);
        let end = figures.next()?.ok()?;
        let Some(text) = figures.next() else { return Some(Self { end, text: end, reasoning: 0 }) };
        let reached = Self { end, text: text.ok()?, reasoning: figures.next()?.ok()? };
        figures.next().is_none().then_some(reached)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let parse = || {
            let mut parts = text.split(':');
            let (epoch, seq) = parts.next()?.split_once('.')?;
            let (seq, owed) = match seq.split_once('-') {
                Some((seq, owed)) => (seq, Some(Seq(owed.parse().ok()?))),
                None => (seq, None),
            };
            let open = parts.map(|part| {
                let (effect, reached) = part.split_once('=')?;
                Some((effect.parse().ok()?, Reached::parse(reached)?))
            });
            let open = open.collect::<Option<_>>()?;
            Some(Self { epoch: Epoch(epoch.parse().ok()?), seq: Seq(seq.parse().ok()?), owed, open })
        };
        parse().ok_or_else(|| InvalidCursor { text: text.to_owned() })
    }
}
