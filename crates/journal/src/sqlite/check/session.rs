//! Checks the line of a session: every entry, and that they follow from each other, up to the first corrupt one.

use engine::{Hash, Position, Session, Timestamp};

use super::replay::Replay;
use super::walk::{Audited, BranchSpan, Checkpoint, Defect};
use crate::Read as _;
use crate::sqlite::reader::Reader;

/// How many faults of one line are listed; the others are counted.
const FAULTS: usize = 16;

/// The point and the chain value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct EntryAnchor {
    /// Its branch and seq.
    pub checkpoint: Checkpoint,
    /// Its position in the home.
    pub position: Position,
    /// The time at which it was decided.
    pub at: Timestamp,
    pub kind: String,
    /// The chain value up to and including it.
    pub chain: Hash,
}

/// A defect of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Fault {
    pub place: EntryAnchor,
    pub defect: Defect,
}

/// The result of checking a line.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Verified {
    /// The number of entries that were read.
    pub entries: u64,
    /// The number of bodies that they name, counted once per mention.
    pub bodies: u64,
    pub head: Option<EntryAnchor>,
    /// The last entry before the first fault after which the state is known.
    pub last_good: Option<EntryAnchor>,
    /// The first faults, in order.
    pub faults: Vec<Fault>,
    /// How many more faults there are.
    pub more: u64,
    /// Snapshots of the line, and the defect of each; `None` if it is good.
    pub snapshots: Vec<(Checkpoint, Option<String>)>,
    /// Why the rest could not be read; `None` if it could.
    pub unread: Option<String>,
    /// The hashes of the states of readable snapshots, each in the form of this version.
    kept: Vec<(Checkpoint, Hash)>,
    replay: Replay,
    /// The first removed entry that no snapshot covers yet.
    removed: Option<EntryAnchor>,
}

impl Verified {
    /// A line of which nothing could be read.
    pub(super) fn nothing(unread: String) -> Self {
        Self { unread: Some(unread), ..Self::default() }
    }

    /// Whether the line has no defect.
    pub fn is_intact(&self) -> bool {
        self.faults.is_empty() && self.unread.is_none()
    }

    /// The state at the end of the line, if the line has no defect.
    pub fn session(&self) -> Option<&Session> {
        self.replay.session().filter(|_| self.is_intact())
    }

    /// Whether the state of removed entries is known only from the snapshot at this entry.
    pub fn needs(&self, at: Checkpoint) -> bool {
        let removed = |fault: &Fault| fault.defect == Defect::Unfounded && fault.place.checkpoint.branch == at.branch;
        self.faults.iter().any(|fault| removed(fault) && fault.place.checkpoint.seq <= at.seq)
    }

    fn add(&mut self, place: &EntryAnchor, defect: Defect) {
        if self.faults.len() < FAULTS {
            self.faults.push(Fault { place: place.clone(), defect });
        } else {
            self.more += 1;
        }
    }

    /// Checks one more entry; `bodies` are the defects of the bodies that it names.
    fn take(&mut self, reader: &Reader, audited: &Audited, bodies: Vec<Defect>) {
        let place = EntryAnchor::of(audited);
        self.entries += 1;
        for defect in audited.defects.iter().cloned().chain(bodies) {
            self.add(&place, defect);
        }
        if !self.is_intact() {
            self.replay.lose();
        }
        if let Err(detail) = self.replay.take(reader, audited) {
            self.add(&place, Defect::Order { detail });
        }
        self.removed = self.replay.removed().and(self.removed.take().or_else(|| Some(place.clone())));
        if self.session().is_some() {
            self.last_good = Some(place.clone());
            self.compare(place.checkpoint);
        }
        self.head = Some(place);
    }

    /// Ends the line: a snapshot must cover the removed entries.
    fn end(&mut self) {
        if let Some(place) = self.removed.take().filter(|_| self.is_intact()) {
            self.add(&place, Defect::Unfounded);
        }
    }

    /// Compares a snapshot of this entry with the folded state.
    fn compare(&mut self, here: Checkpoint) {
        let Some((_, kept)) = self.kept.iter().find(|(at, _)| *at == here) else { return };
        if self.session().is_none_or(|session| Hash::of(&session.to_snapshot()) != *kept) {
            let wrong = "it does not match the state of the entries before it";
            let same_entry = self.snapshots.iter_mut().filter(|(at, _)| *at == here);
            same_entry.for_each(|(_, defect)| *defect = Some(wrong.to_owned()));
        }
    }
}

impl EntryAnchor {
    pub(super) fn of(audited: &Audited) -> Self {
        let Audited { position, at, chain, .. } = *audited;
        Self { checkpoint: audited.checkpoint(), position, at, kind: audited.kind.clone(), chain }
    }
}

impl Reader {
    /// Checks a line: every payload, chain and body, and whether the entries follow from each other.
    pub fn verify(&self, line: &[BranchSpan]) -> Verified {
        let mut verified = Verified::default();
        for segment in line {
            self.list_snapshots(segment, &mut verified);
            let mut unread = None;
            let walked = self.walk(segment, |audited| {
                let event = audited.event();
                verified.bodies += event.map_or(0, |event| event.references().len() as u64);
                let bodies = event.map_or(Ok(vec![]), |event| self.body_defects(event)).unwrap_or_else(|error| {
                    unread = unread.take().or(Some(error));
                    vec![]
                });
                verified.take(self, audited, bodies);
            });
            if let Some(error) = walked.err().or(unread) {
                verified.unread = Some(error.cause());
                break;
            }
        }
        verified.end();
        verified
    }

    /// Lists the snapshots of a segment: whether each matches its hash, and whether its version can be compared.
    fn list_snapshots(&self, segment: &BranchSpan, verified: &mut Verified) {
        // If they cannot be listed, the check of pages reports that.
        for seq in self.snapshots(segment.branch).unwrap_or_default() {
            if segment.to.is_some_and(|to| seq > to) {
                continue;
            }
            let at = Checkpoint { branch: segment.branch, seq };
            let snapshot = self
                .snapshot(segment.branch, seq)
                .and_then(|snapshot| snapshot.map_or(Ok(None), |snapshot| snapshot.session()));
            match snapshot {
                Ok(Some(session)) => {
                    verified.kept.push((at, Hash::of(&session.to_snapshot())));
                    verified.snapshots.push((at, None));
                }
                Ok(None) => {}
                Err(error) => verified.snapshots.push((at, Some(error.cause()))),
            }
        }
    }
}
