//! Repairs of the files of a home: copies of changed files are kept, the repair reports what it did, and the next check
//! finds nothing.

use std::fs;
use std::path::Path;

use engine::{Position, Seq};
use rusqlite::Connection;

use super::check::{killed, three};
use super::own;
use crate::check::{Repair, What, check};
use crate::repair::Repairs;
use crate::suite::Script;
use crate::{Error, Journal as _, Read as _, Sqlite};

/// The findings, except those of views: the scripts here record no rows of them.
fn found(home: &Path) -> Vec<What> {
    let findings = check(home, &mut |_| ()).unwrap().findings;
    findings.iter().map(|finding| finding.what).filter(|what| *what != What::Views).collect()
}

/// The file of the home whose name has this prefix.
fn kept(home: &Path, beginning: &str) -> Vec<u8> {
    let mut files = fs::read_dir(home).unwrap().map(|file| file.unwrap());
    let file = files.find(|file| file.file_name().to_string_lossy().starts_with(beginning));
    fs::read(file.unwrap_or_else(|| panic!("nothing begins with {beginning}")).path()).unwrap()
}

#[test]
fn r10_accepting_a_loss_sets_the_mark_and_keeps_a_copy_of_the_old_one() {
    let (_folder, home) = killed(&mut Script::new(1));
    let mark = fs::read(home.join("journal.mark")).unwrap();
    fs::remove_file(home.join("journal.db-wal")).unwrap();
    assert_eq!(found(&home), [What::Lost]);
    let did = Repairs::take(&home).unwrap().loss().unwrap().join("\n");
    assert!(did.contains("the mark now says position 1") && did.contains("positions 2 to 2"), "{did}");
    assert_eq!(kept(&home, "journal.mark.before-"), mark);
    assert_eq!(found(&home), []);
    assert_eq!(own(&home).head(), Ok(Position(1)));
}

#[test]
fn r10_an_invalid_mark_closes_the_home_until_it_is_repaired() {
    let (_folder, home, _) = three();
    fs::write(home.join("journal.mark"), b"half a mark").unwrap();
    assert!(matches!(Sqlite::own(&home), Err(Error::Damaged { .. })));
    assert_eq!(fs::read(home.join("journal.mark")).unwrap(), b"half a mark");
    let did = Repairs::take(&home).unwrap().loss().unwrap().join("\n");
    assert!(did.contains("the mark now says position 12"), "{did}");
    assert_eq!(kept(&home, "journal.mark.damaged-"), b"half a mark");
    assert_eq!(found(&home), []);
}

#[test]
fn r10_a_stale_wal_is_kept_under_another_name() {
    let (_folder, dead) = killed(&mut Script::new(1));
    let (_folder, home, _) = three();
    fs::copy(dead.join("journal.db-wal"), home.join("journal.db-wal")).unwrap();
    assert_eq!(found(&home), [What::StaleWal]);
    Repairs::take(&home).unwrap().wal().unwrap();
    assert_eq!(kept(&home, "journal.db-wal.stale-"), fs::read(dead.join("journal.db-wal")).unwrap());
    assert_eq!(found(&home), []);
    assert_eq!(own(&home).head(), Ok(Position(12)));
}

