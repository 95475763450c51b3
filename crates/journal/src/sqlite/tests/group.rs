//! Groups: members, durability, the mark, failures.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use engine::{Batch, Epoch, Position, Seq};

use super::{add, home, own};
use crate::suite::Script;
use crate::suite::samples::{accepted, retracted, text, text_added};
use crate::{Append, Error, Journal as _, Read as _, Sqlite};

pub(super) type Reply = Receiver<Result<Position, Error>>;

/// Queues without waiting.
fn queue(sqlite: &Sqlite, batch: Batch) -> Reply {
    let (sender, reply) = channel();
    let append = Append { batch: Arc::new(batch), epoch: sqlite.epoch() };
    sqlite.append(append, Box::new(move |answer| sender.send(answer).unwrap()));
    reply
}

/// Blocks the writer in a callback, so that everything queued meanwhile becomes one group; returns a function that
/// releases it.
fn hold(sqlite: &Sqlite, batch: Batch) -> impl FnOnce() + use<> {
    let (release, released) = channel::<()>();
    let (sender, reply) = channel();
    let done = move |answer: Result<Position, Error>| {
        sender.send(answer).unwrap();
        released.recv().unwrap();
    };
    sqlite.append(Append { batch: Arc::new(batch), epoch: sqlite.epoch() }, Box::new(done));
    reply.recv().unwrap().unwrap();
    move || release.send(()).unwrap()
}

fn mark(home: &std::path::Path) -> (u64, Vec<u8>) {
    let bytes = fs::read(home.join("journal.mark")).unwrap();
    assert_eq!(bytes.len(), 40);
    (u64::from_le_bytes(bytes[..8].try_into().unwrap()), bytes[8..].to_vec())
}

/// R43: what was written is freed by whoever queues next, which may be days later; not so an answer of megabytes.
#[test]
fn r43_a_large_batch_is_not_kept_after_it_is_written() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let mut script = Script::new(1);
    add(&sqlite, script.begin()).unwrap();
    let body = text(&"x".repeat(1 << 20));
    let batch = Arc::new(script.batch(vec![accepted(body.body)], vec![body]));
    let kept = Arc::downgrade(&batch);
    let (sender, reply) = channel();
    let append = Append { batch, epoch: sqlite.epoch() };
    sqlite.append(append, Box::new(move |answer| sender.send(answer).unwrap()));
    reply.recv().unwrap().unwrap();
    let began = std::time::Instant::now();
    while kept.strong_count() > 0 {
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "it is kept");
        // waits: for the thread of the journal, which answers before it frees
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn r10_a_member_that_breaks_a_rule_fails_alone() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let (mut one, mut two, mut three) = (Script::new(1), Script::new(2), Script::new(3));
    let release = hold(&sqlite, one.begin());
    let body = text("never kept");
    let replies = [
        queue(&sqlite, two.begin()),
        queue(&sqlite, one.clone().batch(vec![retracted(1), accepted(body.body)], vec![])),
        queue(&sqlite, one.batch(vec![retracted(2)], vec![])),
        queue(&sqlite, three.clone().batch(vec![retracted(3)], vec![])),
        queue(&sqlite, three.begin()),
    ];
    release();
    let answers: Vec<_> = replies.iter().map(|reply| reply.recv().unwrap()).collect();
    let missing = Error::MissingBody { branch: one.branch, hash: body.body.hash };
    let unknown = Error::UnknownBranch { branch: three.branch };
    assert_eq!(answers, [Ok(Position(2)), Err(missing), Ok(Position(3)), Err(unknown), Ok(Position(4))]);
    let retracted_of = |script: &Script| sqlite.read(script.branch, Seq(2)).unwrap();
    assert_eq!(retracted_of(&one)[0].event, retracted(2));
    drop(sqlite);
    let sqlite = own(&home);
    assert_eq!(sqlite.head(), Ok(Position(4)));
    assert_eq!(sqlite.read(one.branch, Seq(1)).unwrap().len(), 2);
}

#[test]
fn r10_the_mark_follows_what_was_synced_and_may_lag() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let sqlite = own(&home);
    assert_eq!(mark(&home).0, 0);
    add(&sqlite, script.begin()).unwrap();
    let synced = mark(&home);
    let chain = sqlite.read(script.branch, Seq(1)).unwrap()[0].chain;
    assert_eq!(synced, (1, chain.0.to_vec()));
    add(&sqlite, script.batch(vec![retracted(1)], vec![])).unwrap();
    add(&sqlite, script.batch(vec![text_added(1, 0, "x")], vec![])).unwrap();
    assert_eq!(mark(&home), synced, "a written group moved the mark");
    let body = text("hello");
    let release = hold(&sqlite, script.batch(vec![retracted(2)], vec![]));
    let replies = [
        queue(&sqlite, script.batch(vec![accepted(body.body)], vec![body])),
        queue(&sqlite, script.batch(vec![retracted(3)], vec![])),
    ];
    release();
    assert!(replies.iter().all(|reply| reply.recv().unwrap().is_ok()));
    let last = sqlite.read(script.branch, Seq(5)).unwrap().remove(0);
    assert_eq!(mark(&home), (5, last.chain.0.to_vec()), "a group is as strong as its strongest member");
    drop(sqlite);
    // The mark lags, or was never written: both may happen after a loss of power.
    for old in [[1_u64.to_le_bytes().to_vec(), synced.1].concat(), vec![], vec![0; 40]] {
        fs::write(home.join("journal.mark"), old).unwrap();
        assert_eq!(own(&home).head(), Ok(Position(5)));
    }
}

#[test]
fn a_fenced_writer_commits_nothing() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let sqlite = own(&home);
    add(&sqlite, script.begin()).unwrap();
    // Another owner got past the lock (a network file system, a lock file that was removed).
    let other = rusqlite::Connection::open(home.join("journal.db")).unwrap();
    other.execute("UPDATE owner SET epoch = epoch + 1", []).unwrap();
    let fenced = add(&sqlite, script.batch(vec![retracted(1)], vec![]));
    assert_eq!(fenced, Err(Error::Fenced { epoch: Epoch(1), owner: Epoch(2) }));
    assert_eq!(sqlite.head(), Ok(Position(1)));
    let after = add(&sqlite, script.batch(vec![retracted(1)], vec![]));
    assert!(matches!(after, Err(Error::Poisoned { .. })));
}

#[test]
fn a_writer_that_panics_leaves_nobody_waiting() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let sqlite = own(&home);
    let append = Append { batch: Arc::new(script.begin()), epoch: sqlite.epoch() };
    let (release, released) = channel::<()>();
    let (sender, reply) = channel();
    sqlite.append(
        append,
        Box::new(move |_| {
            sender.send(()).unwrap();
            released.recv().unwrap();
            panic!("an answer that panics");
        }),
    );
    reply.recv().unwrap();
    let waiting = queue(&sqlite, script.clone().batch(vec![retracted(1)], vec![]));
    release.send(()).unwrap();
    assert_eq!(waiting.recv().unwrap(), Err(Error::Gone));
    assert_eq!(add(&sqlite, script.batch(vec![retracted(1)], vec![])), Err(Error::Gone));
    assert_eq!(sqlite.head(), Ok(Position(1)));
    drop(sqlite);
    assert_eq!(own(&home).head(), Ok(Position(1)));
}
