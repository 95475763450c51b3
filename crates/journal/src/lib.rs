//! Storage of entries: SQLite with group commit, and an equivalent journal in memory.
//!
//! This crate holds the two traits that the other crates use ([`Read`] and [`Journal`]), the format on disk, ownership
//! of a home, and the rules that an append must satisfy. It makes no decision about a run: it stores each batch that
//! the engine made completely or not at all.

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
use std::sync::atomic::AtomicBool;

use engine::{
    ApprovalRow, Batch, BranchId, CallId, Epoch, Event, Hash, MessageId, Position, ReceiptRow, Record, RunId, RunRow,
    Seq, SessionId, SessionRow, Timestamp, Visibility,
};

pub use error::{Error, Kind};
pub use lineage::{Segment, Snapshot, Start, StoredLineage, Unsaved};
pub use memory::Memory;
pub use old::{Collected, DeletedConversation, ErasedConversation, Old};
#[cfg(feature = "sqlite")]
#[doc(hidden)]
pub use sqlite::store_uncompressed;
#[cfg(feature = "sqlite")]
pub use sqlite::{
    FileStep, FileWatch, HomeLock, IndexedText, JournalCopy, PassageFile, PassageSearch, PassageWords, PassagesFound,
    RESTORING, Reader, SPACE_BYTES, SearchIndex, Sqlite, WORD_CHARS, check, copy_journal, repair, watch_files,
};

/// What one append stores: bodies, entries, progress and views, all of them or none.
#[derive(Debug, Clone)]
pub struct Append {
    /// The records that the engine made.
    pub batch: Arc<Batch>,
    /// The epoch of the owner that appends.
    pub epoch: Epoch,
}

/// Called exactly once with the result of an append: the position of its last entry (or of the journal's head, if the
/// append held only progress), after the commit and, for a synced batch, after the sync. It must return quickly,
/// because the next group waits for it.
pub type Done = Box<dyn FnOnce(Result<Position, Error>) + Send>;

/// The highest possible seq: seqs are stored as signed numbers.
const LAST: Seq = Seq(i64::MAX as u64);

/// A stored event with its position in the audit log.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Entry {
    /// The number of the entry in its branch, from 1.
    pub seq: Seq,
    /// The number of the entry in the home, from 1.
    pub position: Position,
    /// The epoch of the owner that appended it.
    pub epoch: Epoch,
    /// The time at which the engine decided it.
    pub at: Timestamp,
    pub event: Event,
    /// The hash of its payload.
    pub payload_hash: Hash,
    /// The chain value up to and including this entry.
    pub chain: Hash,
}

/// The entries of a branch from some entry on, and its open progress.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Tail {
    pub entries: Vec<Entry>,
    /// Progress that none of the entries seals.
    pub progress: Vec<Record>,
}

/// The entries of a home after a position, over all of its sessions, read at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its entries in commit order.
    pub entries: Vec<HomeEntry>,
    /// Open progress of the branches that have some; `None` when more entries may follow this page.
    pub open: Option<Vec<Open>>,
}

/// An entry in commit order of the home.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct HomeEntry {
    /// The number of the entry in the home, from 1.
    pub position: Position,
    /// The epoch of the owner that appended it.
    pub epoch: Epoch,
    pub branch: BranchId,
    /// The entry. If it cannot be read, only this entry is an error: readers still get the entries of other sessions.
    pub entry: Result<Entry, Error>,
}

/// Open progress of a branch: no entry seals it yet.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Open {
    pub branch: BranchId,
    /// Its last entry, and the epoch of the owner that recorded it.
    pub head: (Seq, Epoch),
    /// Ordered by effect and offset. The records have no seq.
    pub progress: Vec<Record>,
}

/// Sessions by their last activity, latest first.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ByActivity {
    pub rows: Vec<SessionRow>,
    /// How many more there are.
    pub more: usize,
}

/// Read access to a journal, for its owner and for other processes.
///
/// Lists are in the order in which their rows were first recorded. A row that does not exist is `None` or is not in the
/// list.
pub trait Read: Send + Sync {
    /// The last position; 0 for an empty journal.
    fn head(&self) -> Result<Position, Error>;

    /// The last seq of a branch; 0 if it has none.
    fn last(&self, branch: BranchId) -> Result<Seq, Error>;

    /// The time of the last entry, or of unsealed progress if that is later; 0 for an empty journal. A new owner's
    /// clock continues from it, so that times in a home never decrease.
    fn latest(&self) -> Result<Timestamp, Error>;

