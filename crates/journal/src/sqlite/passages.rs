//! The index of files of memory, in `search.db` beside that of what was said: which passages have which words.
//!
//! It holds no text. A passage is found by the number of its file and its own number, and is read from the file. Files whose stamp
//! differs are indexed again before each search and files that are gone are removed, so the index can be deleted at any time.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::search::{SearchIndex, is_corrupt, unusable};
use crate::Error;

/// The tables. Words are those of Unicode, without accents and without English endings.
pub(super) const TABLES: &str = "
CREATE TABLE memory_files(id INTEGER PRIMARY KEY, folder TEXT NOT NULL, path TEXT NOT NULL, stamp TEXT,
    UNIQUE(folder, path)) STRICT;
CREATE TABLE memory_passages(id INTEGER PRIMARY KEY, file INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;
CREATE INDEX memory_passages_file ON memory_passages(file);
CREATE VIRTUAL TABLE memory_words USING fts5(text, content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2');
";

/// A file of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassageFile {
    /// The folder in which it was found: one of [`PassageSearch::folders`].
    pub folder: String,
    /// Its absolute path.
    pub path: String,
    /// Another one after each change. None if that is not certain: it is indexed again.
    pub stamp: Option<String>,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassageWords {
    /// The words of each passage, in order.
    Passages(Vec<String>),
    /// It cannot be read; it is asked for again at the next search.
    LeftOut,
    /// Nobody waits for the search any more.
    Cancelled,
}

/// A search for passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassageSearch {
    /// The folders that were looked through: a file of one of them that is not among `files` is gone.
    pub folders: Vec<String>,
    /// The files that may be found.
    pub files: Vec<PassageFile>,
    /// Phrases that a passage has all of: words that follow each other.
    pub all: Vec<String>,
    /// Phrases of which it has one or more, if no passage has all of the others.
    pub any: Vec<String>,
    /// How many passages are wanted at most.
    pub most: usize,
}

/// The passages that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassagesFound {
    /// Of each the number of its file in the search and its number in the file, from 0. The best is first.
    pub passages: Vec<(usize, usize)>,
    /// They have only some of the phrases.
    pub is_partial: bool,
}

/// Reads the file of this number.
type WordsOf<'a> = dyn FnMut(usize) -> PassageWords + 'a;

impl SearchIndex {
    /// Searches the passages of files, in the index of a home that is brought up to date before; it is made if it is missing or cannot
    /// be used. `words_of` reads a file whose stamp is not known. May block.
    ///
    /// # Errors
    /// Returns [`Error::Search`] if the index cannot be read or written.
    pub fn find_passages(
        home: &Path,
        search: &PassageSearch,
        words_of: &mut WordsOf<'_>,
    ) -> Result<PassagesFound, Error> {
        let mut index = Self::open(home)?;
        match index.update_and_find(search, words_of) {
            Err(error) if is_corrupt(&error) => {
                index.make_anew()?;
                index.update_and_find(search, words_of)
            }
            found => found,
        }
        .map_err(|error| unusable(index.path(), &error))
    }

    fn update_and_find(
        &mut self,
        search: &PassageSearch,
        words_of: &mut WordsOf<'_>,
    ) -> rusqlite::Result<PassagesFound> {
        let connection = self.connection();
        update(connection, search, words_of)?;
        let passages = matching(connection, search, &search.all, " AND ")?;
        if !passages.is_empty() {
            return Ok(PassagesFound { passages, is_partial: false });
        }
        let passages = matching(connection, search, &search.any, " OR ")?;
        Ok(PassagesFound { is_partial: !passages.is_empty(), passages })
    }
}

/// What the index has of a file.
struct Known {
    id: i64,
    stamp: Option<String>,
}

