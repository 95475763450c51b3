//! The client in `docs/examples/client`, in Python: it shares nothing with us but the protocol.

use std::path::Path;
use std::process::Command;

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Home, Process};

/// The Python to use, if there is one; where it was promised, its lack is a failure.
fn python() -> Option<String> {
    let named = std::env::var("READER_PYTHON").ok();
    let python = named.clone().unwrap_or_else(|| "python3".to_owned());
    let is_there = Command::new(&python).arg("--version").output().is_ok_and(|output| output.status.success());
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(is_there || !is_ci || named.is_none(), "{python} cannot be started");
    if !is_there {
        eprintln!("skipped: no Python");
    }
    is_there.then_some(python)
}

fn serve(home: &Home) -> Process {
    let service = home.start(&["serve", "--json"]);
    service.until_line("ready", |line| line["type"] == "ready");
    service
}

fn ask(home: &Home, python: &str, message: &str) -> Process {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/client/ask.py");
    let (program, folder) = (program.display().to_string(), home.path().display().to_string());
    Process::spawn(home.program(python, &["-B", &program, &folder, "main", message]))
}

#[test]
fn r43_r60_a_client_of_sixty_lines_continues_where_it_was_when_the_owner_is_killed() {
    let Some(python) = python() else { return };
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let service = serve(&home);
    let client = ask(&home, &python, "stall=3x1 tokens=12");
    client.until_err("word2");
    service.kill();
    let service = serve(&home);
    let followed = client.finish().expect_code(0);
    let run = home.json(&["runs", "show"]);
    assert_eq!((&run["outcome"], &run["text"]), (&json!("completed"), &json!(followed.out.trim_end())), "{followed:?}");
    assert!(followed.out.starts_with("word0 ") && followed.out.ends_with(" word11\n"), "{followed:?}");
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1), "sent again, it is the same message");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// R43: killed again and again, also while it reads what it has missed.
#[test]
fn r43_a_client_sees_nothing_twice_however_often_the_owner_is_killed() {
    let Some(python) = python() else { return };
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_RUNS__POISON_AFTER", "0");
    let mut service = serve(&home);
    let client = ask(&home, &python, "stall=40x6 tokens=80");
    for kill in 1..=6 {
        // Each answer stalls at the same word; the client has received it as often as it was sent.
        client.until_err_times("word39", kill);
        service.kill();
        service = serve(&home);
    }
    let followed = client.finish().expect_code(0);
    assert_eq!(json!(followed.out.trim_end()), home.json(&["runs", "show"])["text"]);
    assert_eq!(followed.err.matches("word39").count(), 7, "{followed:?}");
    drop(service);
}

#[test]
fn r43_the_client_is_no_longer_than_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/client");
    let program = std::fs::read_to_string(folder.join("limulus_client.py")).expect("the client");
    assert!(program.lines().count() <= 60);
}
