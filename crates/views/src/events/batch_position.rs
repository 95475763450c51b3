//! The positions of batches and their lines in the journal. Positions of readers are compared with these.

use engine::{BranchId, EffectId, Epoch, Position, Seq};
use journal::Entry;
use runtime::Published;

/// The anchor of a batch in its session and in the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPosition {
    /// The branch of its session.
    pub branch: BranchId,
    /// The epoch of its owner.
    pub epoch: Epoch,
    /// The last entry and the number of entries; `None` for progress alone.
    entries: Option<(Seq, u64)>,
    /// The position of the last entry, or of the home's last entry before it.
    position: Position,
}

/// The anchor of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePosition {
    /// The batch that it comes from.
    batch: BatchPosition,
    /// The entry; for progress and states, the entry before it.
    seq: Seq,
    /// The effect of progress, and the offset behind it.
    progress: Option<(EffectId, u64)>,
}

impl BatchPosition {
    /// The anchor of a committed batch, or of progress.
    pub fn of(published: &Published) -> Self {
        let records = &published.batch.records;
        let seqs = || records.iter().filter_map(|record| record.seq);
        let entries = seqs().next_back().map(|last| (last, seqs().count() as u64));
        Self { branch: published.batch.branch, epoch: published.epoch, entries, position: published.position }
    }

    /// The anchor of an entry that is read back.
    pub(crate) fn of_entry(branch: BranchId, entry: &Entry) -> Self {
        Self { branch, epoch: entry.epoch, entries: Some((entry.seq, 1)), position: entry.position }
    }

    /// The anchor of a line without an entry.
    pub fn nowhere(branch: BranchId) -> Self {
        Self { branch, epoch: Epoch::default(), entries: None, position: Position::default() }
    }

    /// The anchor of a batch of this many entries, the last of them here.
    #[cfg(any(test, feature = "scene"))]
    pub fn of_entries(branch: BranchId, epoch: Epoch, entries: (Seq, u64), position: Position) -> Self {
        Self { branch, epoch, entries: Some(entries), position }
    }

    /// Whether a reader that has read everything up to this position has read the batch; `None` if it cannot
    /// be decided from positions.
    pub fn was_read(&self, until: Position) -> Option<bool> {
        match self.entries {
            Some(_) => Some(self.position <= until),
            None if self.position < until => Some(true),
            // Progress may have been recorded behind that entry, before or after the open effects were read.
            None if self.position == until => None,
            None => Some(false),
        }
    }

    /// The positions of its entries.
    pub fn range(&self) -> Option<(Position, Position)> {
        let (_, count) = self.entries?;
        Some((Position(self.position.0 + 1 - count), self.position))
    }

    /// The position of one of its entries.
    fn position_of(&self, seq: Seq) -> Option<Position> {
        let (last, count) = self.entries?;
        let behind = last.0.checked_sub(seq.0).filter(|behind| *behind < count)?;
        Some(Position(self.position.0 - behind))
    }
}

impl LinePosition {
    /// The anchor of a progress line behind this offset of its effect.
    pub fn new(batch: BatchPosition, seq: Seq, progress: Option<(EffectId, u64)>) -> Self {
        Self { batch, seq, progress }
    }

    /// The batch that it comes from.
    pub fn batch(&self) -> &BatchPosition {
        &self.batch
    }

    /// The entry; for progress and states, the entry before it.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The effect of progress, and the offset behind it.
    pub fn progress(&self) -> Option<(EffectId, u64)> {
        self.progress
    }

    /// The position of the entry that this line reports; `None` for progress and states.
    pub fn entry(&self, line: &protocol::Event) -> Option<Position> {
        let has_entry = self.progress.is_none() && !line.is_state();
        self.batch.position_of(self.seq).filter(|_| has_entry)
    }
}