/// Removes the files that are gone, and indexes those that are new or changed.
fn update(connection: &mut Connection, search: &PassageSearch, words_of: &mut WordsOf<'_>) -> rusqlite::Result<()> {
    let mut known = HashMap::new();
    for folder in &search.folders {
        known.extend(files_of(connection, folder)?);
    }
    let mut changed = vec![];
    for (number, file) in search.files.iter().enumerate() {
        let key = (file.folder.clone(), file.path.clone());
        let is_known = |known: &Known| known.stamp.is_some() && known.stamp == file.stamp;
        if known.get(&key).is_some_and(is_known) {
            known.remove(&key);
        } else {
            changed.push(number);
        }
    }
    // Most searches change nothing, and need not wait for whoever fills the index.
    if changed.is_empty() && known.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for number in changed {
        let file = &search.files[number];
        let passages = match words_of(number) {
            PassageWords::Passages(passages) => passages,
            PassageWords::LeftOut => continue,
            PassageWords::Cancelled => return Ok(()),
        };
        remove(&transaction, file)?;
        known.remove(&(file.folder.clone(), file.path.clone()));
        add(&transaction, file, &passages)?;
    }
    if !known.is_empty() {
        for gone in known.into_values() {
            remove_file(&transaction, gone.id)?;
        }
        // Until then the words would stay in the file.
        transaction.execute("INSERT INTO memory_words(memory_words) VALUES ('optimize')", [])?;
    }
    transaction.commit()
}

fn files_of(connection: &Connection, folder: &str) -> rusqlite::Result<Vec<((String, String), Known)>> {
    let mut statement = connection.prepare_cached("SELECT id, path, stamp FROM memory_files WHERE folder = ?1")?;
    let columns =
        |row: &rusqlite::Row<'_>| Ok(((folder.to_owned(), row.get(1)?), Known { id: row.get(0)?, stamp: row.get(2)? }));
    statement.query_map([folder], columns)?.collect()
}

fn add(connection: &Connection, file: &PassageFile, passages: &[String]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO memory_files(folder, path, stamp) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![file.folder, file.path, file.stamp])?;
    let id = connection.last_insert_rowid();
    for (number, words) in passages.iter().enumerate() {
        let sql = "INSERT INTO memory_passages(file, number) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![id, number as i64])?;
        let sql = "INSERT INTO memory_words(rowid, text) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![connection.last_insert_rowid(), words])?;
    }
    Ok(())
}

/// Removes what the index has of a file now: another process may have indexed it meanwhile.
fn remove(connection: &Connection, file: &PassageFile) -> rusqlite::Result<()> {
    let sql = "SELECT id FROM memory_files WHERE folder = ?1 AND path = ?2";
    let id = connection.prepare_cached(sql)?.query_row([&file.folder, &file.path], |row| row.get(0)).optional()?;
    id.map_or(Ok(()), |id| remove_file(connection, id))
}

fn remove_file(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let words = "DELETE FROM memory_words WHERE rowid IN (SELECT id FROM memory_passages WHERE file = ?1)";
    for sql in [words, "DELETE FROM memory_passages WHERE file = ?1", "DELETE FROM memory_files WHERE id = ?1"] {
        connection.prepare_cached(sql)?.execute([id])?;
    }
    Ok(())
}

/// The best passages with these phrases, of the files of the search alone: those of other folders are in the index too.
fn matching(
    connection: &Connection,
    search: &PassageSearch,
    phrases: &[String],
    operator: &str,
) -> rusqlite::Result<Vec<(usize, usize)>> {
    let numbers: HashMap<(&str, &str), usize> =
        search.files.iter().enumerate().map(|(number, file)| ((&*file.folder, &*file.path), number)).collect();
    // In quotes nothing is an operator of the query language.
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("\"{}\"", phrase.replace('"', "\"\""))).collect();
    let sql = "SELECT folder, path, number FROM memory_words JOIN memory_passages ON memory_passages.id = memory_words.rowid \
               JOIN memory_files ON memory_files.id = file WHERE memory_words MATCH ?1 \
               ORDER BY bm25(memory_words), path, number";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([quoted.join(operator)])?;
    let mut found = vec![];
    while let Some(row) = rows.next()?
        && found.len() < search.most
    {
        let (folder, path): (String, String) = (row.get(0)?, row.get(1)?);
        if let Some(file) = numbers.get(&(&*folder, &*path)) {
            found.push((*file, row.get::<_, i64>(2)? as usize));
        }
    }
    Ok(found)
}
