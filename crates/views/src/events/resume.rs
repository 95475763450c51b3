//! What a resuming reader receives: the following entries without a gap, or the report that a power loss removed what
//! it had seen.

use engine::{Body, BranchId, EffectId, Epoch, Event, Position, Record, RunId, Seq, SessionRow};
use journal::{Entry, Error, HomeEntry, Read, Tail};

use super::position::{Reached, StreamPosition, StreamScope, end, ends};

/// Entries that are read at once.
pub(super) const PAGE: usize = 512;

/// How a resuming reader of a session proceeds.
#[derive(Debug, Clone, PartialEq)]
pub enum Resume {
    /// The unseen entries, in order. If an effect was sealed since, the entry names its whole body.
    Tail(Tail),
    /// The reader has seen entries that no longer exist: anything beyond this position is void.
    Rewound {
        /// The position to resume from.
        to: StreamPosition,
    },
}

/// What is left of an effect's output.
enum Remaining {
    /// Everything that any reader saw.
    Whole,
    /// Sealed by a later owner, with less output than was seen.
    Truncated,
    /// Not sealed; this much output exists.
    UpTo(Reached),
}

impl StreamPosition {
    /// The position of a reader that begins now: everything in the session counts as seen.
    pub fn now(store: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        let last = store.last(branch)?;
        let tail = store.tail(branch, Seq(last.0.max(1)))?;
        let mut position = Self::default();
        for entry in &tail.entries {
            let record = Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
            position.see(&record, entry.epoch);
        }
        for record in &tail.progress {
            position.see(record, Epoch(0));
        }
        Ok(position)
    }

    /// The same in the stream of the home.
    pub fn now_in_home(store: &dyn Read) -> Result<Self, Error> {
        let mut behind = Position(store.head()?.0.saturating_sub(1));
        let mut position = Self::beginning(StreamScope::Home);
        loop {
            let page = store.page(behind, PAGE)?;
            if let Some(HomeEntry { position: last, epoch, .. }) = page.entries.last() {
                (position, behind) = (Self::of_home(*epoch, *last), *last);
            }
            for open in page.open.iter().flatten() {
                let (seq, epoch) = open.head;
                let mut session = Self::at(epoch, seq);
                for record in &open.progress {
                    session.see(record, epoch);
                }
                position.set_session(open.branch, session);
            }
            if page.open.is_some() {
                return Ok(position);
            }
        }
    }

    /// The position before the first entry of a run of this session.
    pub fn before_run(store: &dyn Read, session: &SessionRow, run: RunId) -> Result<Self, Error> {
        let Some(row) = store.run(run)? else { return Ok(Self::default()) };
        let before = Seq(row.first_seq.0.saturating_sub(1));
        let entry = store.range(session.branch, before, before)?.into_iter().next();
        Ok(entry.map_or_else(Self::default, |entry| Self::at(entry.epoch, entry.seq)))
    }

    /// How a reader at this position of the branch's session resumes.
    pub fn resume(&self, store: &dyn Read, branch: BranchId) -> Result<Resume, Error> {
        let mut tail = store.tail(branch, Seq(self.seq().0.max(1)))?;
        if self.seq() > Seq(0) {
            if !tail.entries.first().is_some_and(|entry| self.is_at(entry)) {
                return Ok(Resume::Rewound { to: self.last_kept(store, branch)? });
            }
            tail.entries.remove(0);
        }
        let mut to = self.clone();
        for (effect, reached) in self.effects() {
            match self.remaining(&tail, *effect) {
                Remaining::Whole => {}
                Remaining::UpTo(kept) if kept.end >= reached.end => {}
                Remaining::UpTo(Reached { end: 0, .. }) | Remaining::Truncated => to.forget(*effect),
                Remaining::UpTo(kept) => to.set_reached(*effect, kept),
            }
        }
        if to != *self {
            return Ok(Resume::Rewound { to });
        }
        if let Some(pending) = self.pending_end() {
            tail.entries.splice(0..0, store.range(branch, pending, pending)?);
        }
        tail.progress.retain(|record| !self.has_seen_progress(record));
        Ok(Resume::Tail(tail))
    }

    fn is_at(&self, entry: &Entry) -> bool {
        (entry.seq, entry.epoch) == (self.seq(), self.epoch())
    }

    /// The last entry that this reader has seen and that still exists. Entries of later owners are unseen.
    fn last_kept(&self, store: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        for seq in (1..self.seq().0).rev() {
            let entry = store.read(branch, Seq(seq))?.into_iter().next();
            if let Some(entry) = entry.filter(|entry| entry.epoch <= self.epoch()) {
                return Ok(Self::at(entry.epoch, entry.seq));
            }
        }
        Ok(Self::default())
    }

    /// What the journal holds of an effect that was open at the position.
    fn remaining(&self, tail: &Tail, effect: EffectId) -> Remaining {
        if let Some(entry) = tail.entries.iter().find(|entry| ends(&entry.event, effect)) {
            // The effect's own owner sealed all of its output. A later owner sealed what it found, and keeps only the
            // text.
            let text = text_of(&entry.event).map_or(0, |body| body.bytes);
            let is_whole = entry.epoch == self.epoch() || self.reached(effect).is_some_and(|seen| text >= seen.text);
            return if is_whole { Remaining::Whole } else { Remaining::Truncated };
        }
        let mut kept = Reached::default();
        for record in &tail.progress {
            if let Some((_, end)) = end(&record.event).filter(|(of, _)| *of == effect) {
                kept.see(&record.event, end);
            }
        }
        Remaining::UpTo(kept)
    }

    /// The position from which a reader of the home resumes; `None` if its last entry is still in the journal.
    pub(super) fn rewound_in_home(&self, store: &dyn Read) -> Result<Option<Self>, Error> {
        let Some(behind) = self.head().0.checked_sub(1) else { return Ok(None) };
        let page = store.page(Position(behind), 1)?;
        // A removed entry is not lost: later entries exist.
        let is_there =
            page.entries.first().is_some_and(|placed| placed.position != self.head() || placed.epoch == self.epoch());
        if is_there { Ok(None) } else { Ok(Some(self.back_to(self.last_kept_in_home(store)?))) }
    }

    /// The last entry of the home that this reader has seen and that still exists.
    fn last_kept_in_home(&self, store: &dyn Read) -> Result<(Position, Epoch), Error> {
        let mut until = store.head()?.0.min(self.head().0.saturating_sub(1));
        while until > 0 {
            let behind = until.saturating_sub(PAGE as u64);
            let page = store.page(Position(behind), PAGE)?;
            let seen = |placed: &&HomeEntry| placed.position.0 <= until && placed.epoch <= self.epoch();
            if let Some(placed) = page.entries.iter().rev().find(seen) {
                return Ok((placed.position, placed.epoch));
            }
            until = behind;
        }
        Ok(Default::default())
    }
}

/// How much of the text of the effect an entry keeps when it seals it.
pub(super) fn text_of(event: &Event) -> Option<Body> {
    match event {
        Event::MessageSealed(e) => e.text,
        Event::StreamInterrupted(e) => e.text,
        Event::Failed(e) => e.text,
        Event::CallSettled(e) => Some(e.whole.unwrap_or(e.output)),
        _ => None,
    }
}