#[test]
fn r10_readable_rows_are_exported_and_the_old_file_is_kept() {
    let (_folder, home, scripts) = three();
    let sqlite = own(&home);
    let mut long = Script::new(4);
    super::add(&sqlite, long.begin()).unwrap();
    for n in 0..120 {
        super::add(&sqlite, long.batch(vec![crate::suite::samples::retracted(n)], vec![])).unwrap();
    }
    let head = sqlite.head().unwrap();
    let middle = sqlite.read(long.branch, Seq(60)).unwrap()[0].chain;
    drop(sqlite);
    let path = home.join("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    // A page in the middle of the long session.
    let at = bytes.windows(32).position(|window| window == middle.0);
    let page = at.expect("it is in there") / 4096 * 4096;
    bytes[page] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    assert!(found(&home).contains(&What::Pages), "{:?}", found(&home));
    let did = Repairs::take(&home).unwrap().export(&mut |_| ()).unwrap().join("\n");
    assert!(did.contains("nothing could be read at positions"), "{did}");
    assert_eq!(kept(&home, "journal.db.damaged-"), bytes);
    // Only one session has lost something; the others are intact, and nothing else is wrong.
    assert_eq!(found(&home), [What::Entry], "{did}");
    let sqlite = own(&home);
    assert_eq!(sqlite.head(), Ok(head), "{did}");
    assert_eq!(sqlite.read(scripts[0].branch, Seq(1)).unwrap().len(), 4);
    assert!(sqlite.epoch().0 > 2, "no owner's number is used twice");
}

#[test]
fn a_home_that_is_owned_is_not_repaired() {
    let (_folder, home, _) = three();
    let _owner = own(&home);
    assert!(matches!(Repairs::take(&home), Err(Error::Owned { .. })));
}

/// Everything is as in a new journal, except for what the SQL has done.
#[test]
fn r10_r18_missing_tables_and_rows_are_found_and_rebuilt() {
    let cases = [
        ("DROP TABLE view_approvals", What::Tables, "view_approvals", Repair::Views),
        ("DROP INDEX view_sessions_unfinished", What::Tables, "view_sessions_unfinished", Repair::Views),
        ("ALTER TABLE view_runs RENAME COLUMN state TO status", What::Tables, "view_runs", Repair::Views),
        ("DROP TABLE snapshots", What::Tables, "snapshots", Repair::Export),
        ("DELETE FROM owner", What::Tables, "0 rows", Repair::Export),
        ("INSERT INTO owner SELECT * FROM owner", What::Tables, "2 rows", Repair::Export),
        ("UPDATE sessions SET key = 'agent:main:other' WHERE rowid = 2", What::Rows, "agent:main:other", Repair::Views),
        ("UPDATE sessions SET branch = 1 WHERE rowid = 2", What::Rows, "another session", Repair::Views),
        ("DELETE FROM sessions WHERE rowid = 2", What::Rows, "its row is missing", Repair::Views),
    ];
    for (sql, what, part, repair) in cases {
        let (_folder, home, scripts) = three();
        Connection::open(home.join("journal.db")).unwrap().execute_batch(sql).unwrap();
        let findings = check(&home, &mut |_| ()).unwrap().findings;
        let finding = findings.iter().find(|finding| finding.what == what);
        let finding = finding.unwrap_or_else(|| panic!("{sql}: {findings:#?}"));
        assert!(finding.detail.contains(part), "{sql}: {}", finding.detail);
        assert_eq!(finding.repair.as_ref(), Some(&repair), "{sql}");
        if what == What::Rows {
            assert_eq!(finding.place.session.as_ref(), Some(&scripts[1].key), "{sql}");
        }
        let repairs = Repairs::take(&home).unwrap();
        let did = if repair == Repair::Views { repairs.tables() } else { repairs.export(&mut |_| ()) };
        did.unwrap_or_else(|error| panic!("{sql}: {error}"));
        drop(repairs);
        let sqlite = own(&home);
        assert_eq!(sqlite.rebuild_views().unwrap(), [], "{sql}");
        assert!(sqlite.epoch().0 >= 2, "{sql}: no owner's number is used twice");
        drop(sqlite);
        assert_eq!(found(&home), [], "{sql}");
    }
}

/// If another session has taken the key, it keeps the key, and the check reports that.
#[test]
fn r10_a_session_whose_key_is_taken_is_reported_and_not_repaired() {
    let (_folder, home, scripts) = three();
    let connection = Connection::open(home.join("journal.db")).unwrap();
    connection.execute("DELETE FROM sessions WHERE rowid = 2", []).unwrap();
    connection.execute("UPDATE sessions SET key = ?1 WHERE rowid = 3", [&scripts[1].key]).unwrap();
    drop(connection);
    let report = check(&home, &mut |_| ()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("another session has that key")), "{:?}", report.notes);
    assert!(report.findings.iter().any(|finding| finding.what == What::Rows), "{:#?}", report.findings);
    // The other session gets its own key back first; then this key is free.
    for _ in 0..2 {
        Repairs::take(&home).unwrap().tables().unwrap();
    }
    assert_eq!(found(&home), []);
}

#[test]
fn r10_lost_rows_are_reported_from_the_first_position_on() {
    let (_folder, home, scripts) = three();
    let path = home.join("journal.db");
    let root: i64 = {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'", [], |row| row.get(0)).unwrap()
    };
    let mut bytes = fs::read(&path).unwrap();
    bytes[(root as usize - 1) * 4096] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let did = Repairs::take(&home).unwrap().export(&mut |_| ()).unwrap().join("\n");
    assert!(did.contains("entries: 0 rows copied; nothing could be read at positions 1 to 12"), "{did}");
    // A session of which only its row is left is corrupt, and its key is not free.
    let error = own(&home).session(&scripts[0].key).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Damaged, "{error}");
}

#[test]
fn r10_an_empty_mark_is_reported() {
    let (_folder, home, _) = three();
    let notes = || check(&home, &mut |_| ()).unwrap().notes.join("\n");
    assert_eq!(notes(), "");
    for forget in [|path: &Path| fs::write(path, "").unwrap(), |path: &Path| fs::remove_file(path).unwrap()] {
        forget(&home.join("journal.mark"));
        assert!(notes().contains("what was acknowledged last is not known"), "{}", notes());
        assert_eq!(found(&home), []);
    }
}
