//! The index of what was said, in `search.db` beside the journal: which texts may hold some words.
//!
//! It holds no text, only which three characters occur in which body (and which words in which passage of a file of memory:
//! `passages.rs`); a hit is looked up in the journal, so what was
//! erased there is found nowhere. It is never the truth: it is filled from the journal up to a stored entry, and if it is
//! missing, corrupt or of another journal, it is made anew. The owner and readers fill it alike.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use engine::{Body, BranchId, Event, Hash, Position, Seq, SessionId, Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, TransactionBehavior, params};
use uuid::Uuid;

use super::{home, passages, schema};
use crate::{DeletedConversation, Error, Read};

/// The name of the file.
const FILE: &str = "search.db";
/// The version of its tables. An index of another one is made anew.
const VERSION: i64 = 3;
/// Entries of the journal in one transaction.
const ENTRIES: usize = 500;
/// The largest text that is read for the index, bytes: of a longer one only this much is found.
const TEXT_BYTES: usize = 1 << 20;
/// The shortest word that the index knows, characters.
pub const WORD_CHARS: usize = 3;

const TABLES: &str = "
CREATE TABLE reached(position INTEGER NOT NULL, chain BLOB NOT NULL) STRICT;
INSERT INTO reached VALUES (0, x'');
CREATE TABLE texts(id INTEGER PRIMARY KEY, session BLOB NOT NULL, hash BLOB NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE INDEX texts_session ON texts(session);
CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram');
";

/// The index of a home.
#[derive(Debug)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Connection,
}

/// A text that may hold the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct IndexedText {
    /// Its number in the index: later texts have higher ones.
    pub id: i64,
    pub session: SessionId,
    pub hash: Hash,
    /// When it was said.
    pub at: Timestamp,
}

