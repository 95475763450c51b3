//! Removal: entries before an anchor, bodies that nothing names, progress that no entry will seal.

use std::fs;
use std::path::Path;

use engine::{
    BranchId, Content, EffectId, EffectKind, Event, Forked, Hash, Position, ReceiptRow, RunId, Seq, TextAdded,
    Timestamp,
};
use faulty_vfs::{Cut, Disk, Fault, What};
use rusqlite::{Connection, params};

use super::super::collect::Collection;
use super::super::encode::json;
use super::super::rows::columns_of_receipt;
use super::{add, filled, home, own};
use crate::Journal as _;
use crate::suite::samples::{accepted, receipt_row, retracted, text};
use crate::suite::{Script, id};
use crate::{Collected, Error, Old, Read as _, Reader, Sqlite};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// A body that no entry names.
fn orphan(home: &Path, name: &str) -> Content {
    let content = text(name);
    let sql = "INSERT INTO bodies(hash, kind, size, encoding, content) VALUES (?1, 'message', ?2, 'raw', ?3)";
    database(home).execute(sql, params![content.body.hash.0, content.bytes.len() as i64, &content.bytes[..]]).unwrap();
    content
}

/// A snapshot at this entry whose state names these bodies.
fn snapshot(home: &Path, branch: BranchId, seq: u64, bodies: &[Hash]) {
    let state = serde_json::json!({ "version": 1, "session": { "bodies": bodies } }).to_string();
    let content = zstd::encode_all(state.as_bytes(), 3).unwrap();
    let sql = "INSERT INTO snapshots SELECT id, ?2, ?3, ?4 FROM branches WHERE uuid = ?1";
    let row = params![branch.0.as_bytes(), seq as i64, Hash::of(state.as_bytes()).0, content];
    assert_eq!(database(home).execute(sql, row).unwrap(), 1);
}

/// A session with this many messages, each with its body.
fn talked(home: &Path, messages: u64) -> (Sqlite, Script, Vec<Content>) {
    let (sqlite, mut script) = (own(home), Script::new(1));
    add(&sqlite, script.begin()).unwrap();
    let bodies: Vec<Content> = (0..messages).map(|n| text(&format!("message {n}"))).collect();
    for body in &bodies {
        add(&sqlite, script.batch(vec![accepted(body.body)], vec![body.clone()])).unwrap();
    }
    (sqlite, script, bodies)
}

fn has(sqlite: &Sqlite, content: &Content) -> bool {
    sqlite.body(&content.body.hash).unwrap().is_some()
}

#[test]
fn r10_only_unreferenced_content_is_collected() {
    let (_folder, home) = home();
    let (sqlite, mut script, named) = talked(&home, 3);
    let gone = [orphan(&home, "one"), orphan(&home, "another")];
    let (kept, named_late) = (orphan(&home, "in a snapshot"), orphan(&home, "named again"));
    snapshot(&home, script.branch, 4, &[kept.body.hash]);
    let in_a_view = orphan(&home, "in a view");
    let row = format!("{{\"body\":\"{}\"}}", in_a_view.body.hash);
    database(&home).execute("INSERT INTO view_receipts VALUES (x'01', x'02', NULL, ?1, NULL)", [row]).unwrap();
    drop(sqlite);

    let sqlite = own(&home);
    add(&sqlite, script.batch(vec![accepted(named_late.body)], vec![])).unwrap();
    let young = orphan(&home, "younger than its owner");
    let youngest = orphan(&home, "the youngest");
    let bytes = gone.iter().map(|body| body.bytes.len() as u64).sum();
    assert_eq!(sqlite.collect(), Ok(Collected { bodies: 2, bytes, progress: 0 }));
    assert!(gone.iter().all(|body| !has(&sqlite, body)));
    for body in named.iter().chain([&kept, &named_late, &in_a_view, &young, &youngest]) {
        assert!(has(&sqlite, body), "{:?}", String::from_utf8_lossy(&body.bytes));
    }
    assert_eq!(sqlite.collect(), Ok(Collected::default()));
    // The next owner finds it old enough; the youngest of all always stays.
    drop(sqlite);
    let sqlite = own(&home);
    assert_eq!(sqlite.collect().map(|collected| collected.bodies), Ok(1));
    assert!(!has(&sqlite, &young) && has(&sqlite, &youngest));
    assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap().len() as u64, script.seq);
}

