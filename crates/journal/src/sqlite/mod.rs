//! The journal in SQLite: one process owns it, one thread writes it, and other connections read it.
//!
//! `home` is the folder and its lock, `space` the reserve, `schema` the tables, `migrations` the migration of older
//! ones, `encode` the preparation of an append, `dictionaries` the compression, `writer` the queue, `group` the group
//! commit, `member` one append within it, `checkpoint` the WAL, `reader`, `tail`, `page`, `rows` and `activity` the
//! reads, `backup` copies a journal beside its owner, `remake` rebuilds the views, `search` is the index of what was
//! said, in a file of its own.
//! The rules about which record may follow which are not here: they are in `chain`, for both journals.

mod activity;
mod backup;
mod bodies;
pub mod check;
mod checkpoint;
mod collect;
mod dictionaries;
mod encode;
mod files;
mod group;
mod home;
mod mark;
mod member;
mod migrations;
mod page;
mod passages;
mod reader;
mod remake;
pub mod repair;
mod retain;
mod rows;
mod schema;
mod scrub;
mod search;
mod snapshot;
mod space;
mod statements;
mod stored;
mod tail;
mod templates;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::{
    ApprovalRow, BranchId, CallId, Epoch, Hash, MessageId, Position, ReceiptRow, Record, RunId, RunRow, Seq, SessionId,
    SessionRow, Timestamp, Visibility,
};

use rusqlite::Connection;

pub use backup::{JournalCopy, copy_journal};
#[doc(hidden)]
pub use dictionaries::store_uncompressed;
pub use files::{FileStep, FileWatch, watch_files};
pub use home::{HomeLock, RESTORING};
pub use passages::{PassageFile, PassageSearch, PassageWords, PassagesFound};
pub use reader::Reader;
pub use search::{IndexedText, SearchIndex, WORD_CHARS};
pub use space::SPACE_BYTES;

use crate::{
    Append, ByActivity, Collected, DeletedConversation, Done, Entry, ErasedConversation, Error, Journal, Old, Page,
    Read, Snapshot, Tail,
};
use collect::{Collectable, Collection};
use group::Quiet;
use home::Owned;
use migrations::Target;
use schema::Format;
use snapshot::Packed;
use space::{Outlook, Space};
use writer::{CommitReply, Job, Pace, Start, Work, Writer};

/// The oldest SQLite without the WAL-reset bug (<https://sqlite.org/wal.html#walresetbug>), as SQLite numbers itself.
const SQLITE_AT_LEAST: i32 = 3_051_003;

/// The journal of a home; this process owns it as long as this value lives.
#[derive(Debug)]
pub struct Sqlite {
    // The order matters: the reader's connection closes first, so that the writer's is the last and runs the final
    // checkpoint.
    reader: Reader,
    writer: Writer,
    epoch: Epoch,
    outlook: Outlook,
    home: PathBuf,
    collectable: Collectable,
}

/// The index of the WAL cannot grow, because the disk is full.
const SHM_CANNOT_GROW: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

impl Sqlite {
    /// Takes a home: creates it if it does not exist (0700), locks it until this value is dropped, opens or creates its
    /// journal (0600), checks that nothing acknowledged is missing, and becomes its next owner.
    ///
    /// If another process owns the home, this is [`Error::Owned`] at once; a caller that wants to wait retries.
    ///
    /// # Panics
    /// If it is linked with an SQLite that may lose commits; the bundled one does not.
    pub fn own(home: &Path) -> Result<Self, Error> {
        Self::own_at(home, Pace::Thread, space::has_space)
    }

    /// Like [`Sqlite::own`] without a thread: an append is written and answered before it returns, and the caller does
    /// background work with [`Sqlite::background_work`]. `has_space` says whether a full disk has space again. This is
    /// for simulations, which need one fixed order and have their own clock.
    pub fn own_stepped(home: &Path, has_space: fn(&Path) -> bool) -> Result<Self, Error> {
        Self::own_at(home, Pace::Caller, has_space)
    }

    /// Does background work of a journal without a thread: the first call checkpoints the WAL, the next one empties it,
    /// and each later call collects a piece.
    pub fn background_work(&self) {
        self.writer.background_work();
    }

    fn own_at(home: &Path, pace: Pace, has_space: fn(&Path) -> bool) -> Result<Self, Error> {
        let version = rusqlite::version_number();
        assert!(
            version >= SQLITE_AT_LEAST,
            "SQLite {} may lose commits: build with the bundled one",
            rusqlite::version()
        );
        match Self::take(home, pace, has_space) {
            // The reserve is there for this: a run can be ended even in a full home.
            Err(Error::Full { .. }) if space::give_up(home) => Self::take(home, pace, has_space),
            taken => taken,
        }
    }

    /// Drops every row of the views and writes them again from the entries, in one transaction; holds the rows of one
    /// session at a time. Returns the sessions that cannot be read: their rows stay, and so do rows of removed entries.
    /// Nothing may be appended meanwhile.
    pub fn rebuild_views(&self) -> Result<Vec<(SessionId, Error)>, Error> {
        remake::remake(&self.home, self.epoch, &self.reader)
    }