    /// The entries of a branch from `from` to `until`, in order. Hashes and chain are verified: a mismatch is
    /// [`Error::Damaged`], an event that this version does not know is [`Error::Unreadable`], an erased payload is
    /// [`Error::Erased`]. Entries outside of the range are not checked.
    fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Result<Vec<Entry>, Error>;

    /// The entries of a branch from `from` to its end.
    fn read(&self, branch: BranchId, from: Seq) -> Result<Vec<Entry>, Error> {
        self.range(branch, from, LAST)
    }

    /// The seqs at which a branch has snapshots, oldest first.
    fn snapshots(&self, branch: BranchId) -> Result<Vec<Seq>, Error>;

    /// The snapshot of a branch at this entry; its bytes are verified against the hash ([`Error::DamagedSnapshot`]).
    fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Option<Snapshot>, Error>;

    /// Everything that a branch's state is folded from: the newest snapshot that this version can read, the entries
    /// after it, and open progress. They are consistent even if another process appends meanwhile. Without a snapshot,
    /// a forked branch starts with its parent's line. An unknown branch has no entries.
    fn line(&self, branch: BranchId) -> Result<StoredLineage, Error> {
        let (until, mut progress) = lineage::now(self, branch)?;
        let (start, segments) = lineage::recent(self, branch, until)?;
        lineage::drop_sealed(&mut progress, &segments);
        Ok(StoredLineage { start, segments, progress })
    }

    /// Like [`Read::line`], but up to one entry and without progress.
    fn line_until(&self, branch: BranchId, until: Seq) -> Result<StoredLineage, Error> {
        let (start, segments) = lineage::recent(self, branch, until)?;
        Ok(StoredLineage { start, segments, progress: vec![] })
    }

    /// Like [`Read::line`], but with every entry that still exists: the line starts at a snapshot only where entries
    /// were erased.
    fn history(&self, branch: BranchId) -> Result<StoredLineage, Error> {
        let (until, mut progress) = lineage::now(self, branch)?;
        let (start, segments) = lineage::whole(self, branch, until)?;
        lineage::drop_sealed(&mut progress, &segments);
        Ok(StoredLineage { start, segments, progress })
    }

    /// Like [`Read::history`], but up to one entry and without progress.
    fn history_until(&self, branch: BranchId, until: Seq) -> Result<StoredLineage, Error> {
        let (start, segments) = lineage::whole(self, branch, until)?;
        Ok(StoredLineage { start, segments, progress: vec![] })
    }

    /// Progress that no entry has sealed yet, ordered by effect and offset. The records have no seq.
    fn progress(&self, branch: BranchId) -> Result<Vec<Record>, Error>;

    /// Entries from `from` on and open progress, read at one moment: another process may append meanwhile.
    fn tail(&self, branch: BranchId, from: Seq) -> Result<Tail, Error>;

    /// The first `limit` entries of all sessions after a position, and open progress if these are the last entries.
    /// Both are consistent even if another process appends meanwhile. Each entry is verified as by [`Read::range`].
    fn page(&self, behind: Position, limit: usize) -> Result<Page, Error>;

