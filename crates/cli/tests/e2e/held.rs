//! A task that holds the thread of all sessions: it is named, and a signal still ends the service. The build with the
//! feature `faults` works at a named point for as long as `LIMULUS_HOLD` says.

use model_server::ModelServer;
use rustix::process::Signal;

use crate::support::{Finished, Home, Process};

/// A service whose thread the first request to a model holds for this long.
fn held(seconds: u32) -> (ModelServer, Home, Process) {
    let server = ModelServer::start().expect("a port");
    let home = Home::new().served_by(&server).with("LIMULUS_HOLD", &format!("request_sent:{seconds}"));
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    // Whether it still gets its answer depends on the moment.
    let _send = home.start(&["send", "tokens=3 Who are you?"]);
    owner.until_err("holds the thread of all sessions");
    (server, home, owner)
}

fn assert_quit(ended: &Finished) {
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.err.contains("/request/1/1 holds"), "it is named: {}", ended.err);
}

#[test]
fn r21_a_held_thread_is_named_and_the_second_signal_ends_the_service_at_once() {
    let (_server, home, owner) = held(600);
    owner.signal(Signal::TERM);
    owner.signal(Signal::INT);
    assert_quit(&owner.finish());
    let home = home.without("LIMULUS_HOLD");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.json(&["runs", "show"])["outcome"], "completed");
}

#[test]
fn r21_one_signal_ends_a_service_whose_thread_is_held() {
    let (_server, _home, owner) = held(600);
    owner.signal(Signal::TERM);
    let ended = owner.finish();
    assert_quit(&ended);
    assert!(ended.err.contains("ends without an orderly shutdown"), "{}", ended.err);
}

#[test]
fn r21_the_end_of_a_held_thread_is_reported_and_status_keeps_it() {
    let (_server, home, owner) = held(3);
    owner.until_err("no longer holds the thread of all sessions");
    let status = home.json(&["status"]);
    let held = &status["owner"]["held"];
    assert!(held["is_over"] == true && held["ms"].as_u64().is_some_and(|ms| ms >= 1_000), "{status}");
    home.run(&["status"]).expect_code(0);
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}
