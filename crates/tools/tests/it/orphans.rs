//! Orphans in the folder of calls.

use std::fs;
use std::path::Path;

use engine::{EffectId, EffectKind, RunId};
use rustix::fs::{CWD, Mode, mkfifoat};
use tools::{Orphans, orphans};
use uuid::Uuid;

fn call(run: u128) -> String {
    let run = RunId(Uuid::from_u128(run));
    EffectId { run, kind: EffectKind::RunCall, ordinal: 1, try_no: 1 }.to_string().replace('/', ".")
}

fn folder(calls: &Path, name: &str) {
    fs::create_dir(calls.join(name)).expect("a folder");
    mkfifoat(CWD, calls.join(name).join("control"), Mode::RUSR | Mode::WUSR).expect("a FIFO");
}

#[test]
fn r13_only_folders_that_nobody_waits_for_or_uses_are_orphans() {
    let home = tempfile::tempdir().unwrap();
    let calls = home.path();
    assert_eq!(orphans(&calls.join("none"), &|_| false).unwrap(), Orphans::default());
    let [left, open, at_work] = [call(1), call(2), call(3)];
    for name in
        [&left, &open, &at_work, &format!(".{left}.999999999.new"), &format!(".{left}.{}.new", std::process::id())]
    {
        folder(calls, name);
    }
    let supervisor = fs::OpenOptions::new().read(true).write(true).open(calls.join(&at_work).join("control")).unwrap();
    fs::write(calls.join(call(4)), "").unwrap();
    fs::write(calls.join("notes.txt"), "mine").unwrap();
    let found = orphans(calls, &|call| call.run == RunId(Uuid::from_u128(2))).unwrap();
    assert_eq!(found.calls, [calls.join(format!(".{left}.999999999.new")), calls.join(&left)]);
    assert_eq!(found.foreign, ["notes.txt"]);
    found.remove().unwrap();
    drop(supervisor);
    let found = orphans(calls, &|call| call.run == RunId(Uuid::from_u128(2))).unwrap();
    assert_eq!(found.calls, [calls.join(at_work)], "its supervisor has gone");
    assert!(calls.join(open).exists() && calls.join(call(4)).exists() && calls.join("notes.txt").exists());
}
