//! Files, processes and groups: what only the SQLite journal has. What both have is in `suite`.

mod anchored;
mod check;
mod damage;
mod group;
mod migrations;
mod ownership;
mod repair;
mod rest;
mod retain;
mod snapshots;
mod space;
mod tail;
mod views;

use std::path::PathBuf;

use tempfile::TempDir;

use super::Sqlite;
use crate::suite::{Script, append};
use crate::{Error, Journal as _};

/// A folder that goes away with the test, and the home in it.
fn home() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("data").join("home");
    (folder, home)
}

fn own(home: &std::path::Path) -> Sqlite {
    Sqlite::own(home).unwrap()
}

fn add(sqlite: &Sqlite, batch: engine::Batch) -> Result<engine::Position, Error> {
    append(sqlite, sqlite.epoch(), batch)
}

/// A home with one session of four entries, closed in order.
fn filled() -> (TempDir, PathBuf, Script) {
    let ((folder, home), mut script) = (home(), Script::new(1));
    let sqlite = own(&home);
    add(&sqlite, script.begin()).unwrap();
    let (events, bodies) = crate::suite::samples::every_other_kind();
    add(&sqlite, script.batch(events, bodies)).unwrap();
    (folder, home, script)
}
