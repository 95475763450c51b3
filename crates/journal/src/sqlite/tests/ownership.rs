//! Who owns a home, who may read it, and what a killed owner leaves behind.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::{Epoch, Position, Seq};

use super::{add, filled, home, own};
use crate::sqlite::home as lock;
use crate::suite::Script;
use crate::suite::samples::{accepted, text, text_added};
use crate::{Error, Journal as _, Kind, Read as _, Reader, Sqlite};

/// Environment variable that makes a test the other process; it names the home.
const CHILD: &str = "JOURNAL_TEST_HOME";

/// A command that runs this test again in another process.
fn child(test: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("sqlite::tests::ownership::{test}"), "--nocapture"]).env(CHILD, home);
    command
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_owner_is_refused_by_name() {
    let (_folder, home) = home();
    let first = own(&home);
    let error = Sqlite::own(&home).unwrap_err();
    let Error::Owned { pid, since: Some(since), .. } = &error else { panic!("{error}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    assert!(error.to_string().contains(&format!("owned by pid {}, since {since}", std::process::id())), "{error}");
    assert_eq!(error.kind(), Kind::Owned);
    drop(first);
    assert_eq!(own(&home).epoch(), Epoch(2));
}

/// Holds the lock under this name, as a child does before its exec.
fn lock_of(home: &Path, pid: u32) -> fs::File {
    fs::create_dir_all(home).unwrap();
    fs::write(home.join("owner.lock"), format!("{pid}\n2026-11-21T03:00:00Z\n{}\n", lock::host())).unwrap();
    let lock = fs::File::open(home.join("owner.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    lock
}

#[test]
fn r10_a_lock_that_a_killed_owner_left_to_a_child_for_a_moment_is_waited_for() {
    let (_folder, home) = home();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let lock = RefCell::new(Some(lock_of(&home, ended.id())));
    let waited = Cell::new(0);
    let wait = |tried| {
        waited.set(tried);
        if tried == 3 {
            lock.take();
        }
    };
    drop(lock::lock_or_wait(&home, wait).unwrap());
    assert_eq!(waited.get(), 3);

    // The wait for it ends.
    let _lock = lock_of(&home, ended.id());
    let error = lock::lock_or_wait(&home, |tried| waited.set(tried)).unwrap_err();
    assert!(matches!(error, Error::Owned { pid: Some(pid), .. } if pid == ended.id()), "{error}");
    assert_eq!(waited.get(), 99);
}

#[test]
fn an_owner_that_lives_is_not_waited_for() {
    let (_folder, home) = home();
    let _lock = lock_of(&home, std::process::id());
    let error = lock::lock_or_wait(&home, |_| panic!("it waits")).unwrap_err();
    assert!(matches!(error, Error::Owned { .. }), "{error}");
}

#[test]
fn a_reader_sees_what_the_owner_commits() {
    let (_folder, home) = home();
    assert!(matches!(Reader::open(&home).unwrap_err(), Error::NotFound { .. }));
    fs::create_dir_all(&home).unwrap();
    assert_eq!(Reader::open(&home).unwrap_err().kind(), Kind::NotFound);
    fs::write(home.join("journal.db"), "").unwrap();
    assert_eq!(Reader::open(&home).unwrap_err().kind(), Kind::NotFound);

    let sqlite = own(&home);
    let reader = Reader::open(&home).unwrap();
    assert!(!reader.is_immutable());
    let mut script = Script::new(1);
    add(&sqlite, script.begin()).unwrap();
    assert_eq!(reader.head(), Ok(Position(1)));
    add(&sqlite, script.batch(vec![text_added(1, 0, "x")], vec![])).unwrap();
    let tail = reader.tail(script.branch, Seq(1)).unwrap();
    assert_eq!((tail.entries.len(), tail.progress.len()), (1, 1));
    drop(sqlite);
    assert_eq!(reader.tail(script.branch, Seq(1)).unwrap(), tail);
}

#[test]
fn the_home_is_private() {
    let (_folder, home) = home();
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join("journal.db"), "").unwrap();
    fs::set_permissions(home.join("journal.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let sqlite = own(&home);
    add(&sqlite, Script::new(1).begin()).unwrap();
    assert_eq!(mode(&home), 0o700);
    for file in ["journal.db", "journal.db-wal", "journal.db-shm", "journal.mark", "journal.reserve", "owner.lock"] {
        assert_eq!(mode(&home.join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_shared_folder_keeps_its_mode() {
    let (_folder, home) = home();
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o1777)).unwrap();
    drop(own(&home));
    assert_eq!(mode(&home), 0o777);
    assert_eq!(mode(&home.join("journal.db")), 0o600);
}

#[test]
fn a_home_that_cannot_be_made_says_why() {
    let (folder, _) = home();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for home in [file.clone(), file.join("home")] {
        let error = Sqlite::own(&home).unwrap_err();
        assert!(matches!(error, Error::Unwritable { .. }), "{error}");
        assert_eq!(error.kind(), Kind::Store);
    }
}

#[test]
fn a_read_only_home_is_read_and_not_owned() {
    if let Some(home) = std::env::var_os(CHILD).map(PathBuf::from) {
        let reader = Reader::open(&home).unwrap();
        assert!(reader.is_immutable());
        assert!(reader.head().unwrap() > Position(0));
        let error = Sqlite::own(&home).unwrap_err();
        assert!(matches!(error, Error::Unwritable { .. }), "{error}");
        return;
    }
    let (folder, home, _) = filled();
    let mut command = child("a_read_only_home_is_read_and_not_owned", &home);
    if rustix::process::geteuid().is_root() {
        // Root may write everything, so the other process runs as nobody.
        let nobody = 65_534;
        for path in [folder.path(), home.parent().unwrap(), &home, &home.join("journal.db"), &home.join("owner.lock")] {
            chown(path, Some(nobody), Some(nobody)).unwrap();
        }
        command.uid(nobody).gid(nobody);
    }
    fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).unwrap();
    let output = command.output().unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn r10_r11_entries_that_a_killed_owner_acknowledged_exist() {
    if let Some(home) = std::env::var_os(CHILD).map(PathBuf::from) {
        append_until_killed(&home);
    }
    let (_folder, home) = home();
    let mut command = child("r10_r11_entries_that_a_killed_owner_acknowledged_exist", &home);
    let mut script = Script::new(1);
    for round in 1..=5 {
        let mut owner = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledged = lines.filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let before = acknowledged.by_ref().take(20 * round).last().unwrap();
        owner.kill().unwrap();
        owner.wait().unwrap();
        let last = acknowledged.last().unwrap_or(before);

        let sqlite = own(&home);
        let entries = sqlite.read(script.branch, Seq(1)).unwrap();
        assert!(entries.len() as u64 >= last, "{} of {last}", entries.len());
        script.seq = entries.len() as u64;
    }
    assert_eq!(own(&home).epoch(), Epoch(11));
}

/// Prints each position after it was acknowledged.
fn append_until_killed(home: &Path) -> ! {
    let sqlite = own(home);
    let mut script = Script::new(1);
    script.seq = sqlite.head().unwrap().0;
    if script.seq == 0 {
        add(&sqlite, script.begin()).unwrap();
    }
    loop {
        let body = text(&script.seq.to_string());
        let position = add(&sqlite, script.batch(vec![accepted(body.body)], vec![body])).unwrap();
        println!("kept {position}");
    }
}
