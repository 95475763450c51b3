//! A message to a session with an unfinished run: what its mode does, as its sender and other clients see it.

use std::collections::{BTreeMap, BTreeSet};

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::{Busy, HOLD, Home, Process, is_alive, is_state, pids, until};

/// R32: a steer enters the same run when the command has ended.
#[test]
fn r32_a_steer_is_in_the_next_request_of_the_unfinished_run() {
    let mut busy = Busy::new();
    let sent = busy.send("steer", "Who are you?");
    assert_eq!((&sent["state"], &sent["mode"]), (&"queued".into(), &"steer".into()), "{sent}");
    let waiting = busy.home.json(&["queue", "list"]);
    assert_eq!(waiting[0]["text"], "Who are you?", "{waiting}");
    assert_eq!(waiting[0]["mode"], "steer", "{waiting}");
    busy.let_go();
    let ended = busy.finish().expect_code(0);
    assert!(ended.out.contains("offline model"), "it is answered in that run: {}", ended.out);
    let receipt = busy.receipt(&sent);
    assert_ne!(receipt["run"], sent["message"], "it has no run of its own: {receipt}");
    assert_eq!(busy.home.json(&["runs", "list"]).as_array().expect("a list").len(), 1);
    assert_eq!(busy.home.json(&["queue", "list"]), Value::Array(vec![]));
}

/// R33: one run for both, behind the one that is under way.
#[test]
fn r33_what_is_gathered_is_one_followup() {
    let mut busy = Busy::new();
    let (first, second) = (busy.send("collect", "Who are you?"), busy.send("collect", "list the files here"));
    busy.let_go();
    let ended = busy.finish().expect_code(0);
    assert!(!ended.out.contains("offline model"), "{}", ended.out);
    let (first, second) = (busy.receipt(&first), busy.receipt(&second));
    assert_eq!(first["run"], second["run"], "{first} {second}");
    assert_eq!(busy.home.json(&["runs", "list"]).as_array().expect("a list").len(), 2);
    assert_eq!(busy.said()[1..], ["Who are you?", "list the files here"]);
}

/// R33: the run ends as interrupted, its command with it, and the message is answered.
#[test]
fn r31_r33_an_interrupt_takes_the_place_of_the_run() {
    let mut busy = Busy::new();
    let later = busy.send("followup", "list the files here");
    let sent = busy.send("interrupt", "Who are you?");
    let ended = busy.finish().expect_code(130);
    assert!(ended.err.contains("another message took the run's place"), "{}", ended.err);
    let receipt = busy.receipt(&sent);
    assert_eq!(receipt["outcome"], "completed");
    let runs = busy.home.json(&["runs", "list"]);
    let interrupted = runs.as_array().expect("a list").iter().find(|run| run["outcome"] == "interrupted");
    assert_eq!(Some(&receipt["ends_run"]), interrupted.map(|run| &run["run"]), "it names the run that ended for it");
    assert_eq!(busy.receipt(&later)["ends_run"], Value::Null);
    assert_eq!(busy.said()[1..], ["Who are you?", "list the files here"], "it is ahead of what waited");
    assert!(pids(&busy.home.file("pids")).iter().all(|pid| !is_alive(*pid)));
}

