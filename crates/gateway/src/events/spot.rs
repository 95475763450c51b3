//! Where a batch stands in the order of the home: what its subscribers count by. What may not live here: what they are told.

use engine::{BranchId, Epoch, Position, Seq};
use runtime::Published;

/// Where the batch stands that lines tell of: what a subscriber of the whole home counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(super) branch: BranchId,
    pub(super) epoch: Epoch,
    /// Its last entry, and how many it has; none of progress alone.
    entries: Option<(Seq, u64)>,
    /// The position of its last entry, or of the last of the home before it.
    position: Position,
}

impl Spot {
    pub(crate) fn of(published: &Published) -> Self {
        let records = &published.batch.records;
        let seqs = || records.iter().filter_map(|record| record.seq);
        let entries = seqs().next_back().map(|last| (last, seqs().count() as u64));
        Self { branch: published.batch.branch, epoch: published.epoch, entries, position: published.position }
    }

    /// Of a line that stands for nothing in the journal.
    pub(super) fn nowhere() -> Self {
        let (branch, epoch) = (BranchId(uuid::Uuid::nil()), Epoch::default());
        Self { branch, epoch, entries: None, position: Position::default() }
    }

    /// A batch of so many entries, the last of them here.
    #[cfg(test)]
    pub(super) fn of_entries(branch: BranchId, epoch: Epoch, entries: (Seq, u64), position: Position) -> Self {
        Self { branch, epoch, entries: Some(entries), position }
    }

    /// Whether whoever has read back all up to this position has read the batch; none where that is not said by positions.
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
    pub(super) fn position_of(&self, seq: Seq) -> Option<Position> {
        let (last, count) = self.entries?;
        let behind = last.0.checked_sub(seq.0).filter(|behind| *behind < count)?;
        Some(Position(self.position.0 - behind))
    }
}
