//! Every fault of a disk at every operation of a fixed workload, over real SQLite: an error, a crash, a loss of power
//! at the first operation, at the second, and so on until the workload ends before it (R10, R11, R18).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod expected;
mod quiet;
mod slow;
mod table;
mod workload;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use journal::{Read as _, Reader};

use expected::{Found, Lost, check};
use table::{Outcome, Row};

/// R10, R11: the recovered journal is a prefix of what was attempted, and holds what was acknowledged.
#[test]
fn r10_r11_every_fault_at_every_operation() {
    let rows = table::rows();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = row.run();
            println!("{}", row.line(&outcome));
            outcomes.lock().unwrap().push((*row, outcome));
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut outcomes: Vec<(Row, Outcome)> = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(row, _)| rows.iter().position(|other| other == row));
    let failures: Vec<String> = outcomes.iter().flat_map(|(_, outcome)| outcome.failures.clone()).collect();
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
    let lines: Vec<String> = outcomes.iter().map(|(row, outcome)| row.line(outcome)).collect();
    table::compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/faults.md"), &lines);
}

#[test]
fn without_a_fault_all_is_acknowledged_and_there() {
    let (home, disk) = table::home();
    let replies = workload::work(home.path(), &disk);
    assert_eq!((replies.kept.len(), replies.failed.len(), &replies.refused), (workload::batches(), 0, &None));
    assert_eq!(check(home.path(), &replies, Lost::Process), Ok(Found::Acknowledged));
    let last = replies.kept.last().unwrap();
    let snapshots = Reader::open(home.path()).unwrap().snapshots(last.branch).unwrap();
    assert_eq!(snapshots, [last.records[0].seq.unwrap()], "the newest alone is kept");
}
