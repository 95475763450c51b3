//! Chat commands in the text of a message: answered at once, without a model, whatever the session is doing.

use model_server::ModelServer;

use crate::support::{Busy, Home, is_alive, pids, until};

/// The response to a message.
#[track_caller]
fn say(home: &Home, text: &str) -> String {
    home.run(&["agent", "-m", text]).expect_code(0).out
}

/// R62: commands do not reach the model and start no run.
#[test]
pub(crate) fn r62_commands_are_answered_without_a_model_and_hold_for_the_next_run() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", "tokens=3 Hello"]).expect_code(0);
    let requests = server.seen().len();
    assert!(say(&home, "/status").contains("model: acme/scripted (as configured)"));
    assert!(say(&home, "/model acme/other").contains("acme/other (for this session)"));
    assert!(say(&home, "/think high").contains("high (for this session)"));
    assert!(say(&home, "/queue collect").contains("collect (for this session)"));
    assert!(say(&home, "/verbose on").contains("on (for this session)"));
    let status = say(&home, "/status");
    for part in ["idle; 0 messages waiting", "model: acme/other", "thinking: high", "queue: collect", "verbose: on"] {
        assert!(status.contains(part), "{part:?} is not in {status}");
    }
    assert!(say(&home, "/usage").contains("acme/scripted: 1 run, "));
    assert_eq!(server.seen().len(), requests, "no model was asked");
    assert_eq!(home.json(&["runs", "list"]).as_array().expect("a list").len(), 1);
    home.run(&["agent", "-m", "tokens=3 And now?"]).expect_code(0);
    assert_eq!(home.json(&["runs", "list"])[1]["model"], "acme/other");
    assert!(say(&home, "/model default").contains("acme/scripted (as configured)"));
    let response = home.json(&["send", "/queue default"]);
    assert_eq!(response["status"], "command", "{response}");
    assert!(response["text"].as_str().is_some_and(|text| text.contains("steer (as configured)")), "{response}");
}

/// R62: a setting of a session applies to everyone who follows its runs.
#[test]
pub(crate) fn r62_a_session_that_is_verbose_shows_what_its_calls_give() {
    let home = Home::new();
    home.put("notes.txt", "the tide\nis out\n");
    let err = |home: &Home| home.run(&["agent", "-m", "read notes.txt"]).expect_code(0).err;
    assert!(!err(&home).contains("│ the tide"));
    say(&home, "/verbose on");
    let response = err(&home);
    assert!(response.contains("  │ the tide\n  │ is out\n"), "{response}");
    say(&home, "/verbose default");
    assert!(!err(&home).contains("│ the tide"));
}

/// R62: an invalid value is refused with the list of valid ones, and changes nothing.
#[test]
fn r62_a_command_that_makes_no_sense_says_what_does() {
    let home = Home::new();
    home.run(&["agent", "-m", "/status"]).expect_code(4);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    for (command, part) in [
        ("/model nobody/knows", "limulus models list"),
        ("/think enormous", "xhigh"),
        ("/queue later", "steer_backlog"),
        ("/verbose perhaps", "there are: on, off, default"),
    ] {
        home.run(&["agent", "-m", command]).expect_code(2).expect_err(part);
    }
    for unknown in ["/stat", "/fix-it now", "/LEAVE"] {
        let refused = home.run(&["agent", "-m", unknown]).expect_code(2);
        let word = unknown.split(' ').next().expect("a word");
        let said = format!("there is no command {word}");
        assert!(refused.err.contains(&said) && refused.err.contains("/new, /reset, /clear, /stop"), "{refused:?}");
    }
    let list = say(&home, "/help");
    assert!(list.contains("/new, /reset, /clear: begins") && list.contains("/usage, /cost: shows"), "{list}");
    assert_eq!(say(&home, "/cost"), say(&home, "/usage"));
    for command in ["/pause", "/resume"] {
        home.run(&["agent", "-m", command]).expect_code(4).expect_err("no run is active in agent:main:main");
    }
    assert!(say(&home, "/stop").contains("no run is active"));
    assert!(say(&home, "/status").contains("model: offline/offline (as configured)"));
    let path = home.run(&["agent", "-m", "/etc/hostname is what?"]).expect_code(3);
    assert!(!path.out.contains("/etc/hostname is what"), "a path is no command: {path:?}");
    assert_eq!(home.json(&["runs", "list"]).as_array().expect("a list").len(), 2);
}

/// R62: the old conversation is no longer sent; the text after the command starts the new one.
#[test]
pub(crate) fn r62_a_new_conversation_begins_with_what_follows_the_command() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", "tokens=3 The word is heron."]).expect_code(0);
    home.run(&["agent", "-m", "/new tokens=3 What is the word?"]).expect_code(0);
    let seen = server.seen();
    assert_eq!(seen[1].messages, seen[0].messages, "nothing of before is sent");
    assert_eq!(seen[1].script, "tokens=3 What is the word?");
    assert!(say(&home, "/reset").contains("a new conversation begins"));
}

