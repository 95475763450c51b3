//! Reads a home: for its owner beside the writer, and for other processes without the lock.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::{
    ApprovalRow, BranchId, CallId, Hash, Ledger, MessageId, Position, ReceiptRow, Record, RunId, RunRow, Seq,
    SessionId, SessionRow, Timestamp, Visibility,
};
use rusqlite::{Connection, OpenFlags, Row};
use uuid::Uuid;

use super::dictionaries::Dictionaries;
use super::home::DATABASE;
use super::schema::{self, Format};
use super::{activity, bodies, failed, page, rows, snapshot, tail};
use crate::chain::Head;
use crate::{ByActivity, Entry, Error, Page, Read, Snapshot, Tail};

/// A journal opened for reading; another process may own it.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Mutex<Connection>,
    dictionaries: Dictionaries,
    immutable: bool,
}

/// What a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// The file with its WAL, as its owner does.
    Wal,
    /// The file alone, assuming that it does not change.
    FileAlone,
}

impl Reader {
    /// What [`crate::Journal::erase`] would erase as the next owner. Changes nothing, so it also works beside a running
    /// owner.
    pub fn erasable(&self, old: &crate::Old<'_>) -> Result<crate::Collected, Error> {
        super::collect::erasable(self, old)
    }

    /// Bytes of the file that the journal uses; free pages do not count.
    pub fn used_bytes(&self) -> Result<u64, Error> {
        let sql = "SELECT (page_count - freelist_count) * page_size \
                   FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        self.query(|connection| connection.query_row(sql, [], |row| row.get::<_, i64>(0))).map(|bytes| bytes as u64)
    }

    /// Opens the journal of a home for reading, even if another process owns it.
    ///
    /// If the folder is not writable, SQLite cannot share its index with a writer: then the file is read as immutable,
    /// and [`Reader::is_immutable`] says so.
    pub fn open(home: &Path) -> Result<Self, Error> {
        let path = home.join(DATABASE);
        match path.metadata() {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(Error::Foreign { path }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotFound { home: home.to_owned() });
            }
            Err(error) => return Err(Error::Failed { path, detail: error.to_string() }),
        }
        Self::connect(home, Sees::Wal)
            .and_then(Self::checked)
            .or_else(alone(|| Self::connect(home, Sees::FileAlone).and_then(Self::checked)))
    }

    /// The owner's own reader.
    pub(super) fn beside(home: &Path) -> Result<Self, Error> {
        Self::connect(home, Sees::Wal)?.checked()
    }

    /// A reader for checks of a possibly corrupt journal: it also opens a file that is shorter than its header says.
    pub(super) fn lenient(home: &Path, sees: Sees) -> Result<Self, Error> {
        let open = |sees| {
            let reader = Self::connect(home, sees)?;
            reader.query(|connection| connection.execute_batch("PRAGMA writable_schema = ON"))?;
            reader.checked()
        };
        open(sees).or_else(alone(|| open(Sees::FileAlone)))
    }

    /// Whether the file is read as immutable: then this reader does not see what another process has written since its
    /// last checkpoint.
    pub fn is_immutable(&self) -> bool {
        self.immutable
    }

    /// The row of a session in the views.
    pub(super) fn listed(&self, key: &str) -> Result<Option<SessionRow>, Error> {
        self.query(|connection| rows::one(connection, "view_sessions WHERE key = ?1", [key]))
    }

    fn connect(home: &Path, sees: Sees) -> Result<Self, Error> {
        let path = home.join(DATABASE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match sees {
            Sees::Wal => Connection::open_with_flags(&path, flags),
            Sees::FileAlone => Connection::open_with_flags(immutable_uri(&path), flags | OpenFlags::SQLITE_OPEN_URI),
        };
        let connection = connection.map_err(failed(&path))?;
        connection.busy_timeout(schema::BUSY).map_err(failed(&path))?;
        schema::keep_statements(&connection).map_err(failed(&path))?;
        // A damaged table must not keep anybody from what can be read without it.
        let dictionaries = Dictionaries::read(&connection).unwrap_or_default();
        Ok(Self { path, connection: Mutex::new(connection), dictionaries, immutable: sees == Sees::FileAlone })
    }

    /// Returns this reader, if the file is a journal.
    fn checked(self) -> Result<Self, Error> {
        let format = schema::format(&self.lock(), &self.path, schema::USER_VERSION)?;
        match format {
            Format::Older(version) => Err(Error::Older { path: self.path, version, known: schema::USER_VERSION }),
            Format::Known => Ok(self),
            Format::Empty => {
                let home = self.path.parent().unwrap_or(Path::new("")).to_owned();
                Err(Error::NotFound { home })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn query<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        read(&self.lock()).map_err(|error| match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => self.damaged(error.to_string()),
            error => failed(&self.path)(error),
        })
    }

    pub(super) fn damaged(&self, detail: String) -> Error {
        Error::Damaged { path: self.path.clone(), detail }
    }

    /// The dictionaries that the journal holds.
    pub(super) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// The path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the database file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        self.path.metadata().map_or(0, |meta| meta.len())
    }

    /// The branches of the session with this key, in the order of creation.
    pub fn branches_of(&self, key: &str) -> Result<Vec<BranchId>, Error> {
        let sql = "SELECT b.uuid FROM branches b JOIN sessions s ON s.uuid = b.session WHERE s.key = ?1 ORDER BY b.id";
        let id = |row: &Row<'_>| Ok(BranchId(Uuid::from_bytes(row.get(0)?)));
        self.query(|connection| connection.prepare_cached(sql)?.query_map([key], id)?.collect())
    }

    /// The chain value of a branch before the entry `from`; `None` when there is no entry before it.
    pub(super) fn head_before(&self, branch: BranchId, from: Seq) -> Result<Option<Head>, Error> {
        self.query(|connection| tail::head_before(connection, branch, from))
    }
}

