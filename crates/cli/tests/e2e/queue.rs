//! A message to a session in which a run is under way: what its mode makes of it, told to its sender and to whoever looks.

use serde_json::Value;

use crate::support::{Busy, Home, is_alive, pids};

/// R32: it goes in when the command has ended, into the same run.
#[test]
fn r32_a_steer_is_in_the_next_request_of_the_run_that_is_under_way() {
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
fn r33_an_interrupt_takes_the_place_of_the_run() {
    let mut busy = Busy::new();
    let later = busy.send("followup", "list the files here");
    let sent = busy.send("interrupt", "Who are you?");
    let ended = busy.finish().expect_code(130);
    assert!(ended.err.contains("another message took the run's place"), "{}", ended.err);
    assert_eq!(busy.receipt(&sent)["outcome"], "completed");
    busy.receipt(&later);
    assert_eq!(busy.said()[1..], ["Who are you?", "list the files here"], "it is ahead of what waited");
    assert!(pids(&busy.home.file("pids")).iter().all(|pid| !is_alive(*pid)));
}

/// R34, R36: what waits is shown in order, and can be taken back.
#[test]
fn r34_what_waits_can_be_taken_back_one_by_one_and_all_at_once() {
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

/// R30: a message goes by its own mode, else by its session's, else by the configuration's.
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
