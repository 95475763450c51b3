//! The crashes of the memory journal, which the simulator uses.

use engine::{Epoch, Position, Seq, Session, Timestamp};

use super::samples::{accepted, retracted, text};
use super::{Script, append};
use crate::{Error, Journal as _, Memory, Read as _, Snapshot};

/// A synced start and three written batches.
fn written() -> (Memory, Script) {
    let (memory, mut script) = (Memory::new(), Script::new(1));
    memory.open();
    append(&memory, Epoch(1), script.begin()).unwrap();
    for n in 1..=3 {
        append(&memory, Epoch(1), script.batch(vec![retracted(n)], vec![])).unwrap();
    }
    (memory, script)
}

#[test]
fn r11_a_power_loss_takes_whole_batches_from_the_end_and_nothing_synced() {
    let (memory, script) = written();
    assert_eq!(memory.unsynced(), 3);
    let all = memory.read(script.branch, Seq(1)).unwrap();
    for keep in 0..=4 {
        let crashed = memory.clone();
        crashed.crash_power(keep);
        let kept = all.len().min(1 + keep);
        assert_eq!(crashed.read(script.branch, Seq(1)).unwrap(), all[..kept]);
        assert_eq!(crashed.head(), Ok(Position(kept as u64)));
        assert_eq!(crashed.unsynced(), 0);
        assert_eq!(crashed.open(), Epoch(2));
        let mut next = Script { seq: kept as u64, ..script.clone() };
        append(&crashed, Epoch(2), next.batch(vec![retracted(9)], vec![])).unwrap();
    }
    assert_eq!(memory.read(script.branch, Seq(1)).unwrap(), all, "a clone is not independent");
}

#[test]
fn r11_a_synced_batch_syncs_what_was_written_before_it() {
    let (memory, mut script) = written();
    let body = text("hello");
    append(&memory, Epoch(1), script.batch(vec![accepted(body.body)], vec![body])).unwrap();
    assert_eq!(memory.unsynced(), 0);
    memory.crash_power(0);
    assert_eq!(memory.head(), Ok(Position(5)));
}

#[test]
fn r11_a_power_loss_takes_a_snapshot_only_with_its_batch() {
    let (memory, script) = written();
    let created = match script.created() {
        engine::Event::Created(created) => created,
        other => unreachable!("{other:?} begins nothing"),
    };
    let session = Session::created(&created, Timestamp(1));
    let keep = |seq| memory.keep_snapshot(Snapshot::new(script.branch, Seq(seq), session.to_snapshot()));
    keep(1);
    keep(4);
    assert_eq!(memory.unsynced(), 3);
    for (kept, snapshot) in [(3, Some(Seq(4))), (2, None), (0, None)] {
        let crashed = memory.clone();
        crashed.crash_power(kept);
        assert_eq!(crashed.snapshots(script.branch).unwrap().pop(), snapshot, "{kept} batches were kept");
    }
    let crashed = memory.clone();
    crashed.crash_process();
    assert_eq!(crashed.snapshots(script.branch).unwrap(), [Seq(4)]);
}

#[test]
fn r11_a_killed_process_loses_nothing_written_and_appends_nothing_more() {
    let (memory, mut script) = written();
    memory.crash_process();
    assert_eq!(memory.head(), Ok(Position(4)));
    let late = append(&memory, Epoch(1), script.clone().batch(vec![retracted(4)], vec![]));
    assert!(matches!(late, Err(Error::Poisoned { .. })));
    assert_eq!(memory.open(), Epoch(2));
    assert_eq!(memory.epoch(), Epoch(2));
    assert_eq!(append(&memory, Epoch(2), script.batch(vec![retracted(4)], vec![])), Ok(Position(5)));
}

#[test]
fn r10_after_a_failed_write_nothing_is_acknowledged_until_it_is_opened_again() {
    let (memory, mut script) = written();
    let failed = Error::Failed { path: "journal.db".into(), detail: "I/O error".to_owned() };
    memory.fail_next(failed.clone());
    let batch = script.clone().batch(vec![retracted(4)], vec![]);
    assert_eq!(append(&memory, Epoch(1), batch.clone()), Err(failed));
    assert!(matches!(append(&memory, Epoch(1), batch), Err(Error::Poisoned { .. })));
    assert_eq!(memory.head(), Ok(Position(4)));
    memory.open();
    assert_eq!(append(&memory, Epoch(2), script.batch(vec![retracted(4)], vec![])), Ok(Position(5)));
}

#[test]
fn r10_a_full_disk_fails_one_append_and_no_more() {
    let (memory, mut script) = written();
    let full = Error::Full { path: "journal.db".into() };
    memory.fail_next(full.clone());
    let batch = script.batch(vec![retracted(4)], vec![]);
    assert_eq!(append(&memory, Epoch(1), batch.clone()), Err(full));
    assert_eq!(memory.head(), Ok(Position(4)));
    assert_eq!(append(&memory, Epoch(1), batch), Ok(Position(5)));

    memory.fill();
    assert!(!memory.has_space());
    let begins = append(&memory, Epoch(1), script.clone().batch(vec![retracted(5)], vec![]));
    assert!(matches!(begins, Err(Error::Full { .. })), "{begins:?}");
    let ends = script.batch(vec![engine::Closed { epoch: Epoch(1) }.into()], vec![]);
    assert_eq!(append(&memory, Epoch(1), ends), Ok(Position(6)));
    memory.free();
    assert_eq!(append(&memory, Epoch(1), script.batch(vec![retracted(5)], vec![])), Ok(Position(7)));
}
