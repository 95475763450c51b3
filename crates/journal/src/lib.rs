//! Where entries are kept: SQLite with group commit, and its twin in memory.
//!
//! Here live the two traits that the rest of the house sees ([`Read`] and [`Journal`]), the format on disk, ownership of
//! a home, and the rules that an append must keep to. What may not live here: any decision about a run. A batch comes in
//! as the engine made it, and is kept whole or not at all.

mod chain;
mod ends;
mod error;
mod lineage;
mod memory;
mod old;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod suite;
pub mod views;

use std::sync::Arc;

use engine::{
    ApprovalRow, Batch, BranchId, Epoch, Event, Hash, MessageId, Position, ReceiptRow, Record, RunId, RunRow, Seq,
    SessionId, SessionRow, Timestamp,
};

pub use error::{Error, Kind};
pub use lineage::{Segment, Snapshot, Start, StoredLineage, Unsaved};
pub use memory::Memory;
pub use old::{Collected, Old};
#[cfg(feature = "sqlite")]
pub use sqlite::{FileStep, FileWatch, Reader, SPACE_BYTES, Sqlite, check, repair, watch_files};

/// What is to be kept: bodies, entries, progress and views together or not at all.
#[derive(Debug, Clone)]
pub struct Append {
    /// What the engine recorded.
    pub batch: Arc<Batch>,
    /// The number of the owner that appends.
    pub epoch: Epoch,
}

/// Told exactly once what became of an append: the position of its last entry (of the journal's head, if it was progress
/// alone), after the commit and, for a synced batch, after the sync. Must be quick: the next group waits for it.
pub type Done = Box<dyn FnOnce(Result<Position, Error>) + Send>;

/// The end of any branch (seqs are kept as signed numbers).
const LAST: Seq = Seq(i64::MAX as u64);

/// One kept event with its place in the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place in the branch, from 1.
    pub seq: Seq,
    /// Its place in the home.
    pub position: Position,
    /// The owner that appended it.
    pub epoch: Epoch,
    /// When it was decided.
    pub at: Timestamp,
    /// What.
    pub event: Event,
    /// The hash of its payload.
    pub payload_hash: Hash,
    /// The chain up to and with this entry.
    pub chain: Hash,
}

/// What a branch holds from some entry on.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Progress that none of them seals.
    pub progress: Vec<Record>,
}

/// What a home holds behind a position, over all of its sessions, as it stood at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its entries in commit order.
    pub entries: Vec<HomeEntry>,
    /// Open progress of the branches that have some; none when entries may follow this page.
    pub open: Option<Vec<Open>>,
}

/// An entry in the order of the home.
#[derive(Debug, Clone, PartialEq)]
pub struct HomeEntry {
    /// Its place in the home.
    pub position: Position,
    /// The owner that appended it.
    pub epoch: Epoch,
    /// Its branch.
    pub branch: BranchId,
    /// The entry. One that cannot be read is an error here, and keeps nobody from reading what other sessions have.
    pub entry: Result<Entry, Error>,
}

/// Progress of a branch that none of its entries seals.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// The branch.
    pub branch: BranchId,
    /// Its last entry, and the owner that recorded it.
    pub head: (Seq, Epoch),
    /// Ordered by effect and offset. The records have no seq.
    pub progress: Vec<Record>,
}

/// What can be read, by the owner and by others beside it.
///
/// Lists are in the order in which their rows were first recorded. What is not there is `None` or an empty list.
pub trait Read: Send + Sync {
    /// The last position; 0 when there is none.
    fn head(&self) -> Result<Position, Error>;

    /// The last entry of a branch; 0 when there is none.
    fn last(&self, branch: BranchId) -> Result<Seq, Error>;

    /// The time of the last entry, or of progress that none seals yet where that is later; 0 when there is nothing. A new
    /// owner's clock goes on from there, so that no time in a home comes before an earlier one.
    fn latest(&self) -> Result<Timestamp, Error>;

    /// The entries of a branch from `from` to `until`, in order. Hashes and chain are checked: what does not match is
    /// [`Error::Damaged`], what this version does not know is [`Error::Unreadable`], what was erased [`Error::Erased`].
    /// What lies before `from` and after `until` is not looked at.
    fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Result<Vec<Entry>, Error>;

    /// The entries of a branch from `from` on.
    fn read(&self, branch: BranchId, from: Seq) -> Result<Vec<Entry>, Error> {
        self.range(branch, from, LAST)
    }

    /// The entries that a branch has snapshots of, oldest first.
    fn snapshots(&self, branch: BranchId) -> Result<Vec<Seq>, Error>;

    /// The snapshot of a branch at this entry; its bytes are checked against the hash ([`Error::DamagedSnapshot`]).
    fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Option<Snapshot>, Error>;

    /// What a branch's state is folded from: the newest snapshot that this version knows, what follows it and open
    /// progress, which fit together also while another process appends. Where there is no snapshot and the branch was
    /// forked, it begins with its parent's line. Nothing is there: no entries.
    fn line(&self, branch: BranchId) -> Result<StoredLineage, Error> {
        let (until, mut progress) = lineage::now(self, branch)?;
        let (start, segments) = lineage::recent(self, branch, until)?;
        lineage::leave_out_sealed(&mut progress, &segments);
        Ok(StoredLineage { start, segments, progress })
    }

