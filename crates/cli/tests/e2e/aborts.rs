//! An abort ends a run in every state, within its limit. Messages that wait behind it stay.

use model_server::ModelServer;

use crate::support::{Home, is_alive, pids, until};

/// Two processes that ignore SIGTERM, one of them forked away from the other into a session of its own.
const STUBBORN: &str = "run `trap '' TERM; echo $$ >> pids; \
    (setsid sh -c 'echo $$ >> pids; while :; do sleep 0.05; done' &); while :; do sleep 0.05; done`";

/// R15: all processes of a call end, and then the next message starts.
#[test]
fn r15_an_abort_ends_what_ignores_sigterm_and_what_forked_away_and_keeps_the_queue() {
    let home = Home::new();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let agent = home.start(&["agent", "--yes", "--json", "-m", STUBBORN]);
    until("both pids", || pids(&home.file("pids")).len() == 2);
    let behind = home.start(&["agent", "--json", "-m", "tokens=3 Who are you?"]);
    behind.until_line("its acceptance", |line| line["stream"] == "queue" && line["type"] == "accepted");
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0).expect_err("is aborted");
    let left: Vec<u32> = pids(&home.file("pids")).into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(left.is_empty(), "still running: {left:?}");
    agent.finish().expect_code(130);
    behind.finish().expect_code(0);
    let runs = home.json(&["runs", "list"]);
    let outcomes: Vec<_> = runs.as_array().expect("a list").iter().map(|run| run["outcome"].clone()).collect();
    assert_eq!(outcomes, ["aborted", "completed"]);
    assert_eq!(home.exit_records(), 0, "its record is not kept");
}

/// R15: a run that waits for its next attempt, without any running effect, ends too.
#[test]
fn r15_an_abort_reaches_a_run_that_waits_for_its_next_try() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let agent = home.start(&["agent", "--json", "-m", "fail=500x9 retry_after=50 Hello"]);
    agent.until_line("the wait", |line| line["stream"] == "state" && line["type"] == "retry");
    let requests = server.seen().len();
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0).expect_err("is aborted");
    agent.finish().expect_code(130);
    assert_eq!(server.seen().len(), requests, "it is not tried again");
    home.assert_usable("main");
}

/// R34: `--clear` cancels waiting messages together with the run: none of them starts, and each has its receipt.
#[test]
fn r34_an_abort_that_clears_cancels_what_waits_as_well() {
    let home = Home::new();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let agent = home.start(&["agent", "--yes", "--json", "-m", STUBBORN]);
    until("both pids", || pids(&home.file("pids")).len() == 2);
    let sent: Vec<_> = ["one", "two"].iter().map(|text| home.json(&["send", "--mode", "followup", text])).collect();
    home.run(&["runs", "abort", "--session", "main", "--clear"]).expect_code(0).expect_err("2 messages cancelled");
    agent.finish().expect_code(130);
    for sent in sent {
        let receipt = home.json(&["receipt", sent["message"].as_str().expect("an id")]);
        assert_eq!(receipt["state"], "cancelled", "{receipt}");
    }
    assert_eq!(home.json(&["queue", "list"]).as_array().map(Vec::len), Some(0));
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1), "nothing else began");
}

/// R34: the same without an owner: the messages are only in the journal.
#[test]
fn r34_an_abort_that_clears_works_without_an_owner() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "--json", "-m", STUBBORN]);
    until("both pids", || pids(&home.file("pids")).len() == 2);
    let sent = home.json(&["send", "--mode", "followup", "one"]);
    agent.kill();
    home.run(&["runs", "abort", "--session", "main", "--clear"]).expect_code(0).expect_err("1 message cancelled");
    assert_eq!(home.json(&["receipt", sent["message"].as_str().expect("an id")])["state"], "cancelled");
    let runs = home.json(&["runs", "list"]);
    assert_eq!((runs.as_array().map(Vec::len), &runs[0]["outcome"]), (Some(1), &"aborted".into()), "{runs}");
}

