//! The line of a session: the entries that its state is folded from, across all branches that it went through.

use std::sync::Arc;

use engine::{Batch, BranchId, Event, Hash, Record, Seq, Session};

use crate::{Entry, Error, Read};

/// The state of a branch after one of its entries, serialized (`Session::to_snapshot`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Snapshot {
    pub branch: BranchId,
    /// The last entry that it covers.
    pub seq: Seq,
    /// BLAKE3-256 of the content.
    pub state_hash: Hash,
    pub content: Arc<[u8]>,
}

impl Snapshot {
    /// Makes a snapshot of these bytes and computes their hash.
    pub fn new(branch: BranchId, seq: Seq, content: impl Into<Arc<[u8]>>) -> Self {
        let content = content.into();
        Self { branch, seq, state_hash: Hash::of(&content), content }
    }

    /// The state; `None` when another version wrote it, in which case callers ignore the snapshot.
    pub fn session(&self) -> Result<Option<Session>, Error> {
        let Self { branch, seq, .. } = *self;
        let damaged = |detail: String| Error::DamagedSnapshot { branch, seq, detail };
        match Session::from_snapshot(&self.content).map_err(|error| damaged(error.to_string()))? {
            Some(session) if (session.account.branch, session.account.head) != (branch, seq) => {
                Err(damaged(format!("it is the state of {}@{}", session.account.branch, session.account.head)))
            }
            session => Ok(session),
        }
    }
}

/// What was folded or decided since a session's last snapshot: the work that the next snapshot saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsaved {
    entries: u64,
    /// Size of that snapshot in bytes.
    bytes: u64,
}

impl Unsaved {
    /// Counts what this line has after its start.
    pub fn of(line: &StoredLineage) -> Self {
        let bytes = line.start.as_ref().map_or(0, |start| start.bytes);
        Self { entries: line.entries().count() as u64, bytes }
    }

    /// Counts a batch that is now in the journal.
    pub fn add(&mut self, batch: &Batch) {
        self.entries += batch.records.iter().filter(|record| record.seq.is_some()).count() as u64;
    }

    /// Returns the snapshot that is due and counts it as stored. The state must not be ahead of the journal.
    pub fn take_due(&mut self, session: &Session) -> Option<Snapshot> {
        if !session.snapshot_due(self.entries, self.bytes) {
            return None;
        }
        let content = session.to_snapshot();
        *self = Self { entries: 0, bytes: content.len() as u64 };
        Some(Snapshot::new(session.account.branch, session.account.head, content))
    }
}

/// The entries and progress that a session's state is folded from. If its branch was forked, the line starts in the
/// parent branch.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredLineage {
    /// The snapshot that it starts from; `None` when the first segment starts with `created`.
    pub start: Option<Start>,
    /// Segments in the order in which they are folded.
    pub segments: Vec<Segment>,
    /// Progress that no entry of the line seals.
    pub progress: Vec<Record>,
}

/// The snapshot that a line starts from.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Start {
    pub session: Session,
    /// The size of the snapshot in bytes.
    pub bytes: u64,
}

/// The part of a line that lies in one branch.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Segment {
    pub branch: BranchId,
    /// Its entries; empty when the line starts at the branch's head.
    pub entries: Vec<Entry>,
}

impl StoredLineage {
    /// All entries, each with its branch.
    pub fn entries(&self) -> impl Iterator<Item = (BranchId, &Entry)> {
        self.segments.iter().flat_map(|segment| segment.entries.iter().map(|entry| (segment.branch, entry)))
    }
}

impl From<StoredLineage> for engine::Lineage {
    fn from(StoredLineage { start, segments, progress }: StoredLineage) -> Self {
        let record = |entry: Entry| Record { seq: Some(entry.seq), at: entry.at, event: entry.event };
        let segments = segments.into_iter().map(|Segment { branch, entries }| engine::LineageSegment {
            branch,
            entries: entries.into_iter().map(record).collect(),
        });
        Self { start: start.map(|start| start.session), segments: segments.collect(), progress }
    }
}