    fn take(home: &Path, pace: Pace, has_space: fn(&Path) -> bool) -> Result<Self, Error> {
        let home = Owned::take(home)?;
        let Opened { connection, head } = opened(&home, &migrations::THIS)?;
        let epoch = schema::become_owner(&connection, &home.database(), now())?;
        let reader = Reader::beside(home.path())?;
        let space = Space::open(home.path(), has_space)?;
        let outlook = space.outlook();
        let collectable = Collectable::new(&connection, epoch).map_err(failed(&home.database()))?;
        let path = home.path().to_owned();
        let quiet = Quiet::default();
        let start = Start { epoch, last: head, space, quiet, collectable: collectable.clone(), pace };
        let writer = Writer::start(connection, home, start)?;
        Ok(Self { reader, writer, epoch, outlook, home: path, collectable })
    }

    /// Removes bodies that nothing names any more and that are older than this owner, and progress of runs that have
    /// ended. An append waits for the current piece, some milliseconds. The writer also does this by itself when its
    /// queue was empty for long.
    pub fn collect(&self) -> Result<Collected, Error> {
        let path = self.home.join(home::DATABASE);
        let connection = schema::connect(&path)?;
        let mut collection = Collection::new(&self.collectable);
        loop {
            if let Some(collected) = collection.step(&connection, &path)? {
                return Ok(collected);
            }
        }
    }

    /// Removes the entries of a branch before this one, which stays without its payload: the chain continues from it,
    /// and the state is folded from the snapshot at it. Returns how many entries were removed.
    ///
    /// Without such a snapshot, or if another branch forks off before it, this is [`Error::NoAnchor`], and nothing
    /// changes.
    pub fn anchor(&self, branch: BranchId, seq: Seq) -> Result<u64, Error> {
        let mut removals = self.collectable.removals.hold();
        *removals += 1;
        retain::anchor(&self.home, self.epoch, branch, seq)
    }
}

/// A journal that holds what was acknowledged, in the target's format.
struct Opened {
    connection: Connection,
    /// The last position, and the chain value of the entry there.
    head: (Position, Hash),
}

/// Opens the journal of a home. It is migrated only if no acknowledged entry is missing.
fn opened(home: &Owned, target: &Target) -> Result<Opened, Error> {
    let database = home.database();
    let mark = home.mark()?;
    if let Some((mark, _)) = mark.filter(|_| schema::is_missing(&database)) {
        return Err(Error::Regression { path: database, head: Position(0), mark });
    }
    let (mut connection, format) = schema::open(&database, target.version)?;
    let head = schema::check_head(&connection, &database, mark)?;
    schema::trust_wal(&connection).map_err(failed(&database))?;
    match format {
        Format::Older(version) => migrations::run(&mut connection, &database, version, target)?,
        Format::Known | Format::Empty => schema::complete_dictionaries(&mut connection, &database)?,
    }
    Ok(Opened { connection, head })
}

/// The only clock of this crate: it stamps owners, never events.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Converts an error of a connection to this file.
fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    move |error| {
        let (path, detail) = (path.to_owned(), error.to_string());
        if matches!(error, rusqlite::Error::FromSqlConversionFailure(..)) {
            return Error::Damaged { path, detail };
        }
        // The index of the WAL could not grow: SQLite names no other cause, and a full disk is nearly always the cause.
        if error.sqlite_extended_error_code() == Some(SHM_CANNOT_GROW) {
            return Error::Full { path };
        }
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => Error::Full { path },
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Error::Damaged { path, detail },
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => Error::Unwritable { path, detail },
            Some(Code::ConstraintViolation) => Error::Constraint { detail },
            Some(Code::Unknown) if detail.starts_with("no such ") => Error::Damaged { path, detail },
            _ => Error::Failed { path, detail },
        }
    }
}

impl Journal for Sqlite {
    fn append(&self, append: Append, done: Done) {
        let done = CommitReply::new(done);
        self.writer.queue(Job { work: Work::Append(append), done });
    }