    /// The same up to one of its entries, and without progress.
    fn line_until(&self, branch: BranchId, until: Seq) -> Result<StoredLineage, Error> {
        let (start, segments) = lineage::recent(self, branch, until)?;
        Ok(StoredLineage { start, segments, progress: vec![] })
    }

    /// The same as [`Read::line`] with every entry that is still there: only where some were erased does it start at a snapshot.
    fn history(&self, branch: BranchId) -> Result<StoredLineage, Error> {
        let (until, mut progress) = lineage::now(self, branch)?;
        let (start, segments) = lineage::whole(self, branch, until)?;
        lineage::leave_out_sealed(&mut progress, &segments);
        Ok(StoredLineage { start, segments, progress })
    }

    /// The same as [`Read::history`] up to one of its entries, and without progress.
    fn history_until(&self, branch: BranchId, until: Seq) -> Result<StoredLineage, Error> {
        let (start, segments) = lineage::whole(self, branch, until)?;
        Ok(StoredLineage { start, segments, progress: vec![] })
    }

    /// Progress that no entry has sealed yet, ordered by effect and offset. The records have no seq.
    fn progress(&self, branch: BranchId) -> Result<Vec<Record>, Error>;

    /// Entries from `from` on and open progress, as both stood at one moment: another process may append meanwhile.
    fn tail(&self, branch: BranchId, from: Seq) -> Result<Tail, Error>;

    /// The first `limit` entries of all sessions behind a position, with open progress where these are the last. Both fit
    /// together, also while another process appends. Each entry is checked as by [`Read::range`].
    fn page(&self, behind: Position, limit: usize) -> Result<Page, Error>;

    /// The bytes of a body; they are checked against the hash.
    fn body(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error>;

    /// The bytes of these bodies, in the same order.
    fn bodies(&self, hashes: &[Hash]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
        hashes.iter().map(|hash| self.body(hash)).collect()
    }

    /// Every session.
    fn sessions(&self) -> Result<Vec<SessionRow>, Error>;

    /// The last `limit` sessions that were made before this one, or of all; no others are looked at.
    fn sessions_before(&self, before: Option<SessionId>, limit: usize) -> Result<Vec<SessionRow>, Error>;

    /// The sessions that someone must take up.
    fn unfinished(&self) -> Result<Vec<SessionRow>, Error>;

    /// The sessions that a human must mend. Like [`Read::unfinished`] it looks at no others.
    fn held(&self) -> Result<Vec<SessionRow>, Error>;

    /// The branch that the home's ledger goes on in; none where nothing was recorded in one yet.
    fn ledger(&self) -> Result<Option<BranchId>, Error>;

    /// Every branch with its session, in the order in which they were begun.
    fn branches(&self) -> Result<Vec<(BranchId, SessionId)>, Error>;

    /// The session of this key (`agent:AGENT:NAME`).
    fn session(&self, key: &str) -> Result<Option<SessionRow>, Error>;

    /// The session of a run that has begun.
    fn session_of_run(&self, run: RunId) -> Result<Option<SessionRow>, Error>;

    /// The runs of a session, or of all.
    fn runs(&self, session: Option<SessionId>) -> Result<Vec<RunRow>, Error>;

    /// The last `limit` of these that began before this one; no others are looked at.
    fn runs_before(
        &self,
        session: Option<SessionId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error>;

    /// One run.
    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error>;

    /// What became of a session's messages.
    fn receipts(&self, session: SessionId) -> Result<Vec<ReceiptRow>, Error>;

    /// What became of one message.
    fn receipt(&self, message: MessageId) -> Result<Option<ReceiptRow>, Error>;

    /// What became of the message that was sent with this key.
    fn receipt_by_key(&self, session: SessionId, key: &str) -> Result<Option<ReceiptRow>, Error>;

    /// Open questions of a session, or of all.
    fn approvals(&self, session: Option<SessionId>) -> Result<Vec<ApprovalRow>, Error>;
}

/// A journal that this process owns.
pub trait Journal: Read {
    /// Queues an append; never waits for the disk. Appends of one branch are kept in the order in which they were given.
    ///
    /// A batch that breaks a rule (see [`Error::is_refusal`]) is answered alone. After a failed write or sync nothing more
    /// is acknowledged by this process: every later append answers [`Error::Poisoned`]. Where there is no space
    /// ([`Error::Full`]) only batches that end runs are kept, from a reserve, until there is space again.
    fn append(&self, append: Append, done: Done);

    /// Queues a snapshot behind what was appended before it; written, not synced. It takes the place of the older ones of
    /// its branch, but for one that stands where entries were removed. One of an entry that is not there is left out:
    /// the append that it stands for has failed, and has said so.
    fn keep_snapshot(&self, snapshot: Snapshot);

    /// The number of this owner.
    fn epoch(&self) -> Epoch;

    /// Erases the content of bodies that old entries name and nothing else: not the states given, no
    /// snapshot, no list, no settings and no prompt. Size and hash stay, and whoever reads one is given none. Content that
    /// is given anew later is kept anew. May block. A journal that is gone with its process has nothing that is old.
    fn erase(&self, _old: &Old<'_>) -> Result<Collected, Error> {
        Ok(Collected::default())
    }

    /// Whether an append that failed with [`Error::Full`] is worth trying again: asks the file system, writes nothing.
    fn has_space(&self) -> bool {
        true
    }
}
