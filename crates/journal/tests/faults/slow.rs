//! Slow syncs: no caller is notified before the sync is done.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use engine::{Batch, Durability};
use faulty_vfs::{Disk, Fault, FileKind, OperationKind, What};
use journal::{Append, Journal as _, Sqlite};

use crate::expected::{Found, Lost, check};
use crate::table::home;
use crate::workload::{Script, work};

fn slow(disk: &Disk, time: Duration) -> Fault {
    assert_eq!(disk.first_failure(), None);
    Fault::at(1, What::SlowSync(time)).on(OperationKind::Sync)
}

#[test]
fn r10_slow_syncs_change_nothing_but_the_time() {
    for time in [4, 100].map(Duration::from_millis) {
        let (home, disk) = home();
        disk.plan(slow(&disk, time).for_ever());
        let started = Instant::now();
        let replies = work(home.path(), &disk);
        let syncs = disk.operations().iter().filter(|operation| operation.kind == OperationKind::Sync).count();
        assert!(started.elapsed() >= time * syncs as u32, "{syncs} syncs were not waited for");
        assert_eq!((replies.kept.len(), replies.failed.len()), (crate::workload::batches(), 0));
        disk.heal();
        assert_eq!(check(home.path(), &replies, Lost::Process), Ok(Found::Acknowledged));
    }
}

/// Batches come during a sync: the first is acknowledged after it, with nothing unsynced; the others form one group.
#[test]
fn r10_no_acknowledgement_before_a_sync_of_five_seconds_is_done() {
    let (home, disk) = home();
    let journal = Sqlite::own(home.path()).unwrap();
    let time = Duration::from_secs(5);
    let disk = Arc::new(disk);
    disk.plan(slow(&disk, time));
    let batches: Vec<Batch> = (1..=20).map(Script::begin).collect();
    assert!(batches.iter().all(|batch| batch.durability() == Durability::Synced));
    let (sender, replies) = channel();
    let started = Instant::now();
    for batch in batches {
        let (sender, disk) = (sender.clone(), Arc::clone(&disk));
        let done = Box::new(move |answer| {
            sender.send((answer, started.elapsed(), disk.unsynced_bytes(FileKind::Wal))).unwrap();
        });
        journal.append(Append { batch: Arc::new(batch), epoch: journal.epoch() }, done);
    }
    drop(sender);
    for (position, (answer, after, unsynced)) in replies.into_iter().enumerate() {
        assert_eq!(answer.map(|position| position.0), Ok(position as u64 + 1));
        assert!(after >= time && unsynced == 0, "acknowledged after {after:?} with {unsynced} bytes unsynced");
    }
}