    fn keep_snapshot(&self, snapshot: Snapshot) {
        if let Some(packed) = Packed::of(&snapshot) {
            self.writer.queue(Job { work: Work::Snapshot(packed), done: CommitReply::to_nobody() });
        }
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn has_space(&self) -> bool {
        self.outlook.is_clear()
    }

    fn erase_conversation(
        &self,
        of: DeletedConversation,
        stopped: &AtomicBool,
    ) -> Result<Option<ErasedConversation>, Error> {
        let path = self.home.join(home::DATABASE);
        let connection = schema::connect(&path)?;
        // What is erased is overwritten, also in pages that become free.
        connection.pragma_update(None, "secure_delete", true).map_err(failed(&path))?;
        let collectable = self.collectable.up_to_now(&connection).map_err(failed(&path))?;
        let mut collection = Collection::deleting(&collectable, &connection, &of).map_err(failed(&path))?;
        while !stopped.load(Ordering::Relaxed) {
            if let Some(collected) = collection.step(&connection, &path)? {
                scrub::scrub(&connection, self.epoch, &path)?;
                checkpoint::empty(&connection).map_err(failed(&path))?;
                return Ok(Some(ErasedConversation {
                    collected,
                    files: collection.files(),
                    calls: collection.calls(),
                }));
            }
        }
        Ok(None)
    }

    fn erase(&self, old: &Old<'_>) -> Result<Collected, Error> {
        let path = self.home.join(home::DATABASE);
        let connection = schema::connect(&path)?;
        let collectable = self.collectable.up_to_now(&connection).map_err(failed(&path))?;
        let mut collection = Collection::erasing(&collectable, old);
        loop {
            if let Some(collected) = collection.step(&connection, &path)? {
                return Ok(collected);
            }
        }
    }
}

impl Read for Sqlite {
    fn head(&self) -> Result<Position, Error> {
        self.reader.head()
    }

    fn last(&self, branch: BranchId) -> Result<Seq, Error> {
        self.reader.last(branch)
    }

    fn latest(&self) -> Result<Timestamp, Error> {
        self.reader.latest()
    }

    fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Result<Vec<Entry>, Error> {
        self.reader.range(branch, from, until)
    }

    fn snapshots(&self, branch: BranchId) -> Result<Vec<Seq>, Error> {
        self.reader.snapshots(branch)
    }

    fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Option<Snapshot>, Error> {
        self.reader.snapshot(branch, seq)
    }

    fn progress(&self, branch: BranchId) -> Result<Vec<Record>, Error> {
        self.reader.progress(branch)
    }

    fn tail(&self, branch: BranchId, from: Seq) -> Result<Tail, Error> {
        self.reader.tail(branch, from)
    }

    fn page(&self, behind: Position, limit: usize) -> Result<Page, Error> {
        self.reader.page(behind, limit)
    }

    fn body(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        self.reader.body(hash)
    }

    fn bodies(&self, hashes: &[Hash]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
        self.reader.bodies(hashes)
    }

    fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        self.reader.sessions()
    }

    fn sessions_before(&self, before: Option<SessionId>, limit: usize) -> Result<Vec<SessionRow>, Error> {
        self.reader.sessions_before(before, limit)
    }

    fn sessions_by_activity(
        &self,
        shown: Visibility,
        after: Option<(Timestamp, SessionId)>,
        limit: usize,
    ) -> Result<ByActivity, Error> {
        self.reader.sessions_by_activity(shown, after, limit)
    }

    fn first_message(&self, session: SessionId, after: Option<Timestamp>) -> Result<(Option<ReceiptRow>, u64), Error> {
        self.reader.first_message(session, after)
    }

    fn unfinished(&self) -> Result<Vec<SessionRow>, Error> {
        self.reader.unfinished()
    }

    fn held(&self) -> Result<Vec<SessionRow>, Error> {
        self.reader.held()
    }

    fn ledger(&self) -> Result<Option<BranchId>, Error> {
        self.reader.ledger()
    }

    fn branches(&self) -> Result<Vec<(BranchId, SessionId)>, Error> {
        self.reader.branches()
    }

    fn session(&self, key: &str) -> Result<Option<SessionRow>, Error> {
        self.reader.session(key)
    }

    fn session_of_run(&self, run: RunId) -> Result<Option<SessionRow>, Error> {
        self.reader.session_of_run(run)
    }

    fn runs(&self, session: Option<SessionId>) -> Result<Vec<RunRow>, Error> {
        self.reader.runs(session)
    }

    fn runs_before(
        &self,
        session: Option<SessionId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error> {
        self.reader.runs_before(session, before, limit)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        self.reader.run(run)
    }

    fn receipts(&self, session: SessionId) -> Result<Vec<ReceiptRow>, Error> {
        self.reader.receipts(session)
    }

    fn receipt(&self, message: MessageId) -> Result<Option<ReceiptRow>, Error> {
        self.reader.receipt(message)
    }

    fn receipt_by_key(&self, session: SessionId, key: &str) -> Result<Option<ReceiptRow>, Error> {
        self.reader.receipt_by_key(session, key)
    }

    fn approvals(&self, session: Option<SessionId>) -> Result<Vec<ApprovalRow>, Error> {
        self.reader.approvals(session)
    }

    fn closed_approvals(&self) -> Result<Vec<ApprovalRow>, Error> {
        self.reader.closed_approvals()
    }

    fn closed_approvals_before(
        &self,
        session: Option<SessionId>,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRow>, Error> {
        self.reader.closed_approvals_before(session, before, limit)
    }

    fn closed_approval_calls(&self) -> Result<Vec<CallId>, Error> {
        self.reader.closed_approval_calls()
    }

    fn approval(&self, call: CallId) -> Result<Option<ApprovalRow>, Error> {
        self.reader.approval(call)
    }
}
