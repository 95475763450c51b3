//! A command that owns the home and leaves it: what other clients have asked for is paid for once.

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Process};

fn is_accepted(line: &Value) -> bool {
    line["stream"] == "queue" && line["type"] == "accepted"
}

/// The requests for the answer to the message with this word.
fn requests(server: &ModelServer, word: &str) -> usize {
    server.seen().iter().filter(|seen| seen.script.contains(word)).count()
}

/// A command that answers for two seconds.
fn first(home: &Home) -> Process {
    let first = home.start(&["agent", "--json", "-m", "tokens=5 delay_ms=400 First"]);
    first.until_text(1);
    first
}

/// A command of another client, whose answer of so many words takes a fifth of a second for each and has begun.
fn other(home: &Home, words: u32) -> Process {
    let message = format!("tokens={words} delay_ms=200 Other");
    let other = home.start(&["agent", "--session", "other", "--json", "-m", &message]);
    other.until_text(1);
    other
}

/// R15, R35: a command that leaves gives its slot to no run of another client, whose request the next owner would send again.
#[test]
fn r15_r35_a_command_that_leaves_starts_no_run_of_another_client() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_LANES__MAIN", "1").with("LIMULUS_SERVE__DRAIN_S", "1");
    let first = first(&home);
    let other = home.start(&["agent", "--session", "other", "--json", "-m", "tokens=20 delay_ms=200 Other"]);
    other.until_line("its acceptance", is_accepted);
    first.finish().expect_code(0);
    other.finish().expect_code(0);
    assert_eq!(requests(&server, "Other"), 1);
}

/// R15: an answer that another client waits for is completed first; that is said.
#[test]
fn r15_a_command_that_leaves_completes_the_answer_of_another_client() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let first = first(&home);
    let other = other(&home, 25);
    first.finish().expect_code(0).expect_err("an answer in progress is completed first (10 s at most)");
    other.finish().expect_code(0);
    assert_eq!(requests(&server, "Other"), 1);
}

/// R15: Ctrl-C leaves at once meanwhile, with the result that the command had.
#[test]
fn r15_a_command_that_completes_the_answer_of_another_client_leaves_at_once_when_it_is_told_to() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = ModelServer::start().unwrap();
        let home = Home::new().served_by(&server).with("LIMULUS_SERVE__DRAIN_S", "3600");
        let first = first(&home);
        let other = other(&home, 9000);
        first.until_err("an answer in progress is completed first");
        first.signal(signal);
        first.finish().expect_code(0);
        other.until_err("this process continues");
        home.run(&["runs", "abort", "--session", "other"]).expect_code(0);
        other.finish().expect_code(130);
    }
}

/// R15: a command that finds an owner which completes an answer says so, and waits as long as that may take.
#[test]
fn r15_a_command_waits_for_an_owner_that_completes_an_answer() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_SERVE__DRAIN_S", "60");
    let first = first(&home);
    let other = other(&home, 45);
    first.until_err("an answer in progress is completed first");
    let third = home.run(&["agent", "--session", "third", "-m", "tokens=1 Third"]).expect_code(0);
    assert!(third.err.contains("; waiting"), "{third:?}");
    first.finish().expect_code(0);
    other.finish().expect_code(0);
    assert_eq!((requests(&server, "Other"), requests(&server, "Third")), (1, 1));
}

/// R15: of many commands that only change something, each may become the owner after another one of them, and none executes
/// what a killed owner has left.
#[test]
fn r15_of_many_changes_at_once_none_sends_a_request() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let agent = first(&home);
    agent.kill();
    let modes = ["followup", "collect", "steer"].iter().cycle().take(12);
    let changes: Vec<_> = modes.map(|mode| home.start(&["queue", "mode", "main", mode])).collect();
    for change in changes {
        let done = change.finish().expect_code(0);
        assert!(!done.err.contains("continues until nothing"), "{done:?}");
    }
    assert_eq!(requests(&server, "First"), 1);
    home.run(&["resume"]).expect_code(0);
    assert_eq!(requests(&server, "First"), 2);
}

/// R15: a message to an owner that is a command says so.
#[test]
fn r15_a_message_to_an_owner_that_leaves_says_what_answers_it_then() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let first = first(&home);
    let sent = home.run(&["send", "--session", "other", "tokens=1 Other"]).expect_code(0);
    assert!(
        sent.out.contains("the owner is a command: if that ends first, `limulus resume agent:main:other`"),
        "{sent:?}"
    );
    first.finish().expect_code(0);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let sent = home.run(&["send", "--session", "other", "tokens=1 Again"]).expect_code(0);
    assert!(!sent.out.contains("the owner is a command"), "{sent:?}");
}

/// R15: a chat command waits for the owner after one that leaves.
#[test]
fn r15_a_chat_command_waits_for_an_owner_that_completes_an_answer() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_SERVE__DRAIN_S", "60");
    let first = first(&home);
    let other = other(&home, 25);
    first.until_err("an answer in progress is completed first");
    home.run(&["agent", "--session", "main", "-m", "/new"]).expect_code(0);
    first.finish().expect_code(0);
    other.finish().expect_code(0);
}

/// R15: a service that starts meanwhile waits for the answer too.
#[test]
fn r15_a_service_waits_for_an_owner_that_completes_an_answer() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_SERVE__DRAIN_S", "60");
    let first = first(&home);
    let other = other(&home, 45);
    first.until_err("an answer in progress is completed first");
    let service = home.start(&["serve"]);
    service.until_err("serving");
    first.finish().expect_code(0);
    other.finish().expect_code(0);
    assert_eq!(requests(&server, "Other"), 1);
}