impl SearchIndex {
    /// Opens the index of a home; makes it if it is missing or cannot be used.
    pub fn open(home: &Path) -> Result<Self, Error> {
        let path = home.join(FILE);
        match Self::connect(&path) {
            Ok(Some(connection)) => Ok(Self { path, connection }),
            Ok(None) => Self::anew(path),
            Err(error) if is_corrupt(&error) => Self::anew(path),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// The connection; none if the tables are of another version, or if it is a link: what that leads to may be a database of
    /// somebody else. The link goes, not what it leads to.
    fn connect(path: &Path) -> rusqlite::Result<Option<Connection>> {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            return Ok(None);
        }
        let mut connection = Connection::open(path)?;
        // What was said is its user's alone. An index that cannot be made private can still be used: so is its folder.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(home::PRIVATE_FILE));
        connection.busy_timeout(schema::BUSY)?;
        // What is removed is overwritten.
        connection.pragma_update(None, "secure_delete", true)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(passages::TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.commit()?;
        Ok((version == 0 || version == VERSION).then_some(connection))
    }

    fn anew(path: PathBuf) -> Result<Self, Error> {
        remove(&path)?;
        let connection = Self::connect(&path).map_err(|error| unusable(&path, &error))?;
        let connection = connection.expect("a new file has the tables of this version");
        Ok(Self { path, connection })
    }

    /// Makes it anew. The connection to the old file is closed first.
    pub(super) fn make_anew(&mut self) -> Result<(), Error> {
        let path = self.path.clone();
        self.connection = Connection::open_in_memory().map_err(|error| unusable(&path, &error))?;
        *self = Self::anew(path)?;
        Ok(())
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what the journal holds and the index does not, at most so many times 500 entries. True once nothing is left.
    pub fn fill(&mut self, read: &dyn Read, times: usize) -> Result<bool, Error> {
        let mut sessions = None;
        for _ in 0..times {
            match self.add(read, &mut sessions) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(Failed::Index(error)) if is_corrupt(&error) => self.make_anew()?,
                Err(Failed::Index(error)) => return Err(unusable(&self.path, &error)),
                Err(Failed::Journal(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Adds one page; true if there is nothing more.
    fn add(&mut self, read: &dyn Read, sessions: &mut Option<HashMap<BranchId, SessionId>>) -> Result<bool, Failed> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let reached = reached(&transaction, read)?;
        let page = read.page(reached, ENTRIES)?;
        let Some(last) = page.entries.last() else { return Ok(true) };
        for entry in &page.entries {
            // What cannot be read is reported elsewhere.
            let Ok(of) = &entry.entry else { continue };
            let Some(body) = said(&of.event) else { continue };
            if sessions.is_none() {
                *sessions = Some(read.branches()?.into_iter().collect());
            }
            let session = sessions.as_ref().and_then(|sessions| sessions.get(&entry.branch));
            let (Some(session), Some(text)) = (session, read.body(&body.hash)?) else { continue };
            let text = String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES)]);
            let sql = "INSERT INTO texts(session, hash, at) VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![session.0.as_bytes(), body.hash.0, of.at.0])?;
            let id = transaction.last_insert_rowid();
            transaction.prepare_cached("INSERT INTO words(rowid, text) VALUES (?1, ?2)")?.execute(params![id, text])?;
        }
        let chain = last.entry.as_ref().map(|entry| entry.chain.0.to_vec()).unwrap_or_default();
        transaction.execute("UPDATE reached SET position = ?1, chain = ?2", params![last.position.0 as i64, chain])?;
        transaction.commit()?;
        Ok(page.entries.len() < ENTRIES)
    }

    /// The latest texts before one, or of all, that may hold these words. Words that are too short are not looked at:
    /// without any other, these are simply the latest texts.
    pub fn candidates(&self, words: &[String], before: Option<i64>, limit: usize) -> Result<Vec<IndexedText>, Error> {
        let (before, limit) = (before.unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let parts: Vec<String> = words.iter().flat_map(|word| trigrams(word)).collect();
        let found = if parts.is_empty() {
            let sql = "SELECT id, session, hash, at FROM texts WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
            self.rows(sql, params![before, limit])
        } else {
            let sql = "SELECT id, session, hash, at FROM words JOIN texts ON texts.id = words.rowid \
                       WHERE words MATCH ?3 AND words.rowid < ?1 ORDER BY words.rowid DESC LIMIT ?2";
            self.rows(sql, params![before, limit, parts.join(" AND ")])
        };
        found.map_err(|error| unusable(&self.path, &error))
    }

    fn rows(&self, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<Vec<IndexedText>> {
        let columns = |row: &rusqlite::Row<'_>| {
            let (session, hash) = (SessionId(Uuid::from_bytes(row.get(1)?)), Hash(row.get(2)?));
            Ok(IndexedText { id: row.get(0)?, session, hash, at: Timestamp(row.get(3)?) })
        };
        self.connection.prepare_cached(sql)?.query_map(parameters, columns)?.collect()
    }

    /// Removes the texts of a deleted conversation. An index that cannot be changed is removed: it is made anew when it is
    /// needed. May block.
    pub fn forget(home: &Path, read: &dyn Read, of: &DeletedConversation) -> Result<(), Error> {
        let path = home.join(FILE);
        if fs::symlink_metadata(&path).is_err() {
            return Ok(());
        }
        let forget = || -> Result<bool, Failed> {
            let Some(mut connection) = Self::connect(&path)? else { return Ok(false) };
            // Nobody adds a text between what is read here and the commit.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let said_since = said_after(read, of)?;
            let gone = {
                let mut statement = transaction.prepare("SELECT id, hash FROM texts WHERE session = ?1")?;
                let texts =
                    statement.query_map([of.session.0.as_bytes()], |row| Ok((row.get(0)?, Hash(row.get(1)?))))?;
                let texts = texts.collect::<rusqlite::Result<Vec<(i64, Hash)>>>()?;
                texts.into_iter().filter(|(_, hash)| !said_since.contains(hash))
            };
            for (id, _) in gone {
                transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
                transaction.prepare_cached("DELETE FROM texts WHERE id = ?1")?.execute([id])?;
            }
            // Until then the parts of its words would stay in the file.
            transaction.execute("INSERT INTO words(words) VALUES ('optimize')", [])?;
            transaction.commit()?;
            Ok(true)
        };
        match forget() {
            Ok(true) => Ok(()),
            Ok(false) | Err(Failed::Index(_)) => remove(&path),
            Err(Failed::Journal(error)) => Err(error),
        }
    }

    /// Removes the index, because content was erased.
    pub fn clear(home: &Path) -> Result<(), Error> {
        remove(&home.join(FILE))
    }
}

/// What fails while texts are added.
enum Failed {
    Index(rusqlite::Error),
    Journal(Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Journal(error)
    }
}

/// The entry up to which the journal is in the index. If the journal has another entry there, all is removed.
fn reached(connection: &Connection, read: &dyn Read) -> Result<Position, Failed> {
    let columns = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let reached = connection.query_row("SELECT position, chain FROM reached", [], columns).optional()?;
    let (position, chain) = reached.unwrap_or_default();
    if position == 0 {
        return Ok(Position(0));
    }
    let there = read.page(Position(position as u64 - 1), 1)?.entries.into_iter().next();
    let is_same = there.is_some_and(|there| {
        // Of an entry that cannot be read nothing is known.
        let is_chain = there.entry.map_or(true, |entry| chain.is_empty() || entry.chain.0[..] == chain[..]);
        there.position.0 >= position as u64 && (is_chain || there.position.0 > position as u64)
    });
    if is_same {
        return Ok(Position(position as u64));
    }
    connection.execute_batch(
        "DELETE FROM texts; INSERT INTO words(words) VALUES ('delete-all'); DELETE FROM reached; \
         INSERT INTO reached VALUES (0, x'')",
    )?;
    Ok(Position(0))
}

/// What was said in the session since its conversation was deleted.
fn said_after(read: &dyn Read, of: &DeletedConversation) -> Result<HashSet<Hash>, Error> {
    let (mut said_since, mut from, last) = (HashSet::new(), Seq(of.until.0 + 1), read.last(of.branch)?);
    while from <= last {
        let until = Seq(last.0.min(from.0 + ENTRIES as u64 - 1));
        let page = read.range(of.branch, from, until)?;
        said_since.extend(page.iter().filter_map(|entry| said(&entry.event)).map(|body| body.hash));
        from = Seq(until.0 + 1);
    }
    Ok(said_since)
}

/// The text of an entry that a person would look for: what a user or the model said, and titles.
fn said(event: &Event) -> Option<Body> {
    match event {
        Event::MessageAccepted(e) => Some(e.body),
        Event::MessageSealed(e) => e.text,
        Event::SessionLabelled(e) => e.title,
        Event::TitleEnded(e) => e.text,
        _ => None,
    }
}

/// The parts of a word that the index knows, as terms of a query.
fn trigrams(word: &str) -> impl Iterator<Item = String> + use<> {
    let letters: Vec<char> = word.chars().collect();
    let parts: Vec<String> = letters.windows(WORD_CHARS).map(|part| part.iter().collect()).collect();
    parts.into_iter().map(|part: String| format!("\"{}\"", part.replace('"', "\"\"")))
}

fn remove(path: &Path) -> Result<(), Error> {
    for suffix in ["", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Search { path: path.to_owned(), detail: error.to_string() });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Whether the file is damaged, or holds something else: an error without a code is a value of another form.
pub(super) fn is_corrupt(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_none_or(|code| matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown))
}

pub(super) fn unusable(path: &Path, error: &rusqlite::Error) -> Error {
    Error::Search { path: path.to_owned(), detail: error.to_string() }
}
