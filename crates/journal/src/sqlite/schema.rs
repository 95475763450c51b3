//! The format: tables, their version, and the checks when a journal is opened.

use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;

use engine::mutant;
use engine::{Epoch, Hash, Position, Timestamp};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{dictionaries, failed, home, stored};
use crate::Error;

/// The application id in the header of `journal.db`: `LIMU`.
pub(super) const APPLICATION_ID: i64 = 0x4C49_4D55;
/// The format version that this program reads and writes.
pub(super) const USER_VERSION: i64 = 2;
/// How long to wait for another program that has the file locked.
pub(super) const BUSY: Duration = Duration::from_secs(5);
/// How many statements stay prepared; there are about 30.
const STATEMENTS: usize = 64;

/// UUIDs are 16-byte blobs, hashes 32-byte blobs, times milliseconds since 1970 UTC, effects and calls their text. A
/// view has the columns that lists query by; `row` is the whole row as JSON. JSON is in `packed` instead if that is
/// smaller. `packed` is the last column, as in migrated journals: an export copies whole rows.
const TABLES: &str = "
CREATE TABLE owner(
    epoch INTEGER NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL, started_at INTEGER NOT NULL) STRICT;
CREATE TABLE branches(
    id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE, kind TEXT NOT NULL CHECK (kind IN ('session', 'ledger')),
    session BLOB, parent INTEGER REFERENCES branches(id), parent_seq INTEGER, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE sessions(
    uuid BLOB PRIMARY KEY NOT NULL, key TEXT NOT NULL UNIQUE, branch INTEGER NOT NULL REFERENCES branches(id)) STRICT;
CREATE TABLE entries(
    position INTEGER PRIMARY KEY, branch INTEGER NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
    at INTEGER NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL, payload TEXT, payload_hash BLOB NOT NULL,
    chain BLOB NOT NULL, packed BLOB, UNIQUE(branch, seq)) STRICT;
CREATE TABLE progress(
    branch INTEGER NOT NULL, effect TEXT NOT NULL, offset INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
    bytes BLOB NOT NULL, PRIMARY KEY(branch, effect, offset)) STRICT, WITHOUT ROWID;
CREATE TABLE bodies(
    hash BLOB PRIMARY KEY NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL,
    encoding TEXT NOT NULL CHECK (encoding IN ('raw', 'zstd')), content BLOB) STRICT;
CREATE TABLE snapshots(
    branch INTEGER NOT NULL, seq INTEGER NOT NULL, state_hash BLOB NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY(branch, seq)) STRICT;
INSERT INTO owner VALUES (0, 0, '', 0);
";

/// The dictionaries that packed content names.
const DICTIONARIES: &str =
    "CREATE TABLE IF NOT EXISTS dictionaries(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT";

/// The views. Each can be rebuilt from the entries.
const VIEWS: &str = "
CREATE TABLE IF NOT EXISTS view_sessions(
    session BLOB PRIMARY KEY NOT NULL, key TEXT NOT NULL, unfinished INTEGER NOT NULL, row TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS view_sessions_key ON view_sessions(key);
CREATE INDEX IF NOT EXISTS view_sessions_unfinished ON view_sessions(unfinished) WHERE unfinished;
CREATE TABLE IF NOT EXISTS view_runs(
    run BLOB PRIMARY KEY NOT NULL, session BLOB NOT NULL, state TEXT NOT NULL, row TEXT NOT NULL, packed BLOB) STRICT;
CREATE INDEX IF NOT EXISTS view_runs_session ON view_runs(session);
CREATE TABLE IF NOT EXISTS view_receipts(
    message BLOB PRIMARY KEY NOT NULL, session BLOB NOT NULL, key TEXT, row TEXT NOT NULL, packed BLOB) STRICT;
CREATE INDEX IF NOT EXISTS view_receipts_session ON view_receipts(session, key);
CREATE TABLE IF NOT EXISTS view_approvals(
    call TEXT PRIMARY KEY NOT NULL, session BLOB NOT NULL, open INTEGER NOT NULL, row TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS view_approvals_open ON view_approvals(session) WHERE open;
";

/// The kind of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A journal that this program reads.
    Known,
    /// A journal of this older format.
    Older(i64),
    /// A database without tables, in which a journal is created.
    Empty,
}

/// Opens the owner's connection; creates a journal if there is none. A journal of an older format is not changed.
pub(super) fn open(path: &Path, known: i64) -> Result<(Connection, Format), Error> {
    if is_missing(path) {
        create(path)?;
    }
    let connection = Connection::open(path).map_err(failed(path))?;
    // If the WAL turns out to be another journal's, closing must not checkpoint it into this one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed(path))?;
    connection.busy_timeout(BUSY).map_err(failed(path))?;
    let format = format(&connection, path, known)?;
    if format == Format::Empty {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    configure(&connection).map_err(failed(path))?;
    Ok((connection, format))
}

/// Another connection of the owner, for operations that are not appends. It leaves checkpoints to the writer.
pub(super) fn connect(path: &Path) -> Result<Connection, Error> {
    let connect = || {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(BUSY)?;
        configure(&connection)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(connection)
    };
    connect().map_err(failed(path))
}

/// How a program of the format `known` sees this file; foreign and newer files are errors.
pub(super) fn format(connection: &Connection, path: &Path, known: i64) -> Result<Format, Error> {
    let (application_id, version, objects) = numbers(connection).map_err(failed(path))?;
    if (application_id, version, objects) == (0, 0, 0) {
        return Ok(Format::Empty);
    }
    if application_id != APPLICATION_ID {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    match version.cmp(&known) {
        Ordering::Greater => Err(Error::Newer { path: path.to_owned(), version, known }),
        Ordering::Equal => Ok(Format::Known),
        Ordering::Less => Ok(Format::Older(version)),
    }
}

/// Application id, version and number of objects, read in one transaction: another process may be creating the tables.
fn numbers(connection: &Connection) -> rusqlite::Result<(i64, i64, i64)> {
    let transaction = connection.unchecked_transaction()?;
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get(0));
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?, objects))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    keep_statements(connection)?;
    // What is removed from a page is overwritten there, which costs no page more.
    connection.pragma_update(None, "secure_delete", "FAST")?;
    // A corrupt page must cause an error when it is read, not a wrong row.
    connection.pragma_update(None, "cell_size_check", true)
}

/// Statements stay prepared. Without the second setting SQLite looks at the values of parameters when it plans a
/// statement, and prepares a statement with a limit or a range anew whenever a value is bound.
pub(super) fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// Whether there is no journal: no file, or an empty one.
pub(super) fn is_missing(path: &Path) -> bool {
    !std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
}

/// Creates an empty journal under another name and renames it: it exists completely or not at all, for two syncs.
fn create(path: &Path) -> Result<(), Error> {
    // SQLite would replay the WAL of a removed journal into the new one.
    if !is_missing(&path.with_extension("db-wal")) {
        let detail = "it is missing or empty, but its journal.db-wal exists".to_owned();
        return Err(Error::Damaged { path: path.to_owned(), detail });
    }
    let new = path.with_extension("new");
    home::renew(&new)?;
    fill(&new).map_err(failed(path))?;
    home::put(&new, path)
}

/// Creates missing tables of the views, and their indices.
pub(super) fn make_views(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(VIEWS)
}

/// Writes the dictionaries of this program, and creates their table if it is missing.
pub(super) fn make_dictionaries(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(DICTIONARIES)?;
    dictionaries::write(connection)
}

/// The name of a table or an index, and the names of its columns.
pub(super) type Shape = (String, String);

/// The tables and indices that a journal must have.
pub(super) fn shapes() -> rusqlite::Result<Vec<Shape>> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    connection.execute_batch(DICTIONARIES)?;
    make_views(&connection)?;
    shapes_of(&connection)
}

