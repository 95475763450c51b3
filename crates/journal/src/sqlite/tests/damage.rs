//! Corrupt files: each kind is distinguished from the others, and none is changed.

use std::fs;
use std::path::Path;

use engine::{Epoch, Hash, Position, Seq, Timestamp, UnreadableEvent};
use rusqlite::Connection;

use super::{add, filled, home, own};
use crate::chain::{Head, Link};
use crate::suite::Script;
use crate::suite::samples::{retracted, text};
use crate::{Error, Kind, Read as _, Reader, Sqlite};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// The error of owning this home; asserts that the attempt has not changed its database.
fn refused(home: &Path) -> Error {
    let before = fs::read(home.join("journal.db")).unwrap();
    let error = Sqlite::own(home).unwrap_err();
    assert_eq!(fs::read(home.join("journal.db")).unwrap(), before);
    error
}

#[test]
fn a_file_of_another_program_is_foreign() {
    let (_folder, home) = home();
    fs::create_dir_all(&home).unwrap();
    database(&home).execute_batch("CREATE TABLE bookmarks(url TEXT)").unwrap();
    let error = refused(&home);
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(matches!(Reader::open(&home).unwrap_err(), Error::Foreign { .. }));
}

#[test]
fn a_newer_format_is_named() {
    let (_folder, home, _) = filled();
    database(&home).execute_batch("PRAGMA user_version = 3").unwrap();
    let error = refused(&home);
    assert!(matches!(error, Error::Newer { version: 3, known: 2, .. }), "{error}");
    assert_eq!(Reader::open(&home).unwrap_err().kind(), Kind::Newer);
}

#[test]
fn garbage_and_a_truncated_file_are_damage() {
    let (_folder, home, _) = filled();
    let path = home.join("journal.db");
    let whole = fs::read(&path).unwrap();
    let page = 4096;
    assert!(whole.len() > 4 * page);
    for bytes in [vec![0xA5; whole.len()], whole[..2 * page].to_vec(), whole[..page + 100].to_vec()] {
        fs::write(&path, bytes).unwrap();
        let error = refused(&home);
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert_eq!(Reader::open(&home).map(|_| ()).unwrap_err().kind(), Kind::Damaged);
    }
}

#[test]
fn r10_loss_of_acknowledged_entries_is_reported() {
    let (_folder, home, script) = filled();
    let head = Position(script.seq);
    database(&home).execute("DELETE FROM entries WHERE position = ?1", [head.0 as i64]).unwrap();
    let error = Sqlite::own(&home).unwrap_err();
    let lost = Error::Regression { path: home.join("journal.db"), head: Position(head.0 - 1), mark: head };
    assert_eq!((error.kind(), error), (Kind::Damaged, lost));
    // The remaining entries can be read, and the user may continue without the lost ones.
    assert_eq!(Reader::open(&home).unwrap().head(), Ok(Position(head.0 - 1)));
    fs::remove_file(home.join("journal.mark")).unwrap();
    assert_eq!(own(&home).head(), Ok(Position(head.0 - 1)));
}

#[test]
fn r10_a_replaced_journal_is_reported() {
    let (_folder, home, script) = filled();
    fs::remove_file(home.join("journal.db")).unwrap();
    let error = Sqlite::own(&home).unwrap_err();
    assert!(matches!(error, Error::Regression { head: Position(0), mark, .. } if mark.0 == script.seq), "{error}");

    let (_folder, home, _) = filled();
    let mark = fs::read(home.join("journal.mark")).unwrap();
    let other = [mark[..8].to_vec(), vec![9; 32]].concat();
    fs::write(home.join("journal.mark"), other).unwrap();
    assert!(matches!(Sqlite::own(&home).unwrap_err(), Error::Damaged { .. }));
}

