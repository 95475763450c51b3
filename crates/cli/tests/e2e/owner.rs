//! A home has one owner; anyone may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Process, until};

/// A run that executes until the file `go` exists.
fn busy(home: &Home) -> Process {
    let command = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";
    let agent = home.start(&["agent", "--session", "busy", "--yes", "-m", command]);
    until("the command", || home.file("pids").exists());
    agent
}

/// R10, R61: an owner that responds serves other commands; a stopped one is named.
#[test]
fn r10_r61_an_owner_that_does_not_answer_is_named() {
    let home = Home::new();
    let agent = busy(&home);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    agent.signal(Signal::STOP);
    for words in [
        &["agent", "-m", "Who are you?"][..],
        &["resume"],
        &["runs", "abort", "--session", "busy"],
        &["sessions", "end", "busy"],
    ] {
        let refused = home.run(words).expect_code(75);
        let verdict = refused.verdict();
        assert!(verdict.contains(&format!("pid {}", agent.pid())) && verdict.contains("--wait"), "{verdict}");
    }
    agent.signal(Signal::CONT);
    home.put("go", "");
    agent.finish().expect_code(0);
    home.assert_usable("main");
}

#[test]
fn r61_wait_waits_for_the_owner_and_then_runs() {
    let home = Home::new();
    let agent = busy(&home);
    agent.signal(Signal::STOP);
    let waiting = home.start(&["agent", "--wait", "-m", "Who are you?"]);
    waiting.until_err("waiting");
    agent.signal(Signal::CONT);
    home.put("go", "");
    agent.finish().expect_code(0);
    let answer = waiting.finish().expect_code(0);
    assert!(answer.out.contains("offline model"), "{answer:?}");
}

/// Stops the owner, takes its lock file away as an impatient administrator would, and lets another one work in the
/// home.
fn taken_over(home: &Home, owner: &Process) {
    for _ in 0..20 {
        owner.signal(Signal::STOP);
        fs::remove_file(home.path().join("owner.lock")).expect("the owner has a lock file");
        let mut other =
            home.program(env!("CARGO_BIN_EXE_limulus"), &["agent", "--session", "other", "-m", "Who are you?"]);
        let other = other.env("LIMULUS_OFFLINE__PACE_MS", "0").output().expect("limulus can be started");
        let other = crate::support::Finished::from(other);
        if other.code == Some(0) {
            return;
        }
        // Stopped in the middle of a transaction, it still keeps others from writing.
        other.expect_code(74).expect_err("locked");
        owner.signal(Signal::CONT);
        let received = owner.pieces();
        until("the next piece", || owner.pieces() > received);
    }
    panic!("it was in a transaction whenever it was stopped");
}

#[test]
fn r10_a7_an_owner_that_slept_while_another_took_over_appends_nothing_more() {
    let home = Home::new().paced(1000);
    let sleeper = home.start(&["agent", "--json", "-m", "Tell me a story."]);
    sleeper.until_text(1);
    taken_over(&home, &sleeper);
    let trace = || home.run(&["runs", "trace", "--session", "main", "--json"]).expect_code(0).out;
    let heads = || home.json(&["sessions", "list"]);
    let (before, sessions) = (trace(), heads());
    sleeper.signal(Signal::CONT);
    let ended = sleeper.finish().expect_code(75);
    assert!(ended.verdict().contains("this process was owner"), "{ended:?}");
    assert_eq!((trace(), heads()), (before, sessions), "something of it is in the journal");
    // The chain is intact, and the next owner resumes the run.
    home.paced(0).run(&["resume"]).expect_code(0);
}

#[test]
fn r22_readers_work_while_another_process_owns_the_home() {
    let home = Home::new();
    let agent = busy(&home);
    let status = home.json(&["status"]);
    assert_eq!(status["owner"]["pid"].as_u64(), Some(u64::from(agent.pid())), "{status}");
    assert_eq!(status["unfinished"][0]["run_state"], "tool_exec", "{status}");
    let key = Value::from("agent:main:busy");
    assert_eq!(home.json(&["sessions", "list"])[0]["key"], key);
    assert_eq!(home.json(&["sessions", "show", "busy"])["run_state"], "tool_exec");
    let run = home.json(&["runs", "list"])[0]["run"].as_str().map(str::to_owned).expect("a run");
    assert_eq!(home.json(&["runs", "show", &run])["state"], "tool_exec");
    assert!(home.run(&["runs", "trace", &run]).expect_code(0).out.contains("call_started"));
    assert!(home.run(&["graph", "--run", &run]).expect_code(0).out.contains("tool_exec"));
    home.put("go", "");
    agent.finish().expect_code(0);
    assert_eq!(home.json(&["status"])["owner"], Value::Null);
}

#[test]
fn r22_readers_work_in_a_home_that_cannot_be_written() {
    let home = Home::new();
    home.assert_usable("main");
    let mode = |mode| fs::set_permissions(home.path(), Permissions::from_mode(mode)).unwrap();
    mode(0o500);
    for words in [
        &["status"][..],
        &["sessions", "list"],
        &["sessions", "show", "main"],
        &["runs", "list"],
        &["runs", "show"],
        &["runs", "trace"],
    ] {
        home.run(words).expect_code(0);
    }
    mode(0o700);
}

#[test]
fn r15_abort_ends_an_unfinished_run_without_an_owner() {
    let home = Home::new();
    busy(&home).kill();
    let pids = crate::support::pids(&home.file("pids"));
    assert!(crate::support::is_alive(pids[0]), "the command continues");
    home.run(&["runs", "abort", "--session", "busy"]).expect_code(0).expect_err("aborted");
    assert!(!crate::support::is_alive(pids[0]), "its command is ended");
    assert_eq!(home.json(&["runs", "show", "--session", "busy"])["outcome"], "aborted");
    // Nothing is left to abort, and the command reports that.
    home.run(&["runs", "abort", "--session", "busy"]).expect_code(4);
    home.assert_usable("busy");
}

/// The owner is killed while a command waits for it: that command finishes what was unfinished, and reports what became of
/// its own message.
#[test]
fn r11_r61_a_message_whose_sender_took_the_home_over_is_reported_as_it_is_in_the_end() {
    let home = Home::new();
    let agent = busy(&home);
    agent.signal(Signal::STOP);
    let words = ["send", "--wait", "--session", "busy", "--mode", "followup", "--json", "Who are you?"];
    let sender = home.start(&words);
    sender.until_err("waiting");
    agent.kill();
    sender.until_err("this process continues until nothing of agent:main:busy is unfinished");
    home.put("go", "");
    let sent = sender.finish().expect_code(0);
    let sent: Value = serde_json::from_str(&sent.out).expect("JSON");
    let receipt = home.json(&["receipt", sent["message"].as_str().expect("an id")]);
    assert_eq!((&sent["state"], &sent["run"]), (&receipt["state"], &receipt["run"]), "{sent} {receipt}");
    assert_eq!((&sent["state"], &sent["ahead"]), (&"ended".into(), &Value::Null), "{sent}");
}
