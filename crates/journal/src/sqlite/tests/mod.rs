//! Tests of files, processes and groups, which only the SQLite journal has. Tests of both journals are in `suite`.

mod anchored;
mod check;
mod damage;
mod group;
mod migrations;
mod ownership;
mod packed;
mod repair;
mod retain;
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