    /// The bytes of a body, verified against the hash.
    fn body(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error>;

    /// The bytes of these bodies, in the same order.
    fn bodies(&self, hashes: &[Hash]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
        hashes.iter().map(|hash| self.body(hash)).collect()
    }

    /// All sessions, including terminated ones.
    fn sessions(&self) -> Result<Vec<SessionRow>, Error>;

    /// The last `limit` sessions that were created before this one, or of all sessions; no other rows are read.
    fn sessions_before(&self, before: Option<SessionId>, limit: usize) -> Result<Vec<SessionRow>, Error>;

    /// The `limit` sessions with the last activity, latest first, of those that are shown in this list, and how many
    /// more there are. With `after`, those that follow it in this order.
    fn sessions_by_activity(
        &self,
        shown: Visibility,
        after: Option<(Timestamp, SessionId)>,
        limit: usize,
    ) -> Result<ByActivity, Error> {
        let of = |row: &SessionRow| (row.last_activity, row.session);
        let mut rows: Vec<_> = self.sessions()?.into_iter().filter(|row| row.visibility == shown).collect();
        rows.retain(|row| after.is_none_or(|after| of(row) < after));
        rows.sort_by_key(|row| std::cmp::Reverse(of(row)));
        let more = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        Ok(ByActivity { rows, more })
    }

    /// The first message of a session that was accepted after this time, and how many there are.
    fn first_message(&self, session: SessionId, after: Option<Timestamp>) -> Result<(Option<ReceiptRow>, u64), Error> {
        let mut receipts = self.receipts(session)?;
        receipts.retain(|receipt| after.is_none_or(|after| receipt.accepted_at > after));
        let count = receipts.len() as u64;
        Ok((receipts.into_iter().next(), count))
    }

    /// The sessions that an owner must resume.
    fn unfinished(&self) -> Result<Vec<SessionRow>, Error>;

    /// The sessions that wait for a human to repair them. Like [`Read::unfinished`] it reads no other rows.
    fn held(&self) -> Result<Vec<SessionRow>, Error>;

    /// The current branch of the home's ledger; `None` if the ledger has no entries yet.
    fn ledger(&self) -> Result<Option<BranchId>, Error>;

    /// All branches with their sessions, in the order of creation.
    fn branches(&self) -> Result<Vec<(BranchId, SessionId)>, Error>;

    /// The session of this key (`agent:AGENT:NAME`).
    fn session(&self, key: &str) -> Result<Option<SessionRow>, Error>;

    /// The session of a run that has started.
    fn session_of_run(&self, run: RunId) -> Result<Option<SessionRow>, Error>;

    /// The runs of a session, or of all sessions.
    fn runs(&self, session: Option<SessionId>) -> Result<Vec<RunRow>, Error>;

    /// The last `limit` of these that started before this one; no other rows are read.
    fn runs_before(
        &self,
        session: Option<SessionId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error>;

    /// The row of one run.
    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error>;

    /// The receipts of a session's messages.
    fn receipts(&self, session: SessionId) -> Result<Vec<ReceiptRow>, Error>;

    /// The receipt of one message.
    fn receipt(&self, message: MessageId) -> Result<Option<ReceiptRow>, Error>;

    /// The receipt of the message that was sent with this key.
    fn receipt_by_key(&self, session: SessionId, key: &str) -> Result<Option<ReceiptRow>, Error>;

    /// Open approval requests of a session, or of all sessions.
    fn approvals(&self, session: Option<SessionId>) -> Result<Vec<ApprovalRow>, Error>;

    /// Approval requests that are closed, and calls that a grant has allowed.
    fn closed_approvals(&self) -> Result<Vec<ApprovalRow>, Error>;

    /// The last of these before one, of a session or of all, in the order in which they were first recorded.
    fn closed_approvals_before(
        &self,
        session: Option<SessionId>,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRow>, Error>;

    /// The calls of all of these.
    fn closed_approval_calls(&self) -> Result<Vec<CallId>, Error>;

    /// The row of a call, open or closed; none if it has not asked and no grant has allowed it.
    fn approval(&self, call: CallId) -> Result<Option<ApprovalRow>, Error>;
}

/// A journal that this process owns.
pub trait Journal: Read {
    /// Queues an append; never waits for the disk. Appends of one branch are stored in the order of the calls.
    ///
    /// A batch that breaks a rule (see [`Error::is_refusal`]) fails alone. After a failed write or sync this process
    /// acknowledges nothing more: every later append fails with [`Error::Poisoned`]. If the disk is full
    /// ([`Error::Full`]), only batches that end runs are stored, from a reserve, until there is space again.
    fn append(&self, append: Append, done: Done);

    /// Queues a snapshot after the appends before it; it is written, not synced. It replaces the older snapshots of its
    /// branch, except one at the point where entries were removed. A snapshot at an entry that does not exist is
    /// dropped silently: the append that it covers has failed and reported that.
    fn keep_snapshot(&self, snapshot: Snapshot);

    /// The epoch of this owner.
    fn epoch(&self) -> Epoch;

    /// Erases the content of bodies that only old entries name, and that none of the given states, snapshots, lists,
    /// settings or prompts needs. Size and hash stay; readers get no content. If the same content is appended later, it
    /// is stored again. May block. A journal in memory has nothing old, so it erases nothing.
    fn erase(&self, _old: &Old<'_>) -> Result<Collected, Error> {
        Ok(Collected::default())
    }

    /// Erases what a deleted conversation left: the content of all bodies that only entries of this session up to this one
    /// name, the older snapshots of its branch, and the output of its effects that no entry sealed; readers get no content
    /// of it. The entries stay, and the settings. No run of the session may be under way. Done twice, or after a crash in
    /// the middle, it erases what is left. `None` if it was stopped between two steps, by setting `_stopped`. May block.
    fn erase_conversation(
        &self,
        _of: DeletedConversation,
        _stopped: &AtomicBool,
    ) -> Result<Option<ErasedConversation>, Error> {
        Ok(Some(ErasedConversation::default()))
    }

    /// Whether an append that failed with [`Error::Full`] is worth a retry: asks the file system and writes nothing.
    fn has_space(&self) -> bool {
        true
    }
}
