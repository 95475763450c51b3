//! A full disk, and quiet moments: what the writer does when it cannot write, and when it has nothing to write.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use engine::{Batch, Closed, Content, EndingSet, Epoch, Event, Hash, Outcome, Position, Seq};

use super::super::collect::Collectable;
use super::super::group::Quiet;
use super::super::home::Owned;
use super::super::migrations::THIS;
use super::super::space::Space;
use super::super::writer::{CommitReply, Job, Pace, Start, Work, Writer};
use super::super::{Opened, opened, schema};
use super::group::Reply;
use super::{add, home, own};
use crate::suite::Script;
use crate::suite::samples::{accepted, retracted, text};
use crate::{Append, Error, Read as _, Reader};

/// A writer on a file that can grow by only a few pages.
struct Tight {
    writer: Writer,
    home: PathBuf,
}

impl Tight {
    fn new(home: &Path, pages: u32, quiet: Quiet) -> Self {
        let owned = Owned::take(home).unwrap();
        let database = owned.database();
        let Opened { connection, head: last } = opened(&owned, &THIS).unwrap();
        let epoch = schema::become_owner(&connection, &database, super::super::now()).unwrap();
        let now: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let sql = format!("PRAGMA max_page_count = {}", now + pages);
        let limit: u32 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(limit, now + pages);
        let space = Space::open(home, |_| false).unwrap();
        let collectable = Collectable::new(&connection, epoch).unwrap();
        let start = Start { epoch, last, space, quiet, collectable, pace: Pace::Thread };
        let writer = Writer::start(connection, owned, start).unwrap();
        Self { writer, home: home.to_owned() }
    }

    fn queue(&self, batch: Batch) -> Reply {
        self.queue_as(1, batch)
    }

    fn send_as(&self, epoch: u64, batch: Batch) -> Result<Position, Error> {
        self.queue_as(epoch, batch).recv().unwrap()
    }

    fn queue_as(&self, epoch: u64, batch: Batch) -> Reply {
        let (sender, reply) = channel();
        let append = Append { batch: Arc::new(batch), epoch: Epoch(epoch) };
        let done = CommitReply::new(Box::new(move |answer| sender.send(answer).unwrap()));
        self.writer.queue(Job { work: Work::Append(append), done });
        reply
    }

    fn send(&self, batch: Batch) -> Result<Position, Error> {
        self.queue(batch).recv().unwrap()
    }

    /// Sends messages until there is no space; returns the last acknowledged position.
    fn fill(&self, script: &mut Script) -> Position {
        for n in 0..200_u32 {
            let body = unpackable(n, 128);
            let before = script.clone();
            match self.send(script.batch(vec![accepted(body.body)], vec![body])) {
                Ok(_) => {}
                Err(error) => {
                    assert!(matches!(error, Error::Full { .. }), "{error}");
                    *script = before;
                    return Position(script.seq);
                }
            }
        }
        panic!("it never was full");
    }

    fn has_reserve(&self) -> bool {
        self.home.join("journal.reserve").exists()
    }
}

/// Incompressible bytes: 32 for each of `count`.
fn unpackable(n: u32, count: u32) -> Content {
    let bytes: Vec<u8> = (0..count).flat_map(|i| Hash::of(&[n, i].map(u32::to_le_bytes).concat()).0).collect();
    Content::new(engine::BodyKind::Message, bytes)
}

#[test]
fn r10_a_full_disk_acknowledges_nothing_and_loses_nothing_acknowledged() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let tight = Tight::new(&home, 40, Quiet::default());
    tight.send(script.begin()).unwrap();
    assert!(tight.has_reserve());
    let acknowledged = tight.fill(&mut script);
    assert!(acknowledged.0 > 5, "{acknowledged}");
    assert!(!tight.has_reserve(), "the reserve is not given up");
    // Readers are not hindered, and there is space again for the next owner.
    assert_eq!(Reader::open(&home).unwrap().head(), Ok(acknowledged));
    drop(tight);
    let sqlite = own(&home);
    assert!(home.join("journal.reserve").exists(), "the reserve is not created again");
    assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap().len() as u64, acknowledged.0);
    assert_eq!(add(&sqlite, script.batch(vec![retracted(1)], vec![])), Ok(Position(acknowledged.0 + 1)));
}

#[test]
fn r10_b8_a_full_disk_still_takes_the_ends_of_runs_and_nothing_else() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let tight = Tight::new(&home, 40, Quiet::default());
    tight.send(script.begin()).unwrap();
    let acknowledged = tight.fill(&mut script);
    for begins in [vec![retracted(1)], vec![accepted(unpackable(1, 128).body)]] {
        let refused = tight.send(script.clone().batch(begins, vec![]));
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    }
    let ends: [Event; 2] = [
        EndingSet { outcome: Outcome::Aborted, terminate: false, reset: false }.into(),
        Closed { epoch: Epoch(1) }.into(),
    ];
    for (event, n) in ends.into_iter().zip(1..) {
        assert_eq!(tight.send(script.batch(vec![event], vec![])), Ok(Position(acknowledged.0 + n)));
    }
    // Members of one group are judged one by one.
    let replies = [
        tight.queue(script.clone().batch(vec![retracted(1)], vec![])),
        tight.queue(script.batch(vec![Closed { epoch: Epoch(1) }.into()], vec![])),
    ];
    let [begins, ends] = replies.map(|reply| reply.recv().unwrap());
    assert!(matches!(begins, Err(Error::Full { .. })), "{begins:?}");
    assert_eq!(ends, Ok(Position(acknowledged.0 + 3)));
    drop(tight);
    assert_eq!(own(&home).read(script.branch, Seq(1)).unwrap().len() as u64, acknowledged.0 + 3);
}