/// R15: a command that changes something and leaves sends no request as the owner: nobody would wait for its answer, and the
/// next owner would pay for it again.
#[test]
fn r15_a_command_that_leaves_sends_no_request() {
    let commands: [&[&str]; 11] = [
        &["runs", "abort"],
        &["/stop"],
        &["/new"],
        &["/queue collect"],
        &["send", "/stop"],
        &["send", "tokens=1 And more"],
        &["queue", "mode", "main", "collect"],
        &["runs", "break", "--on", "error"],
        &["runs", "pause"],
        &["budget", "set", "--tokens", "1000000"],
        &["sessions", "rename", "main", "A tide"],
    ];
    for command in commands {
        let server = ModelServer::start().unwrap();
        let home = Home::new().served_by(&server);
        let agent = home.start(&["agent", "-m", "tokens=1 hang=1"]);
        until("a request without an answer", || server.seen().len() == 1);
        home.run(&["send", "--mode", "followup", "tokens=2 Hello"]).expect_code(0);
        agent.kill();
        let changed = home.run(command).expect_code(0);
        assert_eq!(server.seen().len(), 1, "{command:?}");
        if command == ["runs", "abort"] {
            changed
                .expect_err("waiting: 1 message; `limulus resume agent:main:main` or `limulus serve` goes on with it");
        }
    }
}

/// R15: what waited is sent once, by the owner that answers it.
#[test]
fn r15_what_waited_behind_an_aborted_run_is_sent_once() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let agent = home.start(&["agent", "-m", "tokens=1 hang=1"]);
    until("a request without an answer", || server.seen().len() == 1);
    home.run(&["send", "--mode", "followup", "tokens=2 Hello"]).expect_code(0);
    agent.kill();
    home.run(&["runs", "abort"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
    assert_eq!(server.seen().len(), 2);
    home.run(&["send", "tokens=2 Hello"]).expect_code(0);
    assert_eq!(server.seen().len(), 2, "it waits for an owner");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(server.seen().len(), 3);
}

/// R16: `--drop` and `/resume` without an owner do what they start: the message behind the run is answered, once.
#[test]
fn r16_what_a_command_resumes_without_an_owner_it_finishes() {
    for (command, requests) in
        [(&["runs", "resume", "--drop"][..], 2), (&["/resume drop"], 2), (&["/resume"], 3), (&["send", "/resume"], 3)]
    {
        let server = ModelServer::start().unwrap();
        let home = Home::new().served_by(&server).with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
        let agent = home.start(&["agent", "-m", "call:exec {\"command\":\"echo $$ >> pids\"}\ntokens=1"]);
        agent.finish().expect_code(0);
        let before = server.seen().len();
        home.run(&["agent", "--stop-before", "exec", "-m", "call:exec {\"command\":\"true\"}\ntokens=1"])
            .expect_code(6);
        let at_stop = server.seen().len();
        assert_eq!(at_stop, before + 1);
        home.run(&["send", "--mode", "followup", "tokens=2 Hello"]).expect_code(0);
        assert_eq!(server.seen().len(), at_stop, "{command:?}");
        home.run(command).expect_code(0);
        assert_eq!(server.seen().len(), at_stop + requests - 1, "{command:?}");
        home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
        assert_eq!(server.seen().len(), at_stop + requests - 1, "{command:?}");
    }
}

/// R15: of several aborts at once each ends, whichever of them owns the home meanwhile.
#[test]
fn r15_each_of_several_aborts_at_once_ends() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for round in 1..=6 {
        // A fault comes once for each text.
        let agent = home.start(&["agent", "-m", &format!("tokens=1 hang=1 round {round}")]);
        until("a request without an answer", || server.seen().len() == round);
        agent.kill();
        let aborts: Vec<_> = (0..6).map(|_| home.start(&["runs", "abort", "--session", "main"])).collect();
        let codes: Vec<_> = aborts.into_iter().map(|abort| abort.finish().code).collect();
        assert!(codes.contains(&Some(0)) && codes.iter().all(|code| [Some(0), Some(4)].contains(code)), "{codes:?}");
        assert_eq!(home.json(&["runs", "list"])[round - 1]["outcome"], "aborted");
    }
}