#[test]
fn r10_thousands_of_bodies_are_collected_in_batches() {
    let (_folder, home) = home();
    let (sqlite, mut script, _) = talked(&home, 1);
    let bodies: Vec<Content> = (0..2500).map(|n| text(&format!("named {n}"))).collect();
    let events = bodies.iter().map(|body| accepted(body.body)).collect();
    add(&sqlite, script.batch(events, bodies.clone())).unwrap();
    let sql = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500) \
               INSERT INTO bodies SELECT randomblob(32), 'message', 3, 'raw', x'010203' FROM n";
    assert_eq!(database(&home).execute(sql, []).unwrap(), 2500);
    let last = text("the last one stays");
    add(&sqlite, script.batch(vec![accepted(last.body)], vec![last])).unwrap();
    drop(sqlite);
    let sqlite = own(&home);
    assert_eq!(sqlite.collect(), Ok(Collected { bodies: 2500, bytes: 7500, progress: 0 }));
    assert!(bodies.iter().all(|body| has(&sqlite, body)));
}

#[test]
fn r10_progress_of_a_run_that_has_ended_is_collected() {
    let (_folder, home, mut script) = filled();
    let sqlite = own(&home);
    let open = EffectId { run: RunId(id(78)), kind: EffectKind::Request, ordinal: 1, try_no: 1 };
    let open: Event = TextAdded { effect: open, offset: 0, text: "still open".to_owned() }.into();
    add(&sqlite, script.batch(vec![open.clone()], vec![])).unwrap();
    let before = sqlite.progress(script.branch).unwrap().len() as u64;
    assert_eq!(sqlite.collect().map(|collected| collected.progress), Ok(before - 1));
    let left: Vec<Event> = sqlite.progress(script.branch).unwrap().into_iter().map(|record| record.event).collect();
    assert_eq!(left, [open]);
}

/// R10: appends wait for a step, so no step reads all entries that may have closed the progress.
#[test]
fn r10_what_closed_the_progress_is_looked_up_in_steps() {
    let (_folder, home, mut script) = filled();
    let sqlite = own(&home);
    let sql = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3500) INSERT INTO entries(position, \
               branch, seq, epoch, at, kind, version, payload, payload_hash, chain) \
               SELECT 1000 + n, 1, 1000 + n, 1, 0, 'stream_cut', 1, '{}', x'', zeroblob(32) FROM n";
    assert_eq!(database(&home).execute(sql, []).unwrap(), 3500);
    let steps = || {
        let (mut collection, mut steps) = (Collection::new(&sqlite.collectable), 1);
        while collection.step(&database(&home), &home.join("journal.db")).unwrap().is_none() {
            steps += 1;
        }
        steps
    };
    steps();
    let without = steps();
    let open = EffectId { run: RunId(id(78)), kind: EffectKind::Request, ordinal: 1, try_no: 1 };
    script.seq = 4500;
    add(&sqlite, script.batch(vec![TextAdded { effect: open, offset: 0, text: "open".to_owned() }.into()], vec![]))
        .unwrap();
    assert!(sqlite.progress(script.branch).unwrap().len() == 1 && steps() > without + 3, "3,500 entries are read");
    assert_eq!(sqlite.progress(script.branch).unwrap().len(), 1);
}

