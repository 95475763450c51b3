//! A full disk and a damaged journal: one clear line, no acknowledged data is lost, nothing is done twice.

use std::fs;
use std::process::Command;

use journal::store_uncompressed;

use crate::support::Home;

/// Whether a small file system of our own can be mounted here.
fn can_mount() -> bool {
    let mounted = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    mounted.is_ok_and(|output| output.status.success())
}

/// Runs a script in which `$LIMULUS_HOME` is a file system of two megabytes.
fn on_a_small_disk(home: &Home, script: &str) -> crate::support::Finished {
    fs::create_dir(home.path()).expect("a folder to mount on");
    let script = format!("set -e; mount -t tmpfs -o size=2m none \"$LIMULUS_HOME\"; set +e; {script}");
    let output =
        home.program("unshare", &["-Urm", "sh", "-c", &script]).env("LIMULUS", env!("CARGO_BIN_EXE_limulus")).output();
    output.expect("unshare can be started").into()
}

#[test]
fn r10_a_full_disk_loses_nothing_that_was_acknowledged() {
    if !can_mount() {
        eprintln!("skipped: no file system of its own can be mounted here; the limited file stands for it");
        return;
    }
    let home = Home::new();
    let shown = on_a_small_disk(
        &home,
        "$LIMULUS agent --yes -m 'run `echo first >> ledger`' >/dev/null 2>&1; echo first=$?
         head -c 9000000 /dev/zero > $LIMULUS_HOME/filler 2>/dev/null
         $LIMULUS agent --yes -m 'run `echo second >> ledger`' >/dev/null; echo full=$?
         $LIMULUS status >/dev/null 2>&1; echo readable=$?
         rm $LIMULUS_HOME/filler
         $LIMULUS agent --yes -m 'run `echo third >> ledger`' >/dev/null 2>&1; echo freed=$?
         $LIMULUS runs list --json",
    );
    assert!(shown.out.starts_with("first=0\nfull=74\nreadable=0\nfreed=0\n"), "{shown:?}");
    assert!(shown.verdict().contains("no space left"), "{shown:?}");
    assert_eq!(shown.out.matches("\"outcome\": \"completed\"").count(), 2, "{shown:?}");
    assert_eq!(home.text("ledger"), "first\nthird\n");
}

/// A command that fills the disk of the home, and the wait until its run has found out.
const FILLED: &str =
    "$LIMULUS agent --yes -m 'run `echo once >> ledger; head -c 9000000 /dev/zero > '\"$LIMULUS_HOME\"'/filler`' \
     >out 2>err & agent=$!
     until grep -q 'waiting for space' err || ! kill -0 $agent 2>/dev/null; do sleep 0.02; done\n";

/// An owner beside the command.
const SERVED: &str = "$LIMULUS serve >served 2>&1 & owner=$!
     until grep -q serving served || ! kill -0 $owner 2>/dev/null; do sleep 0.02; done\n";

#[test]
fn r10_r13_b8_a_run_on_a_full_disk_waits_and_continues_by_itself() {
    if !can_mount() {
        eprintln!("skipped: no file system of its own can be mounted here");
        return;
    }
    for owner in ["", SERVED] {
        let home = Home::new();
        let script = format!(
            "{owner} {FILLED} $LIMULUS status >/dev/null 2>&1; echo readable=$?
             rm $LIMULUS_HOME/filler
             wait $agent; echo waited=$?
             $LIMULUS agent -m 'Who are you?' >/dev/null 2>&1; echo usable=$?
             $LIMULUS runs list --json
             test -z \"$owner\" || kill $owner"
        );
        let shown = on_a_small_disk(&home, &script);
        assert!(shown.out.starts_with("readable=0\nwaited=0\nusable=0\n"), "{shown:?}\n{}", home.text("err"));
        assert_eq!(home.text("ledger"), "once\n");
        assert_eq!(shown.out.matches("\"outcome\": \"completed\"").count(), 2, "{shown:?}");
        let err = home.text("err");
        if has_waited(&err) {
            assert!(err.contains("no space left in ") && err.contains("needs 1280 KiB"), "{err}");
            assert!(err.contains("there is space again"), "{err}");
        }
    }
}

/// Whether the run needed space. If the command took so long that the WAL was copied into the database meanwhile, the run
/// uses the blocks of the WAL again and needs none.
fn has_waited(err: &str) -> bool {
    err.contains("waiting for space")
}

