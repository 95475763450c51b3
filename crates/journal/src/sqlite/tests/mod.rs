//! Tests of files, processes and groups, which only the SQLite journal has. Tests of both journals are in `suite`.

mod anchored;
mod chains;
mod check;
mod damage;
mod erase;
mod group;
mod migrations;
mod ownership;
mod packed;
mod passages;
mod repair;
mod retain;
mod search;
mod snapshots;
mod space;
mod statements;
mod tail;
mod unused;
mod views;

use std::path::PathBuf;

use tempfile::TempDir;

use super::Sqlite;
use crate::suite::{Script, append};
use crate::{Error, Journal as _};

/// A temporary folder, and the home in it.
fn home() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("data").join("home");
    (folder, home)
}

/// Stores everything uncompressed, so that SQL can change it.
fn as_text(home: &std::path::Path) {
    super::store_uncompressed(&home.join("journal.db")).unwrap();
}

/// The same, with hashes and chain values as they are written: not those that can be computed.
fn as_short_text(home: &std::path::Path) {
    let connection = rusqlite::Connection::open(home.join("journal.db")).unwrap();
    let sql = "SELECT position FROM entries WHERE length(chain) < 32";
    let short: Vec<i64> = connection.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().flatten().collect();
    assert!(!short.is_empty());
    as_text(home);
    connection.execute("UPDATE entries SET payload_hash = x''", []).unwrap();
    for position in short {
        let sql = "UPDATE entries SET chain = substr(chain, 1, 4) WHERE position = ?1";
        connection.execute(sql, [position]).unwrap();
    }
}

/// Removes these payloads of a branch, as retention does.
fn redact(home: &std::path::Path, branch: i64, seqs: &[u64]) {
    let connection = rusqlite::Connection::open(home.join("journal.db")).unwrap();
    for seq in seqs {
        super::stored::erase(&connection, branch, engine::Seq(*seq)).unwrap();
    }
}

fn own(home: &std::path::Path) -> Sqlite {
    Sqlite::own(home).unwrap()
}

fn add(sqlite: &Sqlite, batch: engine::Batch) -> Result<engine::Position, Error> {
    append(sqlite, sqlite.epoch(), batch)
}

/// A home with one session of four entries, closed properly.
fn filled() -> (TempDir, PathBuf, Script) {
    let ((folder, home), mut script) = (home(), Script::new(1));
    let sqlite = own(&home);
    add(&sqlite, script.begin()).unwrap();
    let (events, bodies) = crate::suite::samples::every_other_kind();
    add(&sqlite, script.batch(events, bodies)).unwrap();
    (folder, home, script)
}