#[test]
fn a_collection_starts_again_if_entries_are_removed_meanwhile() {
    let (_folder, home) = home();
    let (sqlite, script, _) = talked(&home, 3);
    let named_by_snapshot = orphan(&home, "named by what is removed");
    let last = orphan(&home, "the last one stays");
    drop(sqlite);
    let (sqlite, mut script) = (own(&home), script);
    let path = home.join("journal.db");
    let connection = database(&home);
    let mut collection = Collection::new(&sqlite.collectable);
    // Entries, two views, their end, snapshots: everything is read, and no body collected.
    for _ in 0..5 {
        assert_eq!(collection.step(&connection, &path), Ok(None));
    }
    add(&sqlite, script.batch(vec![accepted(named_by_snapshot.body), retracted(1)], vec![])).unwrap();
    snapshot(&home, script.branch, script.seq, &[named_by_snapshot.body.hash]);
    assert_eq!(sqlite.anchor(script.branch, Seq(script.seq)), Ok(script.seq - 1));
    while collection.step(&connection, &path).unwrap().is_none() {}
    assert!(has(&sqlite, &named_by_snapshot) && has(&sqlite, &last));
}

#[test]
fn r10_r18_entries_before_an_anchor_are_removed_and_the_chain_continues() {
    let (_folder, home) = home();
    let (sqlite, mut script, bodies) = talked(&home, 6);
    let whole = sqlite.read(script.branch, Seq(1)).unwrap();
    snapshot(&home, script.branch, 5, &[bodies[3].body.hash]);
    assert_eq!(sqlite.anchor(script.branch, Seq(5)), Ok(4));
    assert_eq!(sqlite.read(script.branch, Seq(1)), Err(Error::Erased { branch: script.branch, seq: Seq(5) }));
    assert_eq!(sqlite.read(script.branch, Seq(6)).unwrap(), whole[5..]);
    assert_eq!(sqlite.read(script.branch, Seq(7)).unwrap(), whole[6..]);
    add(&sqlite, script.batch(vec![retracted(1)], vec![])).unwrap();
    // A branch can fork off at the anchor, and not before it.
    let fork = |at: usize| {
        let forked = Forked { parent: script.branch, at: whole[at].seq, hash: whole[at].chain };
        let mut fork = Script { branch: BranchId(id(9 + at as u128)), seq: 0, ..script.clone() };
        add(&sqlite, fork.batch(vec![forked.into()], vec![]))
    };
    assert!(matches!(fork(3), Err(Error::UnknownParent { .. })));
    assert_eq!(fork(4), Ok(Position(9)));
    drop(sqlite);

    let sqlite = own(&home);
    assert_eq!(sqlite.read(script.branch, Seq(6)).unwrap().len(), 3);
    add(&sqlite, script.batch(vec![retracted(2)], vec![])).unwrap();
    // Bodies that only removed entries named are collected; bodies that the snapshot names are not.
    assert_eq!(sqlite.collect().map(|collected| collected.bodies), Ok(3));
    assert!(has(&sqlite, &bodies[3]) && !has(&sqlite, &bodies[2]));
}

#[test]
fn an_anchor_needs_a_whole_snapshot_and_nothing_that_leaves_before_it() {
    let (_folder, home) = home();
    let (sqlite, script, _) = talked(&home, 6);
    let whole = sqlite.read(script.branch, Seq(1)).unwrap();
    let refused = |seq| {
        let refused = sqlite.anchor(script.branch, Seq(seq));
        assert_eq!(refused, Err(Error::NoAnchor { branch: script.branch, seq: Seq(seq) }));
        assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap(), whole);
    };
    refused(5);
    snapshot(&home, script.branch, 5, &[]);
    refused(4);
    refused(99);
    database(&home).execute("UPDATE snapshots SET state_hash = zeroblob(32)", []).unwrap();
    refused(5);
    database(&home).execute("DELETE FROM snapshots", []).unwrap();
    snapshot(&home, script.branch, 5, &[]);
    let mut fork = Script { branch: BranchId(id(5)), seq: 0, ..script.clone() };
    let forked = Forked { parent: script.branch, at: Seq(3), hash: whole[2].chain };
    add(&sqlite, fork.batch(vec![forked.into()], vec![])).unwrap();
    refused(5);
    snapshot(&home, script.branch, 3, &[]);
    assert_eq!(sqlite.anchor(script.branch, Seq(3)), Ok(2));
}

