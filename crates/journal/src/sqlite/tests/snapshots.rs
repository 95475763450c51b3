//! Corrupt snapshots, and missing entries.

use std::path::Path;

use engine::{Event, Seq, Session, Timestamp};
use rusqlite::Connection;

use super::{add, filled, own, redact};
use crate::suite::Script;
use crate::suite::samples::retracted;
use crate::{Error, Journal as _, Kind, Read as _, Snapshot, Sqlite};

fn change(home: &Path, sql: &str) {
    Connection::open(home.join("journal.db")).unwrap().execute_batch(sql).unwrap();
}

/// Keeps some bytes as a snapshot of this entry.
fn keep(sqlite: &Sqlite, script: &Script, seq: u64) {
    let Event::Created(created) = script.created() else { unreachable!() };
    let mut session = Session::created(&created, Timestamp(1));
    session.account.head = Seq(seq);
    sqlite.keep_snapshot(Snapshot::new(script.branch, Seq(seq), session.to_snapshot()));
}

/// Waits until the writer has written what was queued.
fn settle(sqlite: &Sqlite, script: &mut Script) {
    add(sqlite, script.batch(vec![retracted(1)], vec![])).unwrap();
}

#[test]
fn r10_a_damaged_snapshot_is_named_and_the_entries_are_not_harmed() {
    for damage in ["content = x'00'", "state_hash = zeroblob(32)", "content = zeroblob(length(content))"] {
        let (_folder, home, mut script) = filled();
        let sqlite = own(&home);
        keep(&sqlite, &script, 9);
        settle(&sqlite, &mut script);
        drop(sqlite);
        change(&home, &format!("UPDATE snapshots SET {damage}"));
        let sqlite = own(&home);
        let error = sqlite.line(script.branch).unwrap_err();
        assert!(matches!(error, Error::DamagedSnapshot { seq: Seq(9), .. }), "{damage}: {error}");
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(error.to_string().contains("limulus doctor"), "{error}");
        assert_eq!(sqlite.history(script.branch).unwrap().entries().count() as u64, script.seq);
    }
}

#[test]
fn r18_after_removed_entries_the_line_starts_at_their_snapshot_which_stays() {
    let (_folder, home, mut script) = filled();
    let sqlite = own(&home);
    keep(&sqlite, &script, 9);
    settle(&sqlite, &mut script);
    drop(sqlite);
    redact(&home, 1, &[9]);
    change(&home, "DELETE FROM entries WHERE seq < 9");

    let sqlite = own(&home);
    let whole = sqlite.history(script.branch).unwrap();
    assert_eq!(whole.start.as_ref().map(|start| start.session.account.head), Some(Seq(9)));
    assert_eq!(whole.entries().count() as u64, script.seq - 9);
    assert_eq!(sqlite.read(script.branch, Seq(10)).unwrap().len() as u64, script.seq - 9);
    assert_eq!(sqlite.read(script.branch, Seq(1)), Err(Error::Erased { branch: script.branch, seq: Seq(9) }));
    keep(&sqlite, &script, 12);
    keep(&sqlite, &script, 14);
    settle(&sqlite, &mut script);
    assert_eq!(sqlite.snapshots(script.branch).unwrap(), [Seq(9), Seq(14)]);
    let line = sqlite.line(script.branch).unwrap();
    assert_eq!(line.start.as_ref().map(|start| start.session.account.head), Some(Seq(14)));
    let whole = sqlite.history(script.branch).unwrap();
    assert_eq!(whole.start.as_ref().map(|start| start.session.account.head), Some(Seq(9)));
}

#[test]
fn r18_an_erased_entry_needs_a_snapshot_behind_it() {
    let (_folder, home, mut script) = filled();
    let sqlite = own(&home);
    keep(&sqlite, &script, 9);
    settle(&sqlite, &mut script);
    drop(sqlite);
    redact(&home, 1, &[5]);
    let sqlite = own(&home);
    assert_eq!(sqlite.line(script.branch).unwrap().entries().count() as u64, script.seq - 9);
    let whole = sqlite.history(script.branch).unwrap();
    assert_eq!(whole.start.as_ref().map(|start| start.session.account.head), Some(Seq(9)));
    drop(sqlite);

    redact(&home, 1, &[11]);
    let sqlite = own(&home);
    let erased = |seq| Err(Error::Erased { branch: script.branch, seq: Seq(seq) });
    assert_eq!(sqlite.line(script.branch), erased(11));
    assert_eq!(sqlite.history(script.branch), erased(11));
    assert_eq!(sqlite.range(script.branch, Seq(6), Seq(10)).unwrap().len(), 5);
}

#[test]
fn r10_missing_entries_before_the_requested_one_are_damage() {
    let (_folder, home, script) = filled();
    change(&home, "DELETE FROM entries WHERE seq < 9");
    let sqlite = own(&home);
    for from in [1, 9] {
        let error = sqlite.read(script.branch, Seq(from)).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    assert!(sqlite.read(script.branch, Seq(script.seq + 5)).unwrap().is_empty());
}