#[test]
fn r15_b8_a_run_on_a_full_disk_can_be_ended() {
    if !can_mount() {
        eprintln!("skipped: no file system of its own can be mounted here");
        return;
    }
    let home = Home::new();
    let script = format!(
        "{FILLED} kill -INT $agent; wait $agent; echo aborted=$?
         $LIMULUS runs list --json; rm $LIMULUS_HOME/filler
         $LIMULUS agent -m 'Who are you?' >/dev/null 2>&1; echo usable=$?"
    );
    let shown = on_a_small_disk(&home, &script);
    let (code, outcome) = if has_waited(&home.text("err")) { (130, "aborted") } else { (0, "completed") };
    assert!(shown.out.starts_with(&format!("aborted={code}\n")) && shown.out.ends_with("usable=0\n"), "{shown:?}");
    assert_eq!(shown.out.matches(&format!("\"outcome\": \"{outcome}\"")).count(), 1, "{shown:?}");
    assert_eq!(home.text("ledger"), "once\n");
}

#[test]
fn r15_b8_a_run_that_was_killed_can_be_ended_on_a_full_disk() {
    if !can_mount() {
        eprintln!("skipped: no file system of its own can be mounted here");
        return;
    }
    let home = Home::new();
    let script = format!(
        "{FILLED} kill -KILL $agent; wait $agent 2>/dev/null
         $LIMULUS runs abort >/dev/null 2>&1; echo abort=$?
         $LIMULUS runs list --json"
    );
    let shown = on_a_small_disk(&home, &script);
    let has_waited = has_waited(&home.text("err"));
    assert_eq!(shown.out.starts_with("abort=0\n"), has_waited, "{shown:?}");
    let outcome = if has_waited { "aborted" } else { "completed" };
    assert_eq!(shown.out.matches(&format!("\"outcome\": \"{outcome}\"")).count(), 1, "{shown:?}");
}

#[test]
fn r10_a_journal_that_may_not_grow_loses_nothing() {
    let home = Home::new();
    home.assert_usable("main");
    // The signal that goes with the limit is ignored, so that the write fails as on a full disk.
    let limited = |blocks: u32| {
        home.shell(&format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$LIMULUS\" agent -m 'Who are you?'"))
    };
    limited(1).expect_code(74).verdict();
    // Large enough for what there is, and not for the reserve.
    let _ = fs::remove_file(home.path().join("journal.reserve"));
    let full = limited(600).expect_code(74);
    assert!(full.verdict().contains("no space left"), "{full:?}");
    home.assert_usable("main");
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(2));
}

#[test]
fn r18_a_damaged_journal_is_reported_and_not_changed() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("a byte of an entry", |bytes| {
            // The row of the run has an outcome too, and no failure behind it.
            let needle = b"\"outcome\":\"completed\",\"failure\"";
            let at = bytes.windows(needle.len()).position(|found| found == needle).expect("the end of the run");
            bytes[at + b"\"outcome\":\"".len()] = b'x';
        }),
        ("half of it", |bytes| bytes.truncate(bytes.len() / 2)),
        ("its head", |bytes| bytes[..200].fill(0xAA)),
        ("another program's file", |bytes| *bytes = b"this is a diary, dear journal\n".to_vec()),
    ];
    for (what, damage) in damages {
        let home = Home::new();
        home.assert_usable("main");
        let file = home.path().join("journal.db");
        store_uncompressed(&file).unwrap();
        let whole = fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        let said = home.run(&["agent", "-m", "Who are you?"]);
        assert_eq!(said.code, Some(65), "{what}: {said:?}");
        assert_eq!(said.out, "", "{what}");
        said.verdict();
        let reader = home.run(&["runs", "trace"]);
        assert_eq!(reader.code, Some(65), "{what}: {reader:?}");
        // Restored from a backup, it continues.
        for leftover in ["journal.db-wal", "journal.db-shm"] {
            let _ = fs::remove_file(home.path().join(leftover));
        }
        fs::write(&file, &whole).unwrap();
        home.assert_usable("main");
    }
}

#[test]
fn r18_entries_that_are_gone_are_missed() {
    let home = Home::new();
    home.assert_usable("main");
    let file = home.path().join("journal.db");
    let older = fs::read(&file).unwrap();
    home.assert_usable("main");
    fs::write(&file, older).unwrap();
    let said = home.run(&["agent", "-m", "Who are you?"]).expect_code(65);
    assert!(said.err.contains("acknowledged"), "{said:?}");
}
