//! The faulty disk under a plain database: each fault has the effect that it claims.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use faulty_vfs::{Cut, Disk, Fault, FileKind, Operation, OperationKind, What};
use rusqlite::ffi;
use rusqlite::{Connection, Result};
use tempfile::{TempDir, tempdir};

fn open(home: &Path) -> Result<Connection> {
    let connection = Connection::open(home.join("a.db"))?;
    let begin = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 8; \
                 CREATE TABLE IF NOT EXISTS t(a INTEGER, filler BLOB)";
    connection.execute_batch(begin)?;
    Ok(connection)
}

fn insert(connection: &Connection, n: u32) -> Result<usize> {
    connection.execute("INSERT INTO t VALUES (?1, randomblob(900))", [n])
}

/// Inserts rows until something fails; returns how many succeeded.
fn work(home: &Path) -> u32 {
    let Ok(connection) = open(home) else { return 0 };
    (0..12).take_while(|n| insert(&connection, *n).is_ok()).count() as u32
}

/// The rows of a home that is on no disk yet, or on a healed one.
fn rows(home: &Path) -> u32 {
    // Its syncs cost nothing.
    let _disk = Disk::install(home);
    let connection = open(home).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn home() -> (TempDir, Disk) {
    let home = tempdir().unwrap();
    let disk = Disk::install(home.path()).unwrap();
    (home, disk)
}

fn code(result: Result<usize>) -> i32 {
    result.unwrap_err().sqlite_extended_error_code().unwrap()
}

#[test]
fn only_files_below_the_folder_are_on_the_disk_and_only_while_it_is_installed() {
    let (home, disk) = home();
    let elsewhere = tempdir().unwrap();
    disk.plan(Fault::at(1, What::Eio).for_ever());
    assert_eq!(work(elsewhere.path()), 12);
    assert!(disk.operations().is_empty());
    assert_eq!(work(home.path()), 0);
    assert_eq!(Disk::install(home.path()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    drop(disk);
    assert_eq!(work(home.path()), 12);
}

#[test]
fn the_same_work_is_the_same_operations() {
    let runs = [home(), home()].map(|(home, disk)| {
        assert_eq!(work(home.path()), 12);
        disk.operations()
    });
    assert_eq!(runs[0], runs[1]);
    let seen = |kind, file| runs[0].iter().any(|operation| (operation.kind, operation.file) == (kind, file));
    for (kind, file) in [
        (OperationKind::Open, FileKind::Database),
        (OperationKind::Read, FileKind::Database),
        (OperationKind::Write, FileKind::Database),
        (OperationKind::Write, FileKind::Wal),
        (OperationKind::Sync, FileKind::Wal),
        (OperationKind::Sync, FileKind::Database),
        (OperationKind::Delete, FileKind::Wal),
        (OperationKind::ShmMap, FileKind::Shm),
        (OperationKind::ShmLock, FileKind::Shm),
    ] {
        assert!(seen(kind, file), "no {kind} of {file:?}");
    }
}

#[test]
fn each_fault_is_the_error_that_the_system_would_return() {
    use OperationKind as Kind;
    for (what, kind, expected) in [
        (What::Eio, Kind::Write, ffi::SQLITE_IOERR_WRITE),
        (What::Eio, Kind::Sync, ffi::SQLITE_IOERR_FSYNC),
        (What::Enospc, Kind::Write, ffi::SQLITE_FULL),
        (What::ShortWrite, Kind::Write, ffi::SQLITE_FULL),
        (What::Enospc, Kind::Sync, ffi::SQLITE_IOERR_FSYNC),
    ] {
        let (home, disk) = home();
        let connection = open(home.path()).unwrap();
        assert_eq!(insert(&connection, 0), Ok(1));
        disk.plan(Fault::at(1, what).on(kind));
        assert_eq!(code(insert(&connection, 1)), expected, "{what:?} {kind}");
        assert_eq!(disk.first_failure().map(|operation| operation.kind), Some(kind));
        assert_eq!(insert(&connection, 2), Ok(1), "once is not for ever: {what:?} {kind}");
        drop(connection);
        assert_eq!(rows(home.path()), 2);
    }
}

#[test]
fn sqlite_reads_the_rest_after_a_short_read() {
    let (home, disk) = home();
    disk.plan(Fault::at(1, What::ShortRead).for_ever());
    assert_eq!((work(home.path()), disk.first_failure().is_some()), (12, true));
    assert_eq!(rows(home.path()), 12);
}

#[test]
fn a_slow_sync_delays_its_caller() {
    let (home, disk) = home();
    let connection = open(home.path()).unwrap();
    let time = Duration::from_millis(100);
    disk.plan(Fault::at(1, What::SlowSync(time)));
    let (sender, acknowledged) = channel();
    let started = Instant::now();
    let thread = thread::spawn(move || {
        insert(&connection, 0).unwrap();
        sender.send(started.elapsed()).unwrap();
    });
    assert!(acknowledged.recv().unwrap() >= time);
    assert_eq!(disk.unsynced_bytes(FileKind::Wal), 0);
    thread.join().unwrap();
}

#[test]
fn after_a_crash_files_are_as_they_were() {
    let (home, disk) = home();
    let connection = open(home.path()).unwrap();
    for n in 0..3 {
        insert(&connection, n).unwrap();
    }
    disk.plan(Fault::at(1, What::Crash).on(OperationKind::Sync));
    assert!(insert(&connection, 3).is_err() && disk.is_crashed());
    // The index is in shared memory: the next process creates it again.
    let files = || ["a.db", "a.db-wal"].map(|name| fs::read(home.path().join(name)).unwrap());
    let (before, operations) = (files(), disk.operations().len());
    assert!(insert(&connection, 4).is_err());
    drop(connection);
    assert!(before == files(), "a dead process wrote");
    assert_eq!(disk.operations().len(), operations);
    disk.heal();
    // The row was written, though not synced, and only the process was lost.
    assert_eq!(rows(home.path()), 4);
}

#[test]
fn a_power_loss_at_any_operation_keeps_synced_rows_and_loses_only_the_last() {
    let all: Vec<Operation> = {
        let (home, disk) = home();
        work(home.path());
        disk.operations()
    };
    for at in 1..=all.len() as u64 {
        let (home, disk) = home();
        disk.plan(Fault::at(at, What::Crash));
        let acknowledged = work(home.path());
        let torn = (0..4).map(|seed| Cut::Torn { seed: at * 10 + seed });
        for cut in [Cut::Nothing, Cut::Everything, Cut::Prefix { seed: at }].into_iter().chain(torn) {
            let after = tempdir().unwrap();
            disk.power_cut(cut, after.path()).unwrap();
            let kept = rows(after.path());
            assert!(
                kept == acknowledged || kept == acknowledged + 1,
                "OP={at} CUT={cut:?}: {acknowledged} were acknowledged, {kept} are there"
            );
        }
    }
}

#[test]
fn without_syncs_a_power_loss_does_lose_something() {
    let (home, disk) = home();
    let connection = open(home.path()).unwrap();
    connection.execute_batch("PRAGMA synchronous = NORMAL").unwrap();
    for n in 0..3 {
        insert(&connection, n).unwrap();
    }
    assert!(disk.unsynced_bytes(FileKind::Wal) > 0);
    let left = |cut| {
        let after = tempdir().unwrap();
        disk.power_cut(cut, after.path()).unwrap();
        rows(after.path())
    };
    assert_eq!((left(Cut::Nothing), left(Cut::Everything)), (0, 3));
    let kinds: Vec<u32> = (0..60).map(|seed| left(Cut::Prefix { seed })).collect();
    assert!((0..=3).all(|kept| kinds.contains(&kept)), "{kinds:?}");
}

#[test]
fn a_watched_file_has_any_content_that_it_had_and_others_are_copied() {
    let (home, disk) = home();
    fs::write(home.path().join("other"), "as it is").unwrap();
    disk.watch("mark");
    let connection = open(home.path()).unwrap();
    for n in 0..3 {
        fs::write(home.path().join("mark"), [b'0' + n]).unwrap();
        insert(&connection, u32::from(n)).unwrap();
    }
    let left = |cut| {
        let after = tempdir().unwrap();
        disk.power_cut(cut, after.path()).unwrap();
        assert_eq!(fs::read(after.path().join("other")).unwrap(), b"as it is");
        assert!(!after.path().join("a.db-shm").exists());
        fs::read_to_string(after.path().join("mark")).unwrap_or_default()
    };
    assert_eq!((left(Cut::Nothing), left(Cut::Everything)), (String::new(), "2".to_owned()));
    let some: Vec<String> = (0..40).map(|seed| left(Cut::Torn { seed })).collect();
    assert!(["", "0", "1", "2"].iter().all(|mark| some.iter().any(|content| content == mark)), "{some:?}");
}

#[test]
fn operations_while_it_is_suspended_are_neither_counted_nor_failed() {
    let (home, disk) = home();
    disk.plan(Fault::at(1, What::Eio));
    disk.suspend();
    assert_eq!((work(home.path()), disk.counted(), disk.waiting()), (12, 0, 1));
    disk.resume();
    assert_eq!((work(home.path()), disk.counted() > 0, disk.waiting()), (0, true, 0));
}

#[test]
fn the_next_process_gets_the_faults_that_have_not_happened_yet() {
    let (home, disk) = home();
    disk.plan(Fault::at(40, What::Crash));
    disk.plan(Fault::at(60, What::Eio).for_ever());
    disk.plan(Fault::at(100_000, What::Eio));
    work(home.path());
    assert_eq!((disk.is_crashed(), disk.counted(), disk.waiting()), (true, 40, 2));
    disk.next_process();
    work(home.path());
    assert_eq!((disk.is_crashed(), disk.first_failure().map(|operation| operation.number)), (false, Some(60)));

    // The power fails between two operations: planned faults move on to the copy.
    disk.kill();
    let after = tempdir().unwrap();
    disk.power_cut(Cut::Everything, after.path()).unwrap();
    let next = disk.move_to(after.path()).unwrap();
    assert_eq!((disk.waiting(), next.waiting(), work(home.path())), (0, 1, 0));
    assert_eq!(work(after.path()), 12);
}

#[test]
fn a_file_grows_only_while_it_may() {
    let (home, disk) = home();
    let connection = open(home.path()).unwrap();
    insert(&connection, 0).unwrap();
    disk.limit(|home| !home.join("full").exists());
    fs::write(home.path().join("full"), "").unwrap();
    assert_eq!(code(insert(&connection, 1)), ffi::SQLITE_FULL);
    fs::remove_file(home.path().join("full")).unwrap();
    assert_eq!(insert(&connection, 1), Ok(1));
    drop(connection);
    drop(disk);
    assert_eq!(rows(home.path()), 2);
}
