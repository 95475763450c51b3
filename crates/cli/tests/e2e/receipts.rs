//! What became of a message: the same key is the same run, also across `kill -9`, and its receipt says so.

use crate::support::{Home, until};

#[test]
pub(crate) fn a3_r10_r61_a_receipt_and_the_key_of_its_message_outlive_kill_9() {
    let home = Home::new();
    let message = "run `echo $$ >> pids; echo x >> ledger; until test -e go; do sleep 0.02; done`";
    let agent = home.start(&["agent", "--key", "k1", "--yes", "-m", message]);
    until("the command", || !home.text("ledger").is_empty());
    let started = home.json(&["receipt", "k1"]);
    assert_eq!((&started["state"], &started["run_state"]), (&"started".into(), &"tool_exec".into()));
    agent.kill();
    assert_eq!(home.json(&["receipt", "k1"]), started, "nothing of it is lost");
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    let ended = home.json(&["receipt", "k1", "--session", "main"]);
    assert_eq!((&ended["run"], &ended["accepted_at"]), (&started["run"], &started["accepted_at"]));
    assert_eq!((&ended["state"], &ended["outcome"]), (&"ended".into(), &"completed".into()));
    // The sender does not know the outcome and sends the message again.
    home.run(&["agent", "--key", "k1", "--yes", "-m", message]).expect_code(0);
    assert_eq!(home.text("ledger"), "x\n", "it ran once");
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
    assert_eq!(home.json(&["receipt", "k1"]), ended);
    let run = ended["run"].as_str().expect("its run");
    assert_eq!(home.json(&["receipt", run]), ended, "its id names it too");
    let page = home.run(&["receipt", "k1"]).expect_code(0).out;
    assert!(page.contains("(key k1) is ended") && page.contains(&format!("run {run} is completed")), "{page}");
}

#[test]
fn r30_a_receipt_says_what_decided_the_mode_of_its_message() {
    let decided = |home: &Home, key: &str, more: &[&str]| {
        let sent = home.json(&[&["send", "--key", key, "Who are you?"], more].concat());
        let receipt = home.json(&["receipt", key]);
        assert_eq!(sent["mode_by"], receipt["mode_by"]);
        format!("{} by {}", receipt["mode"].as_str().expect("a mode"), receipt["mode_by"].as_str().expect("a source"))
    };
    assert_eq!(decided(&Home::new(), "k1", &[]), "steer by built_in");
    let home = Home::new().with("LIMULUS_QUEUE__MODE", "followup");
    assert_eq!(decided(&home, "k1", &[]), "followup by configuration");
    let home = home.with("LIMULUS_AGENTS__MAIN__QUEUE", "followup");
    assert_eq!(decided(&home, "k2", &[]), "followup by agent");
    home.run(&["queue", "mode", "main", "followup"]).expect_code(0);
    assert_eq!(decided(&home, "k3", &[]), "followup by session");
    assert_eq!(decided(&home, "k4", &["--mode", "followup"]), "followup by message");
    let page = home.run(&["receipt", "k3"]).expect_code(0).out;
    assert!(page.contains("its mode was decided by its session"), "{page}");
}

#[test]
pub(crate) fn r31_a_message_for_another_state_is_refused_and_leaves_nothing() {
    let home = Home::new();
    let refused = home.run(&["send", "--only-if", "active", "--key", "k1", "Who are you?"]).expect_code(3).verdict();
    assert!(refused.contains("only while the session is active"), "{refused}");
    assert_eq!(home.json(&["sessions", "list"]), serde_json::json!([]), "no session was created");
    home.run(&["agent", "--only-if", "idle", "-m", "Who are you?"]).expect_code(0);
    home.run(&["agent", "--only-if", "active", "--key", "k1", "-m", "Who are you?"]).expect_code(3);
    home.run(&["receipt", "k1"]).expect_code(4);
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
pub(crate) fn a3_r61_other_content_under_the_same_key_is_a_conflict_and_changes_nothing() {
    let home = Home::new();
    home.put("a.txt", "eats worms\n");
    home.put("b.txt", "eats clams\n");
    let send = |text: &str, files: &[&str]| {
        let mut words = vec!["agent", "--key", "k1", "-m", text];
        words.extend(files.iter().flat_map(|file| ["--attach", file]));
        home.run(&words)
    };
    let first = send("What does it eat?", &["a.txt"]).expect_code(0);
    for (text, files) in [
        ("What does it drink?", &["a.txt"][..]),
        ("What does it eat?", &["b.txt"]),
        ("What does it eat?", &[]),
        ("What does it eat?", &["a.txt", "b.txt"]),
    ] {
        let refused = send(text, files).expect_code(3).verdict();
        assert!(refused.contains("key `k1` was used for another message") && refused.contains("new key"), "{refused}");
    }
    assert_eq!(send("What does it eat?", &["a.txt"]).expect_code(0).out, first.out);
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a3_r61_a_message_that_was_never_acknowledged_has_no_receipt() {
    let home = Home::new();
    home.run(&["receipt", "k1"]).expect_code(4).expect_err("no journal");
    home.run(&["agent", "--key", "k1", "-m", "tokens=3 Who are you?"]).expect_code(0);
    home.run(&["agent", "--session", "other", "--key", "k1", "-m", "tokens=3 Who are you?"]).expect_code(0);
    home.run(&["receipt", "k2"]).expect_code(4).expect_err("no message was sent with the key `k2`");
    let id = "00000000-0000-0000-0000-000000000000";
    home.run(&["receipt", id]).expect_code(4).expect_err(&format!("there is no message {id}"));
    home.run(&["receipt", "k1", "--session", "nobody"]).expect_code(4).expect_err("no session `agent:main:nobody`");
    // A key belongs to its session.
    home.run(&["receipt", "k1"]).expect_code(2).expect_err("used in 2 sessions: agent:main:main, agent:main:other");
    assert_eq!(home.json(&["receipt", "k1", "--session", "other"])["session_key"], "agent:main:other");
}