/// R34, R36: waiting messages are listed in order and can be cancelled.
#[test]
fn r34_waiting_messages_can_be_cancelled_one_by_one_and_all_at_once() {
    let mut busy = Busy::new();
    let sent: Vec<Value> = ["one", "two", "three"].iter().map(|text| busy.send("followup", text)).collect();
    let cancelled = busy.home.json(&["queue", "cancel", sent[1]["message"].as_str().expect("a text")]);
    assert_eq!(cancelled["messages"], Value::Array(vec![sent[1]["message"].clone()]));
    let texts = |home: &Home| -> Vec<String> {
        let waiting = home.json(&["queue", "list", "--session", "main"]);
        waiting.as_array().expect("a list").iter().map(|one| one["text"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(texts(&busy.home), ["one", "three"]);
    assert_eq!(busy.home.json(&["queue", "clear", "main"])["messages"].as_array().expect("a list").len(), 2);
    assert_eq!(texts(&busy.home), Vec::<String>::new());
    busy.home.run(&["queue", "cancel", sent[0]["message"].as_str().expect("a text")]).expect_code(4);
    busy.let_go();
    busy.finish().expect_code(0);
    assert_eq!(busy.receipt(&sent[2])["state"], "cancelled");
    assert_eq!(busy.home.json(&["runs", "list"]).as_array().expect("a list").len(), 1);
}

/// R30: the mode of a message is its own, else that of its session, else the configured one.
#[test]
fn r30_the_mode_is_the_messages_own_else_the_sessions_else_the_configurations() {
    let mut busy = Busy::new();
    let agents = Home::new().with("LIMULUS_AGENTS__MAIN__QUEUE", "followup");
    assert_eq!(agents.json(&["send", "by its agent"])["mode"], "followup");
    let mode = |words: &[&str]| {
        let words: Vec<&str> = ["send"].iter().chain(words).copied().collect();
        busy.home.json(&words)["mode"].clone()
    };
    assert_eq!(mode(&["by the configuration"]), "steer");
    assert_eq!(busy.home.json(&["queue", "mode", "main", "collect"])["mode"], "collect");
    assert_eq!(mode(&["by the session"]), "collect");
    assert_eq!(mode(&["--mode", "followup", "by itself"]), "followup");
    assert_eq!(busy.home.json(&["queue", "mode", "main", "default"])["mode"], "steer");
    assert_eq!(mode(&["by the configuration again"]), "steer");
    let refused = busy.home.run(&["send", "--mode", "later", "x"]).expect_code(2);
    assert!(refused.err.contains("steer_backlog"), "{}", refused.err);
    busy.let_go();
    busy.finish().expect_code(0);
}

/// Who waits in another terminal for the run of a message that waits.
fn waiting_for(busy: &Busy, run: &str) -> [Process; 2] {
    let watch = busy.home.start(&["runs", "watch", run, "--json"]);
    watch.until_line("its message", |line| line["stream"] == "queue" && line["type"] == "accepted");
    [watch, busy.home.start(&["runs", "wait", run])]
}

/// R33, R43: commands that watch or wait for a run that never starts report that, and so does the command that sent its
/// message.
#[test]
fn r33_r43_a_wait_for_a_run_ends_when_its_message_is_cancelled() {
    let mut busy = Busy::new();
    let ways: [&[&str]; 3] = [&["queue", "cancel"], &["queue", "clear", "main"], &["sessions", "end", "main"]];
    for words in ways {
        let agent = busy.home.start(&["agent", "--json", "--mode", "followup", "-m", "Who are you?"]);
        let accepted = agent.until_line("its message", |line| line["stream"] == "queue" && line["type"] == "accepted");
        let run = accepted["run"].as_str().expect("an id");
        let [watch, wait] = waiting_for(&busy, run);
        let words: Vec<&str> = words.iter().copied().chain((words[1] == "cancel").then_some(run)).collect();
        busy.home.run(&words).expect_code(0);
        for ended in [agent.finish(), watch.finish()] {
            let ended = ended.expect_code(130);
            assert!(ended.verdict().contains("was cancelled before its run began"), "{ended:?}");
            let last = ended.lines().pop().expect("a last line");
            assert_eq!((&last["type"], &last["state"]), (&"settled".into(), &"cancelled".into()), "{last}");
            assert_eq!(last["run"], run, "{last}");
        }
        // Also if the command starts afterwards.
        busy.home.run(&["runs", "wait", run]).expect_code(130).expect_err("was cancelled before its run began");
        assert_eq!(busy.home.json(&["runs", "explain", run])["state"], "cancelled");
        wait.finish().expect_code(130).expect_err("was cancelled before its run began");
    }
    busy.finish().expect_code(130);
}

/// R11, R33: the command that owned the home says what it leaves behind when its own run has ended.
#[test]
fn r33_a_message_from_another_terminal_that_is_left_behind_is_said() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    let hold = "run `echo $$ >> pids; until test -e further; do sleep 0.02; done`";
    let sent = home.json(&["send", "--mode", "followup", hold]);
    home.put("go", "");
    let ended = agent.finish().expect_code(0);
    let said = "… 1 message from another terminal is unfinished: `limulus resume main` goes on with it";
    assert!(ended.err.contains(said), "{ended:?}");
    home.put("further", "");
    home.run(&["resume", "main"]).expect_code(0);
    assert_eq!(home.json(&["receipt", sent["message"].as_str().expect("an id")])["state"], "ended");
    let alone = home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    assert!(!alone.err.contains("from another terminal"), "{alone:?}");
}

/// R43: the same without an owner.
#[test]
fn r43_a_watcher_without_an_owner_ends_when_the_message_is_cancelled() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    let sent = home.json(&["send", "--mode", "followup", "Who are you?"]);
    agent.kill();
    let run = sent["run"].as_str().expect("an id");
    let (watch, wait) = (home.start(&["runs", "watch", run, "--json"]), home.start(&["runs", "wait", run]));
    watch.until_err("waiting for an owner");
    home.run(&["queue", "cancel", sent["message"].as_str().expect("an id")]).expect_code(0);
    let watched = watch.finish().expect_code(130);
    assert_eq!(watched.lines().pop().expect("a last line")["state"], "cancelled");
    wait.finish().expect_code(130);
    home.put("go", "");
}

/// R33: the run that takes a steer answers it, and a watcher of the steer follows that run.
#[test]
fn r33_who_watches_a_message_that_another_run_takes_watches_that_run() {
    let mut busy = Busy::new();
    let sent = busy.send("steer", "Who are you?");
    let [watch, wait] = waiting_for(&busy, sent["run"].as_str().expect("an id"));
    busy.let_go();
    let run = busy.finish().expect_code(0);
    let watched = watch.finish().expect_code(0).expect_err("is a part of run");
    let last = watched.lines().pop().expect("a last line");
    assert!(run.out.ends_with(last["text"].as_str().expect("a text")) || last["type"] == "end", "{last}");
    wait.finish().expect_code(0).out.contains("completed").then_some(()).expect("it says so");
    // Also if the command starts afterwards. But the id of a merged message does not affect the run.
    let message = sent["message"].as_str().expect("an id");
    busy.home.run(&["runs", "wait", message]).expect_code(0);
    assert_ne!(busy.home.json(&["runs", "show", message])["run"], message);
    busy.home.run(&["runs", "abort", message]).expect_code(4);
}

/// What depends only on the journal: not the position of a reader, nor the number of pieces of a text.
fn recorded(lines: Vec<Value>) -> Vec<Value> {
    let is_piece = |line: &Value| line["type"] == "delta" || line["type"] == "update";
    let kept = lines.into_iter().filter(|line| !is_piece(line) && !is_state(line));
    kept.map(|mut line| {
        line.as_object_mut().expect("an object").remove("cursor");
        line
    })
    .collect()
}

/// The states of each message in order, as `leg state`.
fn shown(lines: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for shows in lines.iter().filter_map(|line| line["queue"].as_array()).flatten() {
        let message = shown.entry(shows["message"].as_str().expect("a text").to_owned()).or_default();
        for leg in ["queue_state", "steer_state"] {
            message.extend(shows[leg].as_str().map(|state| format!("{leg} {state}")));
        }
    }
    shown
}

/// R36: a client that follows a session receives each change of a message's state, and a client that reads it later
/// receives the same. The last state is the one in the receipt.
#[test]
fn r36_live_and_stored_lines_show_the_same_state_of_each_message() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let send = |mode: &str, text: &str| {
        let sent = home.json(&["send", "--mode", mode, text]);
        sent["message"].as_str().expect("a text").to_owned()
    };
    let mut messages = vec![send("followup", "hang=1 tokens=2")];
    let follow = home.start(&["events", "--session", "main", "--follow", "--json"]);
    let until_shown = |message: &str, state: &str| {
        let is_it = |shows: &Value| shows["message"] == message && shows["queue_state"] == state;
        let shows = |line: &Value| line["queue"].as_array().is_some_and(|shows| shows.iter().any(is_it));
        follow.until_line(state, shows);
    };
    until("a request without an answer", || {
        home.json(&["runs", "explain"])["waits_for"].as_str().is_some_and(|what| what.contains("first byte"))
    });
    // It arrives too late for that request, and its run ends before the next one.
    messages.push(send("steer", "tokens=1"));
    until_shown(&messages[1], "waiting");
    home.run(&["runs", "abort"]).expect_code(0);
    until_shown(&messages[1], "completed");
    let hold = json!({ "command": "echo $$ >> pids; until test -e go; do sleep 0.02; done" });
    messages.push(send("followup", &format!("call:exec {hold}\ntokens=1")));
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    messages.push(send("steer", "tokens=1"));
    messages.push(send("steer_backlog", "tokens=1"));
    home.run(&["runs", "pause"]).expect_code(0);
    until_shown(&messages[3], "interrupted");
    home.run(&["runs", "resume"]).expect_code(0);
    until_shown(&messages[3], "steering");
    messages.extend([send("collect", "tokens=1"), send("collect", "tokens=1")]);
    home.put("go", "");
    until_shown(&messages[6], "merged");
    messages.push(send("followup", "tokens=1"));
    let is_last = |line: &Value| line["run"] == messages[7].as_str() && line["type"] == "end";
    follow.until_line("the last end", is_last);
    owner.signal(rustix::process::Signal::TERM);
    owner.finish();
    let live = {
        follow.signal(rustix::process::Signal::INT);
        recorded(follow.finish().lines())
    };
    let again = recorded(home.run(&["events", "--session", "main", "--json"]).expect_code(0).lines());
    assert_eq!(live[..], again[..live.len()]);

    let shown = shown(&live);
    let states: BTreeSet<&str> = shown.values().flatten().filter_map(|shown| Some(shown.split_once(' ')?.1)).collect();
    let all = ["blocked", "collecting", "completed", "delivered", "executing"];
    let all = all.into_iter().chain(["interrupted", "merged", "steering", "validating", "waiting"]);
    assert_eq!(states, all.collect(), "{shown:?}");
    for message in &messages {
        let receipt = home.json(&["receipt", message]);
        let last = |leg: &str| shown[message].iter().rev().find_map(|shown| shown.strip_prefix(leg)?.strip_prefix(' '));
        assert_eq!(receipt["queue_state"].as_str(), last("queue_state"), "{receipt} {shown:?}");
        assert_eq!(receipt["steer_state"].as_str(), last("steer_state"), "{receipt} {shown:?}");
    }
}

/// R15: a message that waits for an owner has no run that could be paused, which is said as it is; `/compact`, which asks a model,
/// says what else it has answered.
#[test]
fn r15_a_message_that_waits_is_said_to_wait() {
    let home = Home::new();
    let run = home.json(&["send", "--session", "q", "Who are you?"])["run"].as_str().unwrap().to_owned();
    for words in [&["runs", "pause"][..], &["runs", "resume"], &["runs", "break", "--before-tool", "exec"]] {
        let refused = home.run(&[words, &[&run]].concat()).expect_code(4);
        refused.expect_err("has not begun: its message waits; `limulus queue list` shows what waits");
    }
    let compacted = home.run(&["send", "--session", "q", "/compact"]);
    compacted.expect_err("this process also answers what waits in agent:main:q: 1 message");
}