#[test]
fn r10_a_mark_that_lags_names_nothing_that_was_removed() {
    let (_folder, home) = home();
    let (sqlite, script, _) = talked(&home, 6);
    snapshot(&home, script.branch, 5, &[]);
    drop(sqlite);
    // The loss of power took the last marks with it.
    let first = own(&home).read(script.branch, Seq(1)).unwrap().remove(0);
    fs::write(home.join("journal.mark"), [&1_u64.to_le_bytes()[..], &first.chain.0].concat()).unwrap();
    assert_eq!(own(&home).anchor(script.branch, Seq(5)), Ok(4));
    assert_eq!(own(&home).read(script.branch, Seq(6)).unwrap().len(), 2);
}

#[test]
fn r10_r11_a_kill_while_entries_are_removed_leaves_all_or_the_retained_ones() {
    let (mut all, mut rest) = (0, 0);
    for at in 1.. {
        let (folder, home) = home();
        let (sqlite, script, _) = talked(&home, 6);
        snapshot(&home, script.branch, 5, &[]);
        drop(sqlite);
        let disk = Disk::install(&home).unwrap();
        disk.watch("journal.mark");
        let sqlite = own(&home);
        disk.plan(Fault::at(at, What::Crash));
        let anchored = sqlite.anchor(script.branch, Seq(5));
        let cut = folder.path().join("cut");
        disk.power_cut(Cut::Torn { seed: at }, &cut).unwrap();
        let reached = disk.is_crashed();
        drop(sqlite);
        disk.heal();
        drop(disk);
        if !reached {
            assert_eq!(anchored, Ok(4));
            break;
        }
        for home in [&home, &cut] {
            let sqlite = own(home);
            assert_eq!(sqlite.read(script.branch, Seq(6)).unwrap().len(), 2);
            match sqlite.read(script.branch, Seq(1)) {
                Ok(entries) if entries.len() == 7 => all += 1,
                Err(Error::Erased { seq: Seq(5), .. }) => rest += 1,
                other => panic!("{other:?} after a kill at operation {at}"),
            }
        }
    }
    assert!(all > 0 && rest > 0, "{all} whole, {rest} anchored");
}

#[test]
fn an_old_collection_does_not_reach_a_home_of_another_owner() {
    let (_folder, home) = home();
    let (sqlite, script, _) = talked(&home, 3);
    snapshot(&home, script.branch, 2, &[]);
    orphan(&home, "one");
    database(&home).execute("UPDATE owner SET epoch = epoch + 1", []).unwrap();
    assert!(matches!(sqlite.collect(), Err(Error::Fenced { .. })));
    assert!(matches!(sqlite.anchor(script.branch, Seq(2)), Err(Error::Fenced { .. })));
    assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap().len(), 4);
}

/// Erases what only entries before this time name; these states need some of it.
fn erase(sqlite: &Sqlite, before: i64, states: &[&Content]) -> Result<Collected, Error> {
    let states: Vec<Vec<u8>> =
        states.iter().map(|body| format!("{{\"x\":\"{}\"}}", body.body.hash).into_bytes()).collect();
    let old = Old { before: Timestamp(before), states: &states };
    let expected = Reader::open(&sqlite.home)?.erasable(&old)?;
    let erased = sqlite.erase(&old)?;
    assert_eq!(expected, erased, "the preview is what is done");
    Ok(erased)
}

