//! A session's line as a whole: every entry judged, folded and followed, up to the first that cannot be believed.

use engine::{Hash, Position, Session, Timestamp};

use super::replay::Replay;
use super::walk::{Audited, BranchSpan, Checkpoint, Defect};
use crate::Read as _;
use crate::sqlite::reader::Reader;

/// Faults of one line that are kept; the others are counted.
const FAULTS: usize = 16;

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryAnchor {
    /// Its place in its branch.
    pub checkpoint: Checkpoint,
    /// Its place in the home.
    pub position: Position,
    /// When it was decided.
    pub at: Timestamp,
    /// Its kind.
    pub kind: String,
    /// The chain with it.
    pub chain: Hash,
}

/// Something wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The entry.
    pub place: EntryAnchor,
    /// What.
    pub defect: Defect,
}

/// What became of looking through a line.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Entries that were read.
    pub entries: u64,
    /// Bodies that they name, each as often as it is named.
    pub bodies: u64,
    /// The last entry.
    pub head: Option<EntryAnchor>,
    /// The last entry before the first fault that the state is known after.
    pub last_good: Option<EntryAnchor>,
    /// The first faults, in order.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: u64,
    /// Snapshots of the line, and what is wrong with each.
    pub snapshots: Vec<(Checkpoint, Option<String>)>,
    /// Why it could not be read any further, if it could not.
    pub unread: Option<String>,
    /// The hashes of snapshots of this version of the state, which can be compared.
    kept: Vec<(Checkpoint, Hash)>,
    replay: Replay,
    /// The entry that was removed and that no snapshot has stood for yet.
    removed: Option<EntryAnchor>,
}

impl Verified {
    /// A line of which nothing could be read.
    pub(super) fn nothing(unread: String) -> Self {
        Self { unread: Some(unread), ..Self::default() }
    }

    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty() && self.unread.is_none()
    }

    /// The state at the end of the line, where nothing is wrong with it.
    pub fn session(&self) -> Option<&Session> {
        self.replay.session().filter(|_| self.is_whole())
    }

    /// Whether the snapshot of this entry is all that tells what was removed before it.
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

    /// Takes one more entry in; `bodies` says what is wrong with those that it names.
    fn take(&mut self, reader: &Reader, audited: &Audited, bodies: Vec<Defect>) {
        let place = EntryAnchor::of(audited);
        self.entries += 1;
        for defect in audited.defects.iter().cloned().chain(bodies) {
            self.add(&place, defect);
        }
        if !self.is_whole() {
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

    /// The end of the line: what was removed must be in a snapshot.
    fn end(&mut self) {
        if let Some(place) = self.removed.take().filter(|_| self.is_whole()) {
            self.add(&place, Defect::Unfounded);
        }
    }

    /// Whether a snapshot of this entry is what the entries add up to.
    fn compare(&mut self, here: Checkpoint) {
        let Some((_, kept)) = self.kept.iter().find(|(at, _)| *at == here) else { return };
        if self.session().is_none_or(|session| Hash::of(&session.to_snapshot()) != *kept) {
            let wrong = "it is not the state that the entries before it add up to";
            let of_it = self.snapshots.iter_mut().filter(|(at, _)| *at == here);
            of_it.for_each(|(_, said)| *said = Some(wrong.to_owned()));
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
    /// Looks through a line: every payload, chain and body, and whether the entries follow from each other.
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
                verified.unread = Some(error.said());
                break;
            }
        }
        verified.end();
        verified
    }

    /// The snapshots of a segment: whether each is what was kept, and of a version that can be compared.
    fn list_snapshots(&self, segment: &BranchSpan, verified: &mut Verified) {
        // Where they cannot be listed, the pages say so.
        for seq in self.snapshots(segment.branch).unwrap_or_default() {
            if segment.to.is_some_and(|to| seq > to) {
                continue;
            }
            let at = Checkpoint { branch: segment.branch, seq };
            let snapshot = self.snapshot(segment.branch, seq).and_then(|snapshot| {
                let session = snapshot.as_ref().map(crate::Snapshot::session).transpose()?;
                Ok(snapshot.filter(|_| session.flatten().is_some()))
            });
            match snapshot {
                Ok(Some(snapshot)) => {
                    verified.kept.push((at, snapshot.state_hash));
                    verified.snapshots.push((at, None));
                }
                Ok(None) => {}
                Err(error) => verified.snapshots.push((at, Some(error.said()))),
            }
        }
    }
}
