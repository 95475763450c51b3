//! Clients beside an owner: what they owe each other, and what they take.

use std::fs;

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Home, Process, RawClient, until};

/// A service, and when it listens.
fn serving(home: &Home) -> Process {
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    owner
}

/// A field of `/proc/PID/status`.
fn status_of(process: &Process, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap_or_default();
    let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_default().trim().to_owned()
}

/// Waits until the process handles SIGTERM itself.
fn until_it_hears(process: &Process) {
    let caught = || u64::from_str_radix(&status_of(process, "SigCgt"), 16).unwrap_or_default();
    until("a handler of SIGTERM", || caught() & (1 << (Signal::TERM.as_raw() - 1)) != 0);
}

/// R21: the owner is stopped before the client is there, and while the client follows a run. The first signal ends the client,
/// and the run is the owner's.
#[test]
fn r21_a_client_of_a_stopped_owner_ends_at_its_first_signal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let server = ModelServer::start().expect("a port");
        let home = Home::new().served_by(&server);
        let owner = serving(&home);
        let follows = home.start(&["agent", "--json", "-m", "stall=3x1 tokens=12"]);
        follows.until_said("word2");
        owner.signal(Signal::STOP);
        let agent = home.start(&["agent", "--wait", "--session", "other", "-m", "tokens=3"]);
        let send = home.start(&["send", "--wait", "--session", "other", "tokens=3"]);
        for client in [follows, agent, send] {
            until_it_hears(&client);
            client.signal(signal);
            client.finish().expect_code(code);
        }
        owner.signal(Signal::CONT);
        until("the owner goes on", || home.run(&["status"]).code == Some(0));
        owner.signal(Signal::TERM);
        owner.finish().expect_code(0);
    }
}

/// R15, R21: the owner is stopped after it has accepted an abort and before the run has ended.
#[test]
fn r15_r21_a_client_whose_owner_stops_during_an_abort_ends() {
    let home = Home::new();
    let owner = serving(&home);
    // The command ignores SIGTERM, so the abort waits for its SIGKILL.
    let stays = "run `trap '' TERM; echo x > begun; while :; do sleep 0.05; done`";
    let agent = home.start(&["agent", "--yes", "--json", "-m", stays]);
    until("the command", || home.file("begun").exists());
    agent.signal(Signal::INT);
    agent.until_line("the abort in the journal", |line| line["type"] == "ending");
    owner.signal(Signal::STOP);
    agent.finish().expect_code(130).expect_err("does not answer");
    owner.signal(Signal::CONT);
    until("the end of the run", || home.json(&["runs", "show"])["outcome"] == "aborted");
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// R60: the journal, the audit log and the lines of events name the client and the process that answered.
#[test]
fn r60_the_journal_names_the_client_and_the_process_that_allowed_or_denied() {
    for allow in [true, false] {
        let home = Home::new();
        let _owner = serving(&home);
        let mut approver = RawClient::with_caps(&home, &["asks"]);
        approver.ask("events.subscribe", &json!({ "session": "main" }));
        let agent = home.start(&["agent", "-m", "run `echo ran >> ledger`"]);
        let asked = approver.until(|frame| frame["event"] == "ask")["payload"].clone();
        let (call, fingerprint) = (&asked["call"], &asked["fingerprint"]);
        approver.ask("approvals.resolve", &json!({ "call": call, "fingerprint": fingerprint, "allow": allow }));
        agent.finish().expect_code(0);
        assert_eq!(home.text("ledger"), if allow { "ran\n" } else { "" });
        let pid = std::process::id();
        let name = fs::read_to_string("/proc/self/comm").expect("a name");
        let by = format!("the user, in test, process {pid} ({})", name.trim());
        let events = home.run(&["events", "--session", "main", "--json"]).expect_code(0).lines();
        let answered = events.iter().find(|line| line["type"] == "answered").expect("an answer");
        assert_eq!((&answered["by"], &answered["allow"]), (&json!(by), &json!(allow)), "{answered}");
        let log: Vec<Value> = home.run(&["audit", "--json"]).expect_code(0).lines();
        assert!(
            log.iter().any(|entry| entry["event"] == "ask_answered" && entry.to_string().contains(&by)),
            "{by}: {log:?}"
        );
        assert!(home.run(&["runs", "trace"]).expect_code(0).out.contains(&by), "{by}");
    }
}

/// R43: a client that asks for a long history again and again, and only then reads. Its answers are read one by one.
#[test]
fn r43_a_client_that_asks_sixty_times_at_once_costs_no_more_than_one_that_asks_once() {
    const TIMES: usize = 60;
    const MOST_KIB: u64 = 350_000;
    let server = ModelServer::start().expect("a port");
    let home = Home::new().served_by(&server);
    let owner = serving(&home);
    home.run(&["agent", "-m", "prose=3000000"]).expect_code(0);
    let run = home.json(&["runs", "show"])["run"].clone();
    for (method, params, last) in [
        ("events.subscribe", json!({ "session": "main", "whole": true }), "\"stream\":\"lifecycle\",\"type\":\"end\""),
        ("agent.wait", json!({ "runId": run }), "\"status\":\"ok\""),
    ] {
        let mut client = RawClient::to(&home);
        (0..TIMES).for_each(|_| client.say(method, &params));
        let mut answers = 0;
        while answers < TIMES {
            let line = client.line().expect("the connection goes on");
            answers += usize::from(line.contains(last));
        }
        let peak: u64 = status_of(&owner, "VmHWM").trim_end_matches(" kB").parse().expect("a number");
        assert!(peak < MOST_KIB, "{method}: {peak} KiB");
    }
}