#[test]
fn r10_no_journal_is_made_where_an_older_one_was() {
    let (_folder, home, _) = filled();
    fs::remove_file(home.join("journal.db")).unwrap();
    assert!(matches!(Sqlite::own(&home).unwrap_err(), Error::Regression { .. }));
    assert!(!home.join("journal.db").exists(), "nothing is put in the place of what is lost");
    // The WAL of a removed journal would be replayed into a new one.
    fs::remove_file(home.join("journal.mark")).unwrap();
    fs::write(home.join("journal.db-wal"), "what is left of it").unwrap();
    let error = Sqlite::own(&home).unwrap_err();
    assert!(matches!(&error, Error::Damaged { detail, .. } if detail.contains("journal.db-wal")), "{error}");
    assert_eq!(fs::read(home.join("journal.db-wal")).unwrap(), b"what is left of it");
    assert!(!home.join("journal.db").exists());
}

#[test]
fn r18_any_change_in_an_entry_is_found() {
    let changes = [
        "payload = replace(payload, 'acme', 'evil')",
        "payload = NULL",
        "payload_hash = zeroblob(32)",
        "chain = zeroblob(32)",
        "at = at + 1",
        "epoch = epoch + 1",
        "version = 2",
        "kind = 'paused'",
        "seq = 900",
    ];
    let shapes: [fn(&Path); 2] = [super::as_text, super::as_short_text];
    for (change, shape) in changes.into_iter().flat_map(|change| shapes.map(|shape| (change, shape))) {
        let (_folder, home, script) = filled();
        shape(&home);
        let sql = format!("UPDATE entries SET {change} WHERE kind = 'override_set'");
        assert_eq!(database(&home).execute(&sql, []).unwrap(), 1);
        let error = own(&home).read(script.branch, Seq(1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{change}: {error}");
    }
    let (_folder, home, script) = filled();
    assert_eq!(database(&home).execute("DELETE FROM entries WHERE kind = 'paused'", []).unwrap(), 1);
    assert!(matches!(own(&home).read(script.branch, Seq(1)).unwrap_err(), Error::Damaged { .. }));
}

#[test]
fn a_changed_body_or_view_is_found() {
    let (_folder, home, script) = filled();
    let body = text("a body: \u{1f980} \"quoted\"\n").body.hash;
    assert!(own(&home).body(&body).unwrap().is_some());
    database(&home).execute_batch("UPDATE bodies SET content = 'x'; UPDATE progress SET effect = 'x'").unwrap_err();
    database(&home).execute_batch("UPDATE bodies SET content = x'00'; UPDATE progress SET kind = 'x'").unwrap();
    let sqlite = own(&home);
    assert!(matches!(sqlite.body(&body), Err(Error::Damaged { .. })));
    assert!(matches!(sqlite.progress(script.branch), Err(Error::Damaged { .. })));
}

#[test]
fn an_unknown_kind_closes_its_own_session_alone() {
    let (_folder, home, script) = filled();
    let sqlite = own(&home);
    let mut other = Script::new(2);
    add(&sqlite, other.begin()).unwrap();
    let last = sqlite.read(script.branch, Seq(script.seq)).unwrap().remove(0);
    drop(sqlite);
    // An entry of a newer version: its kind is unknown here, its chain is correct.
    let (payload, at) = ("{\"later\":true}", Timestamp(5));
    let payload_hash = Hash::of(payload.as_bytes());
    let link = Link { epoch: Epoch(2), at, kind: "dreamt", version: 1, payload_hash };
    let head = Head { seq: last.seq, chain: last.chain }.next(script.branch, &link);
    let sql = "INSERT INTO entries SELECT max(position) + 1, 1, ?1, 2, 5, 'dreamt', 1, ?2, ?3, ?4, NULL FROM entries";
    let row = rusqlite::params![head.seq.0 as i64, payload, payload_hash.0, head.chain.0];
    database(&home).execute(sql, row).unwrap();

    let sqlite = own(&home);
    let error = sqlite.read(script.branch, Seq(1)).unwrap_err();
    let unknown = UnreadableEvent::Kind { kind: "dreamt".to_owned() };
    assert_eq!(error, Error::Unreadable { branch: script.branch, seq: head.seq, error: unknown });
    assert_eq!(error.kind(), Kind::Newer);
    assert_eq!(sqlite.read(other.branch, Seq(1)).unwrap().len(), 1);
    add(&sqlite, other.batch(vec![retracted(1)], vec![])).unwrap();
}