/// The fallback for a folder in which SQLite cannot share its index.
fn alone(open: impl FnOnce() -> Result<Reader, Error>) -> impl FnOnce(Error) -> Result<Reader, Error> {
    |error| match error {
        Error::Unwritable { .. } | Error::Full { .. } => open(),
        error => Err(error),
    }
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            write!(uri, "%{byte:02x}").expect("a String takes whatever is written to it");
        }
    }
    uri.push_str("?immutable=1");
    uri
}

impl Read for Reader {
    fn head(&self) -> Result<Position, Error> {
        let sql = "SELECT coalesce(max(position), 0) FROM entries";
        self.query(|c| c.prepare_cached(sql)?.query_row([], |row| Ok(Position(row.get::<_, i64>(0)? as u64))))
    }

    fn last(&self, branch: BranchId) -> Result<Seq, Error> {
        let sql = "SELECT coalesce(max(seq), 0) FROM entries WHERE branch = (SELECT id FROM branches WHERE uuid = ?1)";
        self.query(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row([branch.0.as_bytes()], |row| Ok(Seq(row.get::<_, i64>(0)? as u64)))
        })
    }

    fn latest(&self) -> Result<Timestamp, Error> {
        let sql = "SELECT max(coalesce((SELECT at FROM entries ORDER BY position DESC LIMIT 1), 0), \
                              coalesce((SELECT max(at) FROM progress), 0))";
        self.query(|c| c.prepare_cached(sql)?.query_row([], |row| Ok(Timestamp(row.get(0)?))))
    }

    fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Result<Vec<Entry>, Error> {
        self.query(|connection| tail::entries(self, connection, branch, from..=until))?
    }

    fn tail(&self, branch: BranchId, from: Seq) -> Result<Tail, Error> {
        tail::tail(self, branch, from, || {})
    }

    fn page(&self, behind: Position, limit: usize) -> Result<Page, Error> {
        page::page(self, behind, limit)
    }

    fn snapshots(&self, branch: BranchId) -> Result<Vec<Seq>, Error> {
        self.query(|connection| snapshot::list(connection, branch))
    }

    fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Option<Snapshot>, Error> {
        let stored = self.query(|connection| snapshot::one(connection, branch, seq))?;
        stored.map(|stored| stored.snapshot(branch, seq)).transpose()
    }

    fn progress(&self, branch: BranchId) -> Result<Vec<Record>, Error> {
        let stored = self.query(|connection| tail::progress(connection, branch))?;
        tail::records(self, &stored)
    }

    fn body(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        Ok(bodies::read(self, std::slice::from_ref(hash))?.pop().flatten())
    }

    fn bodies(&self, hashes: &[Hash]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
        bodies::read(self, hashes)
    }

    fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        self.query(|connection| rows::list(connection, "view_sessions", []))
    }

    fn sessions_before(&self, before: Option<SessionId>, limit: usize) -> Result<Vec<SessionRow>, Error> {
        let before = before.map(|session| *session.0.as_bytes());
        self.query(|connection| rows::sessions_before(connection, before, limit))
    }

    fn sessions_by_activity(
        &self,
        shown: Visibility,
        after: Option<(Timestamp, SessionId)>,
        limit: usize,
    ) -> Result<ByActivity, Error> {
        self.query(|connection| activity::sessions(connection, shown, after, limit))
    }

    fn first_message(&self, session: SessionId, after: Option<Timestamp>) -> Result<(Option<ReceiptRow>, u64), Error> {
        self.query(|c| activity::first_message(c, &self.dictionaries, session, after))
    }

    fn unfinished(&self) -> Result<Vec<SessionRow>, Error> {
        // The index is on the first term.
        self.query(|connection| rows::list(connection, "view_sessions WHERE unfinished AND unfinished = 1", []))
    }

    fn held(&self) -> Result<Vec<SessionRow>, Error> {
        self.query(|connection| rows::list(connection, "view_sessions WHERE unfinished AND unfinished = 2", []))
    }

    fn ledger(&self) -> Result<Option<BranchId>, Error> {
        // By id: ids are consecutive, and a home may have very many branches of sessions.
        let sql = "SELECT 1 FROM branches WHERE uuid = ?1 AND kind = 'ledger'";
        self.query(|connection| {
            let mut is_there = connection.prepare_cached(sql)?;
            let (mut last, mut next) = (None, Ledger::BRANCH);
            while is_there.exists([next.0.as_bytes()])? {
                (last, next) = (Some(next), Ledger::after(next));
            }
            Ok(last)
        })
    }

    fn branches(&self) -> Result<Vec<(BranchId, SessionId)>, Error> {
        // A quarantined branch belongs to no session.
        let sql = "SELECT uuid, session FROM branches WHERE kind = 'session' AND session IN (SELECT uuid FROM sessions) \
                   ORDER BY id";
        let ids =
            |row: &Row<'_>| Ok((BranchId(Uuid::from_bytes(row.get(0)?)), SessionId(Uuid::from_bytes(row.get(1)?))));
        self.query(|connection| connection.prepare_cached(sql)?.query_map([], ids)?.collect())
    }

    fn session(&self, key: &str) -> Result<Option<SessionRow>, Error> {
        let listed = self.listed(key)?;
        let has_row = || self.query(|c| c.prepare_cached("SELECT 1 FROM sessions WHERE key = ?1")?.exists([key]));
        if listed.is_some() || !has_row()? {
            return Ok(listed);
        }
        // It may have been created between the two looks: both rows come in one transaction. If not, no new session may take
        // this key, and the doctor must explain what happened to the old one.
        let listed = self.listed(key)?;
        listed.map(Some).ok_or_else(|| self.damaged(format!("session {key} has no row in the views")))
    }

    fn session_of_run(&self, run: RunId) -> Result<Option<SessionRow>, Error> {
        let of_run = "view_sessions WHERE session = (SELECT session FROM view_runs WHERE run = ?1)";
        self.query(|connection| rows::one(connection, of_run, [run.0.as_bytes()]))
    }

    fn runs(&self, session: Option<SessionId>) -> Result<Vec<RunRow>, Error> {
        self.query(|connection| match session {
            Some(session) => rows::runs(connection, &self.dictionaries, "r.session = ?1", [session.0.as_bytes()]),
            None => rows::runs(connection, &self.dictionaries, "TRUE", []),
        })
    }

    fn runs_before(
        &self,
        session: Option<SessionId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error> {
        let (session, before) = (session.map(|id| *id.0.as_bytes()), before.map(|id| *id.0.as_bytes()));
        self.query(|connection| rows::runs_before(connection, &self.dictionaries, session, before, limit))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        let of_run = |c: &Connection| rows::runs(c, &self.dictionaries, "r.run = ?1", [run.0.as_bytes()]);
        Ok(self.query(of_run)?.pop())
    }

    fn receipts(&self, session: SessionId) -> Result<Vec<ReceiptRow>, Error> {
        self.query(|c| rows::receipts(c, &self.dictionaries, "session = ?1", [session.0.as_bytes()]))
    }

    fn receipt(&self, message: MessageId) -> Result<Option<ReceiptRow>, Error> {
        let receipts = self.query(|c| rows::receipts(c, &self.dictionaries, "message = ?1", [message.0.as_bytes()]))?;
        Ok(receipts.into_iter().next())
    }

    fn receipt_by_key(&self, session: SessionId, key: &str) -> Result<Option<ReceiptRow>, Error> {
        let (condition, of) = ("session = ?1 AND key = ?2", (session.0.as_bytes(), key));
        Ok(self.query(|c| rows::receipts(c, &self.dictionaries, condition, of))?.into_iter().next())
    }

    fn approvals(&self, session: Option<SessionId>) -> Result<Vec<ApprovalRow>, Error> {
        self.query(|connection| match session {
            Some(session) => {
                rows::list(connection, "view_approvals WHERE open AND session = ?1", [session.0.as_bytes()])
            }
            None => rows::list(connection, "view_approvals WHERE open", []),
        })
    }

    fn closed_approvals(&self) -> Result<Vec<ApprovalRow>, Error> {
        self.query(|connection| rows::list(connection, "view_approvals WHERE NOT open", []))
    }

    fn closed_approvals_before(
        &self,
        session: Option<SessionId>,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRow>, Error> {
        let (session, before) = (session.map(|id| *id.0.as_bytes()), before.map(|call| call.to_string()));
        self.query(|connection| rows::closed_approvals_before(connection, session, before.as_deref(), limit))
    }

    fn closed_approval_calls(&self) -> Result<Vec<CallId>, Error> {
        let calls = self.query(rows::closed_approval_calls)?;
        // A name that is none belongs to no call.
        Ok(calls.iter().filter_map(|call| call.parse().ok()).collect())
    }

    fn approval(&self, call: CallId) -> Result<Option<ApprovalRow>, Error> {
        self.query(|connection| rows::one(connection, "view_approvals WHERE call = ?1", [call.to_string()]))
    }
}
