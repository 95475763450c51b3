//! Where batches and their lines stand in the journal: what readers are compared with. What may not live here: what they are
//! told.

use engine::{BranchId, EffectId, Epoch, Position, Seq};
use journal::Entry;
use runtime::Published;

/// Where a batch stands, in its session and in the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchPosition {
    pub(super) branch: BranchId,
    pub(super) epoch: Epoch,
    /// Its last entry, and how many it has; none of progress alone.
    entries: Option<(Seq, u64)>,
    /// The position of its last entry, or of the last of the home before it.
    position: Position,
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePosition {
    /// What it was recorded with.
    batch: BatchPosition,
    /// Its entry; of progress and of states, the one before it.
    seq: Seq,
    /// The effect of progress, and the offset behind it.
    progress: Option<(EffectId, u64)>,
}

impl BatchPosition {
    pub(crate) fn of(published: &Published) -> Self {
        let records = &published.batch.records;
        let seqs = || records.iter().filter_map(|record| record.seq);
        let entries = seqs().next_back().map(|last| (last, seqs().count() as u64));
        Self { branch: published.batch.branch, epoch: published.epoch, entries, position: published.position }
    }

    /// An entry that is read back stands for itself.
    pub(super) fn of_entry(branch: BranchId, entry: &Entry) -> Self {
        Self { branch, epoch: entry.epoch, entries: Some((entry.seq, 1)), position: entry.position }
    }

    /// What stands for no entry.
    pub(super) fn nowhere(branch: BranchId) -> Self {
        Self { branch, epoch: Epoch::default(), entries: None, position: Position::default() }
    }

    /// A batch of so many entries, the last of them here.
    #[cfg(test)]
    pub(super) fn of_entries(branch: BranchId, epoch: Epoch, entries: (Seq, u64), position: Position) -> Self {
        Self { branch, epoch, entries: Some(entries), position }
    }

    /// Whether a reader that has read back all up to this position has read the batch; none if positions do not say.
    pub(super) fn was_read(&self, until: Position) -> Option<bool> {
        match self.entries {
            Some(_) => Some(self.position <= until),
            None if self.position < until => Some(true),
            // It may have been recorded behind that entry, before what was open was read or after it.
            None if self.position == until => None,
            None => Some(false),
        }
    }

    /// The positions of its entries.
    pub(super) fn range(&self) -> Option<(Position, Position)> {
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
    /// A line of progress stands behind this offset of its effect.
    pub(super) fn new(batch: BatchPosition, seq: Seq, progress: Option<(EffectId, u64)>) -> Self {
        Self { batch, seq, progress }
    }

    pub(super) fn batch(&self) -> &BatchPosition {
        &self.batch
    }

    /// Its entry; of progress and of states, the one before it.
    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    /// The effect of progress, and the offset behind it.
    pub(super) fn progress(&self) -> Option<(EffectId, u64)> {
        self.progress
    }

    /// The position of the entry that this line tells; none of progress and of states.
    pub(super) fn entry(&self, line: &protocol::Event) -> Option<Position> {
        let tells = self.progress.is_none() && !line.is_state();
        self.batch.position_of(self.seq).filter(|_| tells)
    }
}
