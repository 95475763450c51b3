//! A session's line as a whole: every entry judged, folded and followed, up to the first that cannot be believed.

use engine::tables::transitions::{self, RunState};
use engine::{BranchId, Event, Hash, Position, Session, Timestamp};

use super::walk::{Audited, Checkpoint, Content, Flaw, Segment};
use crate::Read as _;
use crate::sqlite::reader::Reader;

/// Faults of one line that are kept; the others are counted.
const FAULTS: usize = 16;

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
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
    pub place: Place,
    /// What.
    pub flaw: Flaw,
}

/// What became of looking through a line.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Entries that were read.
    pub entries: u64,
    /// Bodies that they name, each as often as it is named.
    pub bodies: u64,
    /// The last entry.
    pub head: Option<Place>,
    /// The last entry before the first fault.
    pub last_good: Option<Place>,
    /// The state after the last good entry; none if that is not known.
    pub session: Option<Session>,
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

    fn add(&mut self, place: &Place, flaw: Flaw) {
        if self.faults.len() < FAULTS {
            self.faults.push(Fault { place: place.clone(), flaw });
        } else {
            self.more += 1;
        }
    }

    /// Takes one more entry in; `bodies` says what is wrong with those that it names.
    fn take(&mut self, audited: &Audited, bodies: Vec<Flaw>) {
        let place = Place::of(audited);
        self.entries += 1;
        for flaw in audited.flaws.iter().cloned().chain(bodies) {
            self.add(&place, flaw);
        }
        if self.is_whole()
            && let Content::Event(event) = &audited.content
            && let Err(detail) = self.fold(audited.branch, event, audited.at)
        {
            self.add(&place, Flaw::Order { detail });
        }
        if self.is_whole() {
            self.last_good = Some(place.clone());
            self.compare(place.checkpoint);
        }
        self.head = Some(place);
    }

    /// Whether a snapshot of this entry is what the entries add up to.
    fn compare(&mut self, here: Checkpoint) {
        let Some((_, wrong)) = self.snapshots.iter_mut().find(|(at, wrong)| *at == here && wrong.is_none()) else {
            return;
        };
        let kept = self.kept.iter().find(|(at, _)| *at == here).map(|(_, hash)| *hash);
        let folded = self.session.as_ref().map(|session| Hash::of(&session.to_snapshot()));
        if kept != folded {
            *wrong = Some("it is not the state that the entries before it add up to".to_owned());
        }
    }

    /// The engine's own fold; an edge that the tables do not have was never taken.
    fn fold(&mut self, branch: BranchId, event: &Event, at: Timestamp) -> Result<(), String> {
        let Some(session) = self.session.as_mut() else {
            let Event::Created(created) = event else { return Err("its line does not begin with `created`".into()) };
            self.session = Some(Session::created(created, at));
            return Ok(());
        };
        if matches!(event, Event::Forked(_)) {
            session.enter(branch);
        }
        let from = session.run_state();
        session.apply(event, at);
        let to = if matches!(event, Event::RunEnded(_)) { RunState::Completed } else { session.run_state() };
        let taken = event.trigger().filter(|_| from != RunState::Idle);
        match taken.filter(|trigger| !transitions::allowed(from, *trigger, to)) {
            Some(_) => {
                self.session = None;
                Err(format!("`{}` leads from {from} to {to}, which no run can do", event.kind()))
            }
            None => Ok(()),
        }
    }
}

impl Place {
    fn of(audited: &Audited) -> Self {
        let Audited { position, at, chain, .. } = *audited;
        Self { checkpoint: audited.checkpoint(), position, at, kind: audited.kind.clone(), chain }
    }
}

impl Reader {
    /// Looks through a line: every payload, chain and body, and whether the entries follow from each other.
    pub fn verify(&self, line: &[Segment]) -> Verified {
        let mut verified = Verified::default();
        for segment in line {
            self.list_snapshots(segment, &mut verified);
            let mut unread = None;
            let walked = self.walk(segment, |audited| {
                let event = audited.event();
                verified.bodies += event.map_or(0, |event| event.references().len() as u64);
                let bodies = event.map_or(Ok(vec![]), |event| self.body_flaws(event)).unwrap_or_else(|error| {
                    unread = unread.take().or(Some(error));
                    vec![]
                });
                verified.take(audited, bodies);
            });
            if let Some(error) = walked.err().or(unread) {
                verified.unread = Some(error.said());
                break;
            }
        }
        verified
    }

    /// The snapshots of a segment: whether each is what was kept, and of a version that can be compared.
    fn list_snapshots(&self, segment: &Segment, verified: &mut Verified) {
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
