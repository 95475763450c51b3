//! Homes of an older format: of this one, beside which later ones are invented, and of the first one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use engine::{Position, Seq};
use faulty_vfs::{Cut, Disk, Fault, What};
use rusqlite::{Connection, OpenFlags, Transaction};

use super::super::home::Owned;
use super::super::migrations::{Step, Target};
use super::super::{Opened, opened};
use super::{filled, own};
use crate::suite::Script;
use crate::{Error, Kind, Read as _, Reader};

fn add_column(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch("ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")
}

fn rewrite_all(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE times(position INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT; \
         INSERT INTO times SELECT position, at FROM entries; UPDATE sessions SET pinned = 1",
    )
}

fn fails(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch("UPDATE sessions SET pinned = 2; SELECT 1 FROM nowhere")
}

/// A format two versions later.
const LATER: Target =
    Target { version: 4, steps: &[Step { from: 2, run: add_column }, Step { from: 3, run: rewrite_all }] };

/// Takes the home as a program of that format would.
fn take(home: &Path, target: &Target) -> Result<Position, Error> {
    let owned = Owned::take(home)?;
    let Opened { connection, head: (position, _) } = opened(&owned, target)?;
    connection.close().map_err(|(_, error)| error).map(|()| position).map_err(super::super::failed(home))
}

fn number(file: &Path, sql: &str) -> i64 {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn version(home: &Path) -> i64 {
    number(&home.join("journal.db"), "PRAGMA user_version")
}

fn copies(home: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("journal.db.v")).collect()
}

/// Asserts that a home is completely in the old format or in the new one; returns its version.
fn whole(home: &Path, script: &Script) -> i64 {
    let file = home.join("journal.db");
    let integrity = "SELECT integrity_check = 'ok' FROM pragma_integrity_check";
    assert_eq!(number(&file, integrity), 1);
    assert_eq!(number(&file, "SELECT count(*) FROM entries"), script.seq as i64);
    let tables = number(&file, "SELECT count(*) FROM sqlite_schema WHERE name = 'times'");
    let columns = number(&file, "SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'pinned'");
    let version = version(home);
    match version {
        2 => assert_eq!((tables, columns), (0, 0)),
        4 => {
            assert_eq!((tables, columns), (1, 1));
            assert_eq!(number(&file, "SELECT count(*) FROM times"), script.seq as i64);
            assert_eq!(number(&file, "SELECT count(*) FROM sessions WHERE pinned = 1"), 1);
        }
        other => panic!("format {other}"),
    }
    version
}

#[test]
fn r10_an_older_home_is_migrated_after_a_copy_is_kept() {
    let (_folder, home, script) = filled();
    assert_eq!(take(&home, &LATER), Ok(Position(script.seq)));
    assert_eq!(whole(&home, &script), 4);
    let copies = copies(&home);
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(fs::metadata(&copies[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!home.join("journal.copy").exists());
    // Once migrated, it is opened as it is.
    take(&home, &LATER).unwrap();
    assert_eq!(super::migrations::copies(&home), copies);
    // The copy is the old journal, and this program, which is older now, refuses the new one.
    assert!(matches!(Reader::open(&home).unwrap_err(), Error::Newer { version: 4, known: 2, .. }));
    fs::rename(&copies[0], home.join("journal.db")).unwrap();
    assert_eq!(whole(&home, &script), 2);
    assert_eq!(own(&home).read(script.branch, Seq(1)).unwrap().len() as u64, script.seq);
}

#[test]
fn a_reader_of_an_older_home_says_who_migrates_it() {
    let (_folder, home, _) = filled();
    Connection::open(home.join("journal.db")).unwrap().execute_batch("PRAGMA user_version = 0").unwrap();
    let error = Reader::open(&home).unwrap_err();
    assert!(matches!(error, Error::Older { version: 0, known: 2, .. }), "{error}");
    assert_eq!(error.kind(), Kind::Older);
    assert!(error.to_string().contains("limulus resume"), "{error}");
    // No format comes before the first, so no migration starts there.
    assert!(matches!(take(&home, &super::super::migrations::THIS), Err(Error::Damaged { .. })));
    assert_eq!((version(&home), copies(&home).len()), (0, 0));
}

#[test]
fn r10_a_step_that_fails_changes_nothing() {
    const STEPS: &[Step] = &[Step { from: 2, run: add_column }, Step { from: 3, run: fails }];
    let (_folder, home, script) = filled();
    take(&home, &Target { version: 4, steps: STEPS }).unwrap_err();
    assert_eq!((whole(&home, &script), copies(&home).len()), (2, 0), "nor does it leave a copy");
    take(&home, &Target { version: 4, steps: &STEPS[..1] }).unwrap_err();
    assert_eq!(whole(&home, &script), 2);
    assert_eq!(own(&home).read(script.branch, Seq(1)).unwrap().len() as u64, script.seq);
}

/// An owner refuses it and names the doctor, so the doctor must not name an owner.
#[test]
fn r10_r18_a_damaged_home_of_an_older_format_is_reported_not_sent_back() {
    let (_folder, home, _) = filled();
    let change = |sql: &str| Connection::open(home.join("journal.db")).unwrap().execute_batch(sql).unwrap();
    change("PRAGMA user_version = 1");
    let check = || crate::check::check(&home, &mut |_| ());
    assert!(matches!(check().unwrap_err(), Error::Older { .. }));
    change("DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)");
    let findings = check().unwrap().findings;
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((finding.what, &finding.repair), (crate::check::What::Lost, &None));
    assert!(finding.detail.contains("the limulus that wrote it"), "{finding:#?}");
    let refused = take(&home, &super::super::migrations::THIS).unwrap_err();
    assert!(matches!(refused, Error::Regression { .. }), "{refused}");
}

#[test]
fn r10_lost_entries_are_detected_before_any_migration() {
    let (_folder, home, script) = filled();
    let sql = "DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)";
    Connection::open(home.join("journal.db")).unwrap().execute(sql, []).unwrap();
    let lost = take(&home, &LATER).unwrap_err();
    assert!(matches!(lost, Error::Regression { mark, .. } if mark.0 == script.seq), "{lost}");
    assert_eq!((version(&home), copies(&home).len()), (2, 0));
}

#[test]
fn r10_r11_a_kill_at_any_operation_of_a_migration_changes_nothing() {
    let (mut old, mut new) = (0, 0);
    for at in 1.. {
        let (folder, home, script) = filled();
        let disk = Disk::install(&home).unwrap();
        disk.plan(Fault::at(at, What::Crash));
        let taken = take(&home, &LATER);
        let cut = folder.path().join("cut");
        disk.power_cut(Cut::Torn { seed: at }, &cut).unwrap();
        let reached = disk.is_crashed();
        disk.heal();
        drop(disk);
        if !reached {
            assert_eq!(taken, Ok(Position(script.seq)));
            assert!(at > 50, "only {at} operations");
            break;
        }
        for home in [&home, &cut] {
            match whole(home, &script) {
                2 => old += 1,
                _ => new += 1,
            }
            // The next owner migrates what is left to migrate; there is a copy of what it replaces.
            assert_eq!(take(home, &LATER), Ok(Position(script.seq)), "operation {at}");
            assert_eq!(whole(home, &script), 4, "operation {at}");
            assert!(!copies(home).is_empty());
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}