type Past = (Option<Start>, Vec<Segment>);

/// The last entry of a branch, and the progress that was open at that moment. Entries before it never change, so a line
/// up to it is consistent with this progress.
pub(crate) fn now<R: Read + ?Sized>(read: &R, branch: BranchId) -> Result<(Seq, Vec<Record>), Error> {
    let last = read.last(branch)?;
    let tail = read.tail(branch, Seq(last.0 + 1))?;
    Ok((tail.entries.last().map_or(last, |entry| entry.seq), tail.progress))
}

/// The line up to an entry, from the newest snapshot on.
pub(crate) fn recent<R: Read + ?Sized>(read: &R, branch: BranchId, until: Seq) -> Result<Past, Error> {
    match newest(read, branch, until)? {
        Some(start) => after(read, start, until),
        None => beginning(read, branch, until, recent),
    }
}

/// The line up to an entry, with all of its entries that still exist.
pub(crate) fn whole<R: Read + ?Sized>(read: &R, branch: BranchId, until: Seq) -> Result<Past, Error> {
    let mut past = beginning(read, branch, until, whole);
    for seq in read.snapshots(branch)? {
        match &past {
            // An erased entry must lie before a snapshot; otherwise the line cannot be folded any more.
            Err(Error::Erased { branch: of, seq: erased }) if seq <= until && (*of != branch || *erased <= seq) => {}
            _ => continue,
        }
        if let Some(start) = state(read, branch, seq)? {
            past = after(read, start, until);
        }
    }
    past
}

/// The newest state at or before an entry that this version can read.
pub(crate) fn newest<R: Read + ?Sized>(read: &R, branch: BranchId, until: Seq) -> Result<Option<Start>, Error> {
    for seq in read.snapshots(branch)?.into_iter().rev().filter(|seq| *seq <= until) {
        if let Some(start) = state(read, branch, seq)? {
            return Ok(Some(start));
        }
    }
    Ok(None)
}

fn state<R: Read + ?Sized>(read: &R, branch: BranchId, seq: Seq) -> Result<Option<Start>, Error> {
    // A snapshot that disappeared after it was listed was replaced by a newer one.
    let Some(snapshot) = read.snapshot(branch, seq)? else { return Ok(None) };
    let bytes = snapshot.content.len() as u64;
    Ok(snapshot.session()?.map(|session| Start { session, bytes }))
}

/// The entries that follow a snapshot in its branch.
pub(crate) fn after<R: Read + ?Sized>(read: &R, start: Start, until: Seq) -> Result<Past, Error> {
    let branch = start.session.account.branch;
    let entries = read.range(branch, Seq(start.session.account.head.0 + 1), until)?;
    Ok((Some(start), vec![Segment { branch, entries }]))
}

/// A branch from its first entry on, after the part of its parent's line that it continues, which `past` reads.
pub(crate) fn beginning<R: Read + ?Sized>(
    read: &R,
    branch: BranchId,
    until: Seq,
    past: fn(&R, BranchId, Seq) -> Result<Past, Error>,
) -> Result<Past, Error> {
    let entries = read.range(branch, Seq(1), until)?;
    let (start, mut segments) = match entries.first().map(|entry| &entry.event) {
        Some(Event::Forked(e)) => past(read, e.parent, e.at)?,
        _ => (None, vec![]),
    };
    segments.push(Segment { branch, entries });
    Ok((start, segments))
}

/// Removes the progress that one of these segments seals.
pub(crate) fn drop_sealed(progress: &mut Vec<Record>, segments: &[Segment]) {
    let entries = segments.iter().flat_map(|segment| &segment.entries);
    let sealed: Vec<_> = entries.filter_map(|entry| entry.event.seals()).collect();
    let open = |record: &Record| {
        record.event.progress().is_none_or(|(effect, _)| !sealed.iter().any(|sealed| sealed.covers(effect)))
    };
    progress.retain(open);
}
