//! Chain values that are not stored whole: reading, forking, erasing and appending inside an append.

use std::path::Path;

use engine::{BranchId, Forked, Position, Seq};
use rusqlite::Connection;

use super::check::{look, three};
use super::{add, as_text, own, redact};
use crate::repair::Repairs;
use crate::suite::samples::retracted;
use crate::suite::{Script, id};
use crate::{Entry, Error, Read as _, Reader, Sqlite};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

fn lengths(home: &Path, branch: i64) -> Vec<i64> {
    let sql = "SELECT length(chain) FROM entries WHERE branch = ?1 ORDER BY seq";
    let connection = database(home);
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([branch], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// All entries of a session, and the same home with every hash and every whole chain value.
fn whole(home: &Path, script: &Script) -> Vec<Entry> {
    Reader::open(home).unwrap().read(script.branch, Seq(1)).unwrap()
}

#[test]
fn r18_what_can_be_computed_is_not_stored_and_reads_the_same() {
    let (_folder, home, scripts) = three();
    assert_eq!(lengths(&home, 2), [32, 4, 4, 32], "two appends");
    let before = whole(&home, &scripts[1]);
    as_text(&home);
    assert_eq!(lengths(&home, 2), [32; 4]);
    assert_eq!(whole(&home, &scripts[1]), before);
    assert_eq!(look(&home).findings, vec![]);
    // And an owner of this version continues such rows.
    let (mut script, sqlite) = (scripts[1].clone(), own(&home));
    add(&sqlite, script.batch(vec![retracted(3), retracted(4)], vec![])).unwrap();
    drop(sqlite);
    assert_eq!(lengths(&home, 2), [32, 32, 32, 32, 4, 32]);
    assert_eq!((look(&home).findings, whole(&home, &script).len()), (vec![], 6));
}

#[test]
fn r18_any_part_of_a_branch_is_read_and_verified() {
    let (_folder, home, mut scripts) = three();
    let mut script = scripts.remove(1);
    add(&own(&home), script.batch(vec![retracted(3), retracted(4), retracted(5)], vec![])).unwrap();
    let (reader, all) = (Reader::open(&home).unwrap(), whole(&home, &script));
    for from in 1..=7 {
        for to in from..=7 {
            let part = reader.range(script.branch, Seq(from), Seq(to)).unwrap();
            assert_eq!(part, all[from as usize - 1..to as usize], "{from} to {to}");
        }
    }
    let everything = reader.page(Position(0), 100).unwrap().entries;
    for behind in 0..everything.len() {
        let page = reader.page(Position(behind as u64), 2).unwrap().entries;
        assert!(page.iter().all(|found| found.entry.is_ok()));
        assert_eq!(page, everything[behind..everything.len().min(behind + 2)], "behind {behind}");
    }
    // Damage before the part, in the same append, is damage of the part.
    database(&home).execute("UPDATE entries SET at = at + 1 WHERE branch = 2 AND seq = 5", []).unwrap();
    let error = Reader::open(&home).unwrap().range(script.branch, Seq(6), Seq(6)).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn r17_r18_a_branch_forks_off_and_is_erased_anywhere_in_an_append() {
    for at in 1..=4 {
        let (_folder, home, scripts) = three();
        let script = &scripts[1];
        let hash = whole(&home, script)[at - 1].chain;
        let sqlite = own(&home);
        let mut child = Script { branch: BranchId(id(9)), seq: 0, ..script.clone() };
        let forked = |hash| Forked { parent: script.branch, at: Seq(at as u64), hash };
        let wrong = child.clone().batch(vec![forked(engine::Hash([7; 32])).into()], vec![]);
        assert!(matches!(add(&sqlite, wrong).unwrap_err(), Error::UnknownParent { .. }), "{at}");
        add(&sqlite, child.batch(vec![forked(hash).into(), retracted(7), retracted(8)], vec![])).unwrap();
        drop(sqlite);
        assert_eq!((lengths(&home, 4), look(&home).findings), (vec![4, 4, 32], vec![]), "{at}");
        // The first entry of a fork says itself what it continues.
        let part = Reader::open(&home).unwrap().range(child.branch, Seq(2), Seq(2)).unwrap();
        assert_eq!(part, whole(&home, &child)[1..2]);
        let before = whole(&home, script);
        redact(&home, 2, &[at as u64]);
        assert_eq!(lengths(&home, 2)[at - 1], 32);
        let reader = Reader::open(&home).unwrap();
        let mut chains = vec![];
        let segment = *reader.lineage(script.branch).unwrap().last().unwrap();
        reader
            .walk(&segment, |audited| chains.push((audited.chain, audited.payload_hash, audited.defects.len())))
            .unwrap();
        let expected: Vec<_> = before.iter().map(|entry| (entry.chain, entry.payload_hash, 0)).collect();
        assert_eq!(chains, expected, "{at}");
    }
}

/// R18: only a part of the last append is left, as after a lost page. The mark says that entries are lost; what is there can
/// be accepted, and continues.
#[test]
fn r18_a_home_that_ends_inside_an_append_continues_after_a_repair() {
    let (_folder, home, mut scripts) = three();
    let script = &mut scripts[2];
    let before = whole(&home, script);
    database(&home).execute("DELETE FROM entries WHERE branch = 3 AND seq = 4", []).unwrap();
    assert!(matches!(Sqlite::own(&home).unwrap_err(), Error::Regression { .. }));
    assert_eq!(look(&home).findings.len(), 1);
    Repairs::take(&home).unwrap().loss().unwrap();
    assert_eq!(whole(&home, script), before[..3]);
    script.seq = 3;
    let sqlite = own(&home);
    add(&sqlite, script.batch(vec![retracted(2), retracted(3)], vec![])).unwrap();
    drop(sqlite);
    assert_eq!((lengths(&home, 3), whole(&home, script).len()), (vec![32, 4, 4, 4, 32], 5));
    assert!(look(&home).findings.iter().all(|finding| finding.what != crate::check::What::Entry));
}
