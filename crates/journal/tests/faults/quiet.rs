//! What the writer does by itself when nothing is asked, on a disk that fails. What may not live here: faults of appends.

use std::path::Path;
use std::thread;
use std::time::Duration;

use faulty_vfs::{Disk, Fault, FileKind, Operation, OperationKind, What};
use journal::{Error, Sqlite};

use crate::expected::{Found, Lost, check};
use crate::table::home;
use crate::workload::{Script, Told, append};

/// Waits until a quiet moment was used: a fault has struck, or the database was synced.
fn quiet(disk: &Disk, before: usize) {
    let is_done = |operation: &Operation| (operation.kind, operation.file) == (OperationKind::Sync, FileKind::Database);
    while disk.struck().is_none() && !disk.operations()[before..].iter().any(is_done) {
        // waits: for the writer, which waits for 200 ms without work, and tells nobody when it begins
        thread::sleep(Duration::from_millis(2));
    }
}

/// A message is recorded, then comes a quiet moment with the fault at its n-th operation, then another message. None when
/// the quiet moment was over before the fault.
fn quiet_case(home: &Path, disk: &Disk, fault: Fault) -> Option<(Result<(), Error>, Told)> {
    let (mut told, owner) = (Told::default(), Sqlite::own(home).unwrap());
    for batch in Script::messages(1) {
        told.answer(batch.clone(), append(&owner, batch));
    }
    let before = disk.operations().len();
    disk.plan(fault);
    quiet(disk, before);
    disk.struck()?;
    let batch = Script::begin(2);
    let answer = append(&owner, batch.clone());
    told.answer(batch, answer.clone());
    Some((answer, told))
}

fn at_every_operation(what: What, is_expected: impl Fn(&Result<(), Error>) -> bool) {
    let mut cases = 0;
    for at in 1.. {
        let (home, disk) = home();
        let Some((answer, told)) = quiet_case(home.path(), &disk, Fault::at(at, what)) else { break };
        assert!(is_expected(&answer), "OP={at} FAULT={what:?}: {answer:?}");
        disk.heal();
        let found = check(home.path(), &told, Lost::Process);
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