/// R62: commands are handled before the queue, so they work during a run.
#[test]
fn r62_a_run_is_paused_resumed_and_stopped_from_the_chat() {
    let mut busy = Busy::new();
    assert!(say(&busy.home, "/pause").contains("/resume continues it"));
    assert_eq!(busy.explained()["state"], "paused");
    assert!(say(&busy.home, "/status").contains("a human to resume it"));
    assert!(say(&busy.home, "/resume").contains("continues"));
    let later = busy.send("followup", "Who are you?");
    let stopped = say(&busy.home, "/stop");
    assert!(stopped.contains("has ended"), "{stopped}");
    busy.finish().expect_code(130);
    assert!(pids(&busy.home.file("pids")).iter().all(|pid| !is_alive(*pid)));
    assert_eq!(busy.receipt(&later)["outcome"], "completed", "what waited is next");
}

/// R32, R36: the steer prefix is configured, and each waiting message shows its state.
#[test]
fn r36_a_waiting_message_shows_its_state_and_a_steer_has_the_configured_prefix() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_QUEUE__STEER_PREFIX", "(meanwhile) ");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let run = home.start(&["agent", "--json", "-m", "tokens=400 delay_ms=20 Hello"]);
    run.until_text(3);
    home.run(&["send", "tokens=3 And this?"]).expect_code(0);
    let later = home.json(&["send", "--mode", "followup", "tokens=3 Later."]);
    home.run(&["send", "--mode", "collect", "tokens=3 Sometime."]).expect_code(0);
    let waiting = home.json(&["queue", "list"]);
    let states: Vec<_> = waiting.as_array().expect("a list").iter().map(|one| one["queue_state"].clone()).collect();
    assert_eq!(states[..2], ["steering", "blocked"], "{waiting}");
    assert!(["collecting", "validating"].iter().any(|state| states[2] == *state), "{waiting}");
    run.finish().expect_code(0);
    let message = later["message"].as_str().expect("a text");
    until("the end of the followup", || home.json(&["receipt", message])["state"] == "ended");
    assert_eq!(home.json(&["receipt", message])["queue_state"], "completed");
    let said: Vec<String> = server.seen().into_iter().map(|seen| seen.script).collect();
    assert!(said.iter().any(|text| text == "(meanwhile) tokens=3 And this?"), "{said:?}");
}

/// R62, R17: `/diff` shows what the last run changed, `/undo` takes it back with the checks of `limulus undo`.
#[test]
pub(crate) fn r62_changes_of_files_are_shown_and_taken_back_from_the_chat() {
    let home = Home::new();
    home.put("pond.txt", "frogs\n");
    home.run(&["write \"crabs\" to pond.txt"]).expect_code(0);
    let diff = say(&home, "/diff");
    assert!(diff.contains("-frogs") && diff.contains("+crabs") && diff.contains("1 file changed, +1 −1"), "{diff}");
    for more in ["/undo --dry-run", "/UNDO only one file", "/diff x", "/exit now"] {
        home.run(&["agent", "-m", more]).expect_code(2).expect_err("take nothing behind them");
    }
    let undone = home.run(&["/undo"]).expect_code(0).out;
    assert!(undone.contains("restored pond.txt") && undone.contains("limulus redo"), "{undone}");
    assert_eq!(std::fs::read_to_string(home.file("pond.txt")).unwrap(), "frogs\n");
    home.run(&["/undo"]).expect_code(3).expect_err("no changes of files");
    home.run(&["write \"shells\" to pond.txt"]).expect_code(0);
    home.put("pond.txt", "mine\n");
    home.run(&["/undo"]).expect_code(3).expect_err("changed");
    assert_eq!(std::fs::read_to_string(home.file("pond.txt")).unwrap(), "mine\n");
}

/// R62: `/exit` ends a client and nothing else.
#[test]
fn r62_exit_ends_the_client_alone() {
    let mut busy = Busy::new();
    busy.home.run(&["/exit"]).expect_code(0);
    assert_eq!(busy.explained()["state"], "tool_exec");
    busy.let_go();
    busy.finish().expect_code(0);
}

/// R10: a key makes a message the same one. A command has no run to be the same, so a key beside it is refused, and nothing is done.
#[test]
pub(crate) fn r10_a_key_beside_a_command_is_refused() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for name in ["a", "b"] {
        let text = format!("call:write {{\"path\":\"{name}\",\"content\":\"1\"}}\ntokens=2");
        home.run(&["--yes", &text]).expect_code(0);
    }
    let commands =
        ["/undo", "/diff", "/exit", "/clear", "/stop", "/compact", "/model acme/other", "/undo more", "/HELP"];
    for command in commands {
        for words in [&["agent", "--key", "k", "-m", command][..], &["send", "--key", "k", command]] {
            let refused = home.run(words).expect_code(2);
            assert!(refused.err.contains("--key is for messages, and /"), "{words:?}: {}", refused.err);
        }
    }
    assert!(home.file("a").exists() && home.file("b").exists(), "nothing was undone");
    home.run(&["/undo"]).expect_code(0);
    assert!(home.file("a").exists() && !home.file("b").exists());
    // The text behind it is the message.
    for _ in 0..2 {
        home.run(&["agent", "--key", "k", "-m", "/new tokens=2 Hello"]).expect_code(0);
    }
    assert_eq!(home.json(&["runs", "list"]).as_array().expect("a list").len(), 3);
}
