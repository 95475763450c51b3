//! The erasure of a deleted conversation.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use engine::{Content, Epoch, Event, Hash, Seq, SessionLabelled, Visibility};
use faulty_vfs::{Cut, Disk, Fault, What};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::{add, home, own};
use crate::suite::Script;
use crate::suite::samples::{accepted, text};
use crate::{DeletedConversation, ErasedConversation, Journal as _, Read as _, SearchIndex, Sqlite};

const OLD: [&str; 3] = ["said twice", "said before the tide", "a third"];

fn says(sqlite: &Sqlite, script: &mut Script, words: &str) -> Content {
    let body = text(words);
    add(sqlite, script.batch(vec![accepted(body.body)], vec![body.clone()])).unwrap();
    body
}

/// A session that said all of `OLD`, was deleted, and then said the first of it again and something new.
fn deleted(sqlite: &Sqlite) -> (DeletedConversation, Vec<Content>, Content) {
    let mut script = Script::new(1);
    add(sqlite, script.begin()).unwrap();
    let old = OLD.map(|words| says(sqlite, &mut script, words)).to_vec();
    let deleted = SessionLabelled { title: None, visibility: Some(Visibility::Deleted), erasure: None };
    add(sqlite, script.batch(vec![Event::from(deleted)], vec![])).unwrap();
    let of = DeletedConversation { session: script.session, branch: script.branch, until: Seq(script.seq) };
    says(sqlite, &mut script, OLD[0]);
    let new = says(sqlite, &mut script, "said after the tide");
    (of, old, new)
}

pub(super) fn erased(sqlite: &Sqlite, of: DeletedConversation) -> ErasedConversation {
    sqlite.erase_conversation(of, &AtomicBool::new(false)).unwrap().expect("nobody stops it")
}

fn has(sqlite: &Sqlite, body: &Content) -> bool {
    sqlite.body(&body.body.hash).unwrap().is_some()
}

fn indexed(home: &Path, sqlite: &Sqlite) -> Vec<Hash> {
    let mut index = SearchIndex::open(home).unwrap();
    while !index.fill(sqlite, 1).unwrap() {}
    index.candidates(&["tide".to_owned()], None, 9).unwrap().into_iter().map(|text| text.hash).collect()
}

/// Which snapshots of the branch there are.
fn snapshots(home: &Path, of: &DeletedConversation) -> Vec<i64> {
    let database = Connection::open(home.join("journal.db")).unwrap();
    let sql = "SELECT seq FROM snapshots WHERE branch = (SELECT id FROM branches WHERE uuid = ?1) ORDER BY seq";
    let mut statement = database.prepare(sql).unwrap();
    statement.query_map([of.branch.0.as_bytes()], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn r21_an_erasure_takes_the_old_conversation_and_nothing_of_the_next_one() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let (of, old, new) = deleted(&sqlite);
    for seq in [of.until.0 - 1, of.until.0] {
        let sql = "INSERT INTO snapshots SELECT id, ?2, x'00', x'00' FROM branches WHERE uuid = ?1";
        let database = Connection::open(home.join("journal.db")).unwrap();
        database.execute(sql, params![of.branch.0.as_bytes(), seq as i64]).unwrap();
    }
    assert_eq!(indexed(&home, &sqlite), [new.body.hash, old[1].body.hash]);
    assert_eq!(sqlite.erase_conversation(of, &AtomicBool::new(true)), Ok(None), "it stops when it is told to");
    assert!(old.iter().all(|body| has(&sqlite, body)));
    assert_eq!(erased(&sqlite, of).collected.bodies, 2);
    SearchIndex::forget(&home, &sqlite, &of).unwrap();
    assert_eq!(old.iter().map(|body| has(&sqlite, body)).collect::<Vec<_>>(), [true, false, false]);
    assert!(has(&sqlite, &new));
    assert_eq!(indexed(&home, &sqlite), [new.body.hash]);
    // The older snapshot still named what was said.
    assert_eq!(snapshots(&home, &of), [of.until.0 as i64]);
    assert_eq!(erased(&sqlite, of).collected.bodies, 0, "once is enough");
}

/// What an owner left that died while it erased.
struct Killed {
    _folder: TempDir,
    /// The home as it is, and as a loss of power would have left it.
    homes: [PathBuf; 2],
    of: DeletedConversation,
    old: Vec<Content>,
    new: Content,
}

/// Kills an owner at this operation; none if it had ended by then.
fn killed_at(at: u64) -> Option<Killed> {
    let (folder, home) = home();
    let (of, old, new) = {
        let sqlite = own(&home);
        let made = deleted(&sqlite);
        indexed(&home, &sqlite);
        made
    };
    let disk = Disk::install(&home).unwrap();
    let sqlite = own(&home);
    disk.plan(Fault::at(at, What::Crash));
    let erased = sqlite.erase_conversation(of, &AtomicBool::new(false));
    let cut = folder.path().join("cut");
    disk.power_cut(Cut::Torn { seed: at }, &cut).unwrap();
    let reached = disk.is_crashed();
    drop(sqlite);
    disk.heal();
    assert!(reached || erased.is_ok_and(|erased| erased.is_some_and(|erased| erased.collected.bodies == 2)));
    reached.then(|| Killed { _folder: folder, homes: [home, cut], of, old, new })
}

#[test]
fn r11_r21_an_erasure_that_is_killed_at_any_operation_is_completed_by_the_next_owner() {
    let mut whole = 0;
    let mut kills = 0;
    while let Some(Killed { _folder, homes, of, old, new }) = killed_at(kills + 1) {
        kills += 1;
        for home in homes {
            let sqlite = own(&home);
            assert!(sqlite.epoch() > Epoch(1));
            whole += usize::from(has(&sqlite, &old[1]));
            erased(&sqlite, of);
            SearchIndex::forget(&home, &sqlite, &of).unwrap();
            let left: Vec<_> = old.iter().map(|body| has(&sqlite, body)).collect();
            assert_eq!(left, [true, false, false], "after a kill at operation {kills}");
            assert!(has(&sqlite, &new), "after a kill at operation {kills}");
            assert_eq!(indexed(&home, &sqlite), [new.body.hash], "after a kill at operation {kills}");
        }
    }
    assert!(kills > 0 && whole > 0, "{kills} kills, {whole} before anything was erased");
}
