//! Where a subscriber of a session stands, and what it is told when it comes back: what follows, without a gap, or that
//! it has seen what power took. What may not live here: how it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use engine::{BranchId, EffectId, Epoch, Event, Record, Seq};
use journal::{Entry, Error, Read, Tail};

/// What a subscriber has seen: the last entry, and how far the output of each effect that was open then.
///
/// For subscribers it is an opaque string. It holds the owner that recorded the entry too: after a loss of power another
/// owner may have put something else in the same place, and a place is taken once by each owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    epoch: Epoch,
    seq: Seq,
    open: BTreeMap<EffectId, u64>,
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
    /// Whoever has this cursor has also seen this record, which this owner recorded.
    pub(crate) fn see(&mut self, record: &Record, epoch: Epoch) {
        if let Some(seq) = record.seq {
            (self.epoch, self.seq) = (epoch, seq);
        }
        self.open.retain(|effect, _| !ends(&record.event, *effect));
        self.open.extend(end(&record.event));
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
                Kept::UpTo(end) if end >= *reached => {}
                Kept::UpTo(0) | Kept::Cut => drop(to.open.remove(effect)),
                Kept::UpTo(end) => drop(to.open.insert(*effect, end)),
            }
        }
        if to != *self {
            return Ok(Since::Rewound { to });
        }
        let seen = |(effect, end): (EffectId, u64)| self.open.get(&effect).is_some_and(|reached| end <= *reached);
        tail.progress.retain(|record| !end(&record.event).is_some_and(seen));
        Ok(Since::Tail(tail))
    }

    fn is_at(&self, entry: &Entry) -> bool {
        (entry.seq, entry.epoch) == (self.seq, self.epoch)
    }

    /// The last entry that this subscriber has seen and that is still there. What later owners recorded it has not seen.
    fn before(&self, store: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        for seq in (1..self.seq.0).rev() {
            let entry = store.read(branch, Seq(seq))?.into_iter().next();
            if let Some(entry) = entry.filter(|entry| entry.epoch <= self.epoch) {
                return Ok(Self { epoch: entry.epoch, seq: entry.seq, open: BTreeMap::new() });
            }
        }
        Ok(Self::default())
    }

    /// What the journal has of an effect that was open at this cursor.
    fn kept(&self, tail: &Tail, effect: EffectId) -> Kept {
        if let Some(entry) = tail.entries.iter().find(|entry| ends(&entry.event, effect)) {
            // Its own owner sealed all of it; a later one what it found, of which the text alone is kept.
            let bytes: u64 = entry.event.bodies().iter().map(|body| body.bytes).sum();
            let is_whole = entry.epoch == self.epoch || self.open.get(&effect).is_some_and(|reached| bytes >= *reached);
            return if is_whole { Kept::Whole } else { Kept::Cut };
        }
        let ends = tail.progress.iter().filter_map(|record| end(&record.event));
        Kept::UpTo(ends.filter(|(of, _)| *of == effect).map(|(_, end)| end).max().unwrap_or(0))
    }
}

/// What is left of an effect's output.
enum Kept {
    /// All that anybody saw.
    Whole,
    /// Sealed by a later owner, with less than was seen.
    Cut,
    /// Not sealed; so many bytes are there.
    UpTo(u64),
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
        self.open.iter().try_for_each(|(effect, reached)| write!(f, ":{effect}={reached}"))
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let parse = || {
            let mut parts = text.split(':');
            let (epoch, seq) = parts.next()?.split_once('.')?;
            let open = parts.map(|part| {
                let (effect, reached) = part.split_once('=')?;
                Some((effect.parse().ok()?, reached.parse().ok()?))
            });
            let open = open.collect::<Option<_>>()?;
            Some(Self { epoch: Epoch(epoch.parse().ok()?), seq: Seq(seq.parse().ok()?), open })
        };
        parse().ok_or_else(|| InvalidCursor { text: text.to_owned() })
    }
}
