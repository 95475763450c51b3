//! What the writer does by itself while its queue is empty, on a disk that fails.

use std::path::Path;
use std::thread;
use std::time::Duration;

use faulty_vfs::{Disk, Fault, FileKind, Operation, OperationKind, What};
use journal::{Error, Sqlite};

use crate::expected::{Found, Lost, check};
use crate::table::home;
use crate::workload::{Replies, Script, append};

/// Waits until background work was done: a fault has happened, or the database was synced.
fn quiet(disk: &Disk, before: usize) {
    let is_done = |operation: &Operation| (operation.kind, operation.file) == (OperationKind::Sync, FileKind::Database);
    while disk.first_failure().is_none() && !disk.operations()[before..].iter().any(is_done) {
        // waits: for the writer, which waits for 200 ms without work, and notifies nobody when it begins
        thread::sleep(Duration::from_millis(2));
    }
}

/// Appends a message, then lets a quiet moment pass with the fault at its n-th operation, then appends another message.
/// `None` if the quiet moment ended before the fault.
fn quiet_case(home: &Path, disk: &Disk, fault: Fault) -> Option<(Result<(), Error>, Replies)> {
    let (mut replies, owner) = (Replies::default(), Sqlite::own(home).unwrap());
    for batch in Script::messages(1) {
        replies.answer(batch.clone(), append(&owner, batch));
    }
    let before = disk.operations().len();
    disk.plan(fault);
    quiet(disk, before);
    disk.first_failure()?;
    let batch = Script::begin(2);
    let answer = append(&owner, batch.clone());
    replies.answer(batch, answer.clone());
    Some((answer, replies))
}

fn at_every_operation(what: What, is_expected: impl Fn(&Result<(), Error>) -> bool) {
    let mut cases = 0;
    for at in 1.. {
        let (home, disk) = home();
        let Some((answer, replies)) = quiet_case(home.path(), &disk, Fault::at(at, what)) else { break };
        assert!(is_expected(&answer), "OP={at} FAULT={what:?}: {answer:?}");
        disk.heal();
        let found = check(home.path(), &replies, Lost::Process);
        assert_eq!(found, Ok(Found::Acknowledged), "OP={at} FAULT={what:?}");
        cases += 1;
    }
    assert!(cases > 5, "only {cases} operations in a quiet moment");
}

#[test]
fn r10_after_an_error_in_a_quiet_moment_nothing_is_acknowledged() {
    at_every_operation(What::Eio, |answer| matches!(answer, Err(Error::Poisoned { .. })));
}

#[test]
fn r10_no_space_in_a_quiet_moment_leaves_all_in_the_wal() {
    at_every_operation(What::ShortWrite, Result::is_ok);
}