#[test]
fn r10_a_member_that_fills_the_disk_fails_its_whole_group() {
    let (_folder, home) = home();
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    let tight = Tight::new(&home, 40, Quiet::default());
    tight.send(one.begin()).unwrap();
    tight.send(two.begin()).unwrap();
    // Blocks the writer in a callback, so that everything queued meanwhile becomes one group.
    let (release, released) = channel::<()>();
    let hold = Append { batch: Arc::new(one.batch(vec![retracted(1)], vec![])), epoch: Epoch(1) };
    let (sender, reply) = channel();
    let done = CommitReply::new(Box::new(move |answer| {
        sender.send(answer).unwrap();
        released.recv().unwrap();
    }));
    tight.writer.queue(Job { work: Work::Append(hold), done });
    assert_eq!(reply.recv().unwrap(), Ok(Position(3)));
    let body = unpackable(1, 32_000);
    let before = one.clone();
    let replies = [
        tight.queue(one.batch(vec![retracted(2)], vec![])),
        tight.queue(two.batch(vec![accepted(body.body)], vec![body])),
        tight.queue(one.batch(vec![retracted(3)], vec![])),
    ];
    release.send(()).unwrap();
    for reply in replies {
        let full = reply.recv().unwrap();
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    }
    // The branch ends where the disk says, not where the failed append would have ended.
    let mut one = before;
    assert_eq!(tight.send(one.batch(vec![Closed { epoch: Epoch(1) }.into()], vec![])), Ok(Position(4)));
    drop(tight);
    assert_eq!(own(&home).head(), Ok(Position(4)));
}

/// Waits until the WAL has at most this many bytes.
fn until_wal(home: &Path, most: u64) {
    let wal = home.join("journal.db-wal");
    for _ in 0..12_000 {
        if fs::metadata(&wal).unwrap().len() <= most {
            return;
        }
        // waits: the writer notifies nobody after background work; between two looks only.
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the WAL keeps {} bytes", fs::metadata(&wal).unwrap().len());
}

#[test]
fn a_quiet_writer_empties_the_wal() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let quick =
        Quiet { soon: Duration::from_millis(1), later: Duration::from_millis(1), long: Duration::from_hours(1) };
    let tight = Tight::new(&home, 4000, quick);
    tight.send(script.begin()).unwrap();
    for n in 0..3 {
        let body = unpackable(n, 1000);
        tight.send(script.batch(vec![accepted(body.body)], vec![body])).unwrap();
        until_wal(&home, 0);
    }
    // A long reader is not disturbed, and does not block the writer.
    let reader = rusqlite::Connection::open(home.join("journal.db")).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = || reader.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(u64::from(count()), script.seq);
    tight.send(script.batch(vec![accepted(text("x").body)], vec![text("x")])).unwrap();
    assert_eq!(u64::from(count()), script.seq - 1);
    reader.execute_batch("COMMIT").unwrap();
    tight.send(script.batch(vec![retracted(1)], vec![])).unwrap();
    until_wal(&home, 0);
    assert_eq!(Reader::open(&home).unwrap().head(), Ok(Position(script.seq)));
}

#[test]
fn an_idle_writer_collects_unreferenced_content() {
    let (_folder, home) = home();
    drop(own(&home));
    let other = rusqlite::Connection::open(home.join("journal.db")).unwrap();
    let sql = "INSERT INTO bodies VALUES (randomblob(32), 'message', 1, 'raw', x'01'), (randomblob(32), 'message', 1, 'raw', x'02')";
    other.execute(sql, []).unwrap();
    let quick =
        Quiet { soon: Duration::from_millis(1), later: Duration::from_millis(1), long: Duration::from_millis(1) };
    let tight = Tight::new(&home, 400, quick);
    let left = || other.query_row("SELECT count(*) FROM bodies", [], |row| row.get::<_, u32>(0)).unwrap();
    let mut script = Script::new(1);
    assert_eq!(left(), 2, "nothing is collected before there was work");
    tight.send_as(2, script.begin()).unwrap();
    for _ in 0..12_000 {
        if left() == 1 {
            tight.send_as(2, script.batch(vec![retracted(1)], vec![])).unwrap();
            return;
        }
        // waits: the writer notifies nobody after background work; between two looks only.
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never was collected");
}

#[test]
fn under_load_the_wal_stays_short() {
    let (_folder, home) = home();
    let mut script = Script::new(1);
    let never = Quiet { soon: Duration::from_hours(1), later: Duration::from_hours(1), long: Duration::from_hours(1) };
    let tight = Tight::new(&home, 100_000, never);
    tight.send(script.begin()).unwrap();
    // 12 MB in pieces of 8 pages: some 3,000 pages.
    for n in 0..376 {
        let body = unpackable(n, 1000);
        tight.send(script.batch(vec![accepted(body.body)], vec![body])).unwrap();
    }
    let pages = fs::metadata(home.join("journal.db-wal")).unwrap().len() / 4096;
    assert!(pages < 1100, "{pages} pages");
}