/// The tables and indices that this journal has.
pub(super) fn shapes_of(connection: &Connection) -> rusqlite::Result<Vec<Shape>> {
    let sql = "SELECT name, (SELECT coalesce(group_concat(name), '') FROM pragma_table_info(s.name)) \
               FROM sqlite_schema s WHERE name NOT LIKE 'sqlite_%' ORDER BY type DESC, name";
    connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn fill(path: &Path) -> rusqlite::Result<()> {
    make(path)?.close().map_err(|(_, error)| error)
}

/// Creates the tables in an empty file that nobody else has open. Nothing is synced.
pub(super) fn make(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    make_dictionaries(&transaction)?;
    make_views(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", USER_VERSION)?;
    transaction.commit()?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    Ok(connection)
}

/// Allows closing to checkpoint the WAL: it holds what was acknowledged.
pub(super) fn trust_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(|_| ())
}

/// The last position, and the chain value of the entry there.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<Option<(Position, Hash)>> {
    stored::place(connection, "ORDER BY position DESC LIMIT 1", [])
}

/// Reads the last entry and checks that the acknowledged entry exists and is the same.
pub(super) fn check_head(
    connection: &Connection,
    path: &Path,
    mark: Option<(Position, Hash)>,
) -> Result<(Position, Hash), Error> {
    let last = last(connection).map_err(failed(path))?;
    let head = last.unwrap_or((Position(0), Hash([0; 32])));
    let Some((position, chain)) = mark else { return Ok(head) };
    if head.0 < position {
        return Err(Error::Regression { path: path.to_owned(), head: head.0, mark: position });
    }
    let kept = stored::place(connection, "WHERE position = ?1", [position.0 as i64]).map_err(failed(path))?;
    match kept {
        Some(kept) if kept == (position, chain) => Ok(head),
        _ => Err(Error::Damaged {
            path: path.to_owned(),
            detail: format!("the entry at position {position} is not the one that was acknowledged"),
        }),
    }
}

/// Writes dictionaries of this program that the journal lacks: a newer program may have more of them.
pub(super) fn complete_dictionaries(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    let complete = |connection: &mut Connection| {
        if dictionaries::missing(connection)?.is_empty() {
            return Ok(());
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        dictionaries::write(&transaction)?;
        transaction.commit()
    };
    complete(connection).map_err(failed(path))
}

/// Becomes the next owner, durably.
pub(super) fn become_owner(connection: &Connection, path: &Path, now: Timestamp) -> Result<Epoch, Error> {
    let strength = if mutant!(DiskEpochNotSynced) { "NORMAL" } else { "FULL" };
    connection.pragma_update(None, "synchronous", strength).map_err(failed(path))?;
    let sql = "UPDATE owner SET epoch = epoch + 1, pid = ?1, host = ?2, started_at = ?3 RETURNING epoch";
    let owner = (std::process::id(), home::host(), now.0);
    // It steps to the end: the commit happens after the row, and `query_row` would miss its failure.
    let damaged = |detail: &str| Error::Damaged { path: path.to_owned(), detail: detail.to_owned() };
    let epoch = connection.query_one(sql, owner, |row| row.get::<_, i64>(0)).map_err(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => damaged("the row of its owner is missing"),
        rusqlite::Error::QueryReturnedMoreThanOneRow => damaged("it has more than one row of an owner"),
        error => failed(path)(error),
    })?;
    Ok(Epoch(epoch as u64))
}
