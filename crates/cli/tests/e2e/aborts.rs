//! An abort reaches whatever a run is doing, and ends it within its limit. What waits behind it stays.

use model_server::ModelServer;

use crate::support::{Home, is_alive, pids, until};

/// Two processes that ignore SIGTERM, one of them forked away from the other into a session of its own.
const STUBBORN: &str = "run `trap '' TERM; echo $$ >> pids; \
    (setsid sh -c 'echo $$ >> pids; while :; do sleep 0.05; done' &); while :; do sleep 0.05; done`";

/// R15: the whole tree of a call is ended, and the message behind it begins then.
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

/// R15: nothing is under way while a failed request waits for its next try; the run ends all the same.
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

/// R34: `--clear` takes back what waits together with the run: nothing of it begins, and each message has its receipt.
#[test]
fn r34_an_abort_that_clears_takes_back_what_waits_as_well() {
    let home = Home::new();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let agent = home.start(&["agent", "--yes", "--json", "-m", STUBBORN]);
    until("both pids", || pids(&home.file("pids")).len() == 2);
    let sent: Vec<_> = ["one", "two"].iter().map(|text| home.json(&["send", "--mode", "followup", text])).collect();
    home.run(&["runs", "abort", "--session", "main", "--clear"]).expect_code(0).expect_err("2 messages taken back");
    agent.finish().expect_code(130);
    for sent in sent {
        let receipt = home.json(&["receipt", sent["message"].as_str().expect("an id")]);
        assert_eq!(receipt["state"], "cancelled", "{receipt}");
    }
    assert_eq!(home.json(&["queue", "list"]).as_array().map(Vec::len), Some(0));
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1), "nothing else began");
}

/// R34: the same where nobody owns the home: the messages wait in the journal alone.
#[test]
fn r34_an_abort_that_clears_works_without_an_owner() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "--json", "-m", STUBBORN]);
    until("both pids", || pids(&home.file("pids")).len() == 2);
    let sent = home.json(&["send", "--mode", "followup", "one"]);
    agent.kill();
    home.run(&["runs", "abort", "--session", "main", "--clear"]).expect_code(0).expect_err("1 message taken back");
    assert_eq!(home.json(&["receipt", sent["message"].as_str().expect("an id")])["state"], "cancelled");
    let runs = home.json(&["runs", "list"]);
    assert_eq!((runs.as_array().map(Vec::len), &runs[0]["outcome"]), (Some(1), &"aborted".into()), "{runs}");
}