#[test]
fn r21_only_content_named_by_old_entries_alone_is_erased() {
    let (_folder, home) = home();
    let (sqlite, mut script, bodies) = talked(&home, 6);
    let before = script.at + 1;
    // Named by an old entry and by a recent one.
    let late = text("said late");
    add(&sqlite, script.batch(vec![accepted(late.body), accepted(bodies[1].body)], vec![late.clone()])).unwrap();
    let in_a_view = format!("{{\"body\":\"{}\"}}", bodies[3].body.hash);
    database(&home).execute("INSERT INTO view_receipts VALUES (x'01', x'02', NULL, ?1, NULL)", [in_a_view]).unwrap();
    snapshot(&home, script.branch, 4, &[bodies[4].body.hash]);
    drop(sqlite);

    let sqlite = own(&home);
    assert_eq!(erase(&sqlite, 0, &[]), Ok(Collected::default()), "nothing is so old");
    let bytes = [&bodies[0], &bodies[5]].iter().map(|body| body.bytes.len() as u64).sum();
    assert_eq!(erase(&sqlite, before, &[&bodies[2]]), Ok(Collected { bodies: 2, bytes, progress: 0 }));
    let gone: Vec<bool> = bodies.iter().map(|body| !has(&sqlite, body)).collect();
    assert_eq!(gone, [true, false, false, false, false, true]);
    assert!(has(&sqlite, &late));
    assert_eq!(erase(&sqlite, before, &[&bodies[2]]), Ok(Collected::default()), "once is enough");
    // No entry was removed, nothing is damaged, and named bodies are not collected.
    assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap().len() as u64, script.seq);
    assert_eq!(sqlite.collect(), Ok(Collected::default()));
    assert_eq!(database(&home).query_row("SELECT count(*) FROM bodies", [], |row| row.get::<_, u32>(0)), Ok(7));

    // Content that is appended again exists again.
    let again = bodies[0].clone();
    add(&sqlite, script.batch(vec![accepted(again.body)], vec![again])).unwrap();
    assert!(has(&sqlite, &bodies[0]) && !has(&sqlite, &bodies[5]));
    assert_eq!(sqlite.body(&bodies[0].body.hash).unwrap().as_deref(), Some(&bodies[0].bytes[..]));
}

#[test]
fn r21_what_a_packed_row_names_is_kept_whatever_the_key_of_its_message() {
    let (_folder, home) = home();
    let (sqlite, script, bodies) = talked(&home, 6);
    let before = script.at + 1;
    for (n, body) in bodies.iter().enumerate() {
        // A key that every hash contains.
        let key = body.body.hash.to_string()[5..6].to_owned();
        let row = ReceiptRow { body: body.body, ..receipt_row(&script, 70 + n as u128, Some(&key)) };
        let packed = columns_of_receipt(&row).pack(json(&row));
        assert!(packed.packed().is_some(), "{packed:?}");
        let sql = "INSERT INTO view_receipts VALUES (?1, ?2, ?3, '', ?4)";
        let ids = (row.message.0.as_bytes(), row.session.0.as_bytes());
        database(&home).execute(sql, params![ids.0, ids.1, key, packed.packed()]).unwrap();
    }
    drop(sqlite);
    let sqlite = own(&home);
    assert_eq!(erase(&sqlite, before, &[]), Ok(Collected::default()), "each is named by a row");
}

#[test]
fn r21_a_kill_while_content_is_erased_leaves_each_whole_or_gone() {
    let (mut whole, mut gone) = (0, 0);
    for at in 1.. {
        let (folder, home) = home();
        let (sqlite, script, bodies) = talked(&home, 4);
        drop(sqlite);
        let disk = Disk::install(&home).unwrap();
        let sqlite = own(&home);
        disk.plan(Fault::at(at, What::Crash));
        let erased = sqlite.erase(&Old { before: Timestamp(script.at + 1), states: &[] });
        let cut = folder.path().join("cut");
        disk.power_cut(Cut::Torn { seed: at }, &cut).unwrap();
        let reached = disk.is_crashed();
        drop(sqlite);
        disk.heal();
        drop(disk);
        if !reached {
            assert_eq!(erased.map(|erased| erased.bodies), Ok(3), "the youngest stays");
            break;
        }
        for home in [&home, &cut] {
            let sqlite = own(home);
            assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap().len(), 5);
            let left = bodies.iter().filter(|body| has(&sqlite, body)).count();
            assert!(left == 4 || left == 1, "{left} after a kill at operation {at}: it is one transaction");
            (whole, gone) = (whole + usize::from(left == 4), gone + usize::from(left == 1));
        }
    }
    assert!(whole > 0 && gone > 0, "{whole} whole, {gone} erased");
}
