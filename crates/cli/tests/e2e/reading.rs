//! The reading commands use the owner of the home if it responds, else the journal. The output is the same.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use serde_json::{Value, json};

use crate::support::Home;

/// Every command that reads.
fn commands(run: &str) -> Vec<Vec<&str>> {
    let asked: [&[&str]; 13] = [
        &["status"],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "show", "nobody"],
        &["sessions", "show", "a b"],
        &["runs", "list"],
        &["runs", "list", "--session", "other"],
        &["runs", "show", run],
        &["runs", "show", "ffff"],
        &["runs", "trace", "--session", "main"],
        &["receipt", "k1"],
        &["audit", "--verify"],
        &["audit", "other", "--from", "3"],
    ];
    let asked = asked.iter().flat_map(|words| [words.to_vec(), [words, &["--json"][..]].concat()]);
    asked.chain([vec!["audit", "--state", "5"], vec!["audit", "--state", "500"]]).collect()
}

/// R61: the output of every command is the same from an owner and from the journal, byte for byte, with the same exit
/// code.
#[test]
fn r61_a_command_prints_the_same_whether_the_owner_answers_or_the_journal() {
    let home = Home::new();
    home.run(&["agent", "--key", "k1", "--yes", "-m", "run `echo hi > a` and then read a"]).expect_code(0);
    home.run(&["agent", "--session", "other", "-m", "你是谁？"]).expect_code(0);
    let run = home.json(&["runs", "list"])[0]["run"].as_str().map(str::to_owned).expect("a run");
    let service = home.start(&["serve", "--json"]);
    service.until_line("ready", |line| line["type"] == "ready");
    let (socket, away) = (home.path().join("limulus.sock"), home.path().join("away.sock"));
    let ask = || commands(&run).iter().map(|words| home.run(words)).collect::<Vec<_>>();
    let of_owner = ask();
    // Who does not find the socket reads the journal.
    fs::rename(&socket, &away).expect("the socket can be moved");
    let of_journal = ask();
    fs::rename(&away, &socket).expect("and back");
    for ((words, owner), journal) in commands(&run).iter().zip(of_owner).zip(of_journal) {
        assert_eq!((owner.code, timeless(&owner.out)), (journal.code, timeless(&journal.out)), "{words:?}");
        assert_eq!(owner.err, journal.err, "{words:?}");
        assert!(!owner.out.is_empty() || owner.code != Some(0), "{words:?}");
    }
}

/// Without what its owner has in memory just now.
fn timeless(text: &str) -> String {
    let figures = ["\"resident_bytes\": ", "\"memory_usage\": "];
    let lines = text.lines().filter(|line| !figures.iter().any(|figure| line.contains(figure))).map(|line| match line
        .split_once(" MiB in memory")
    {
        Some((before, _)) => before.rsplit_once(", ").map_or(before, |(before, _)| before),
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What an owner that is another program says to each request.
fn stand_in(home: &Home, answer: impl Fn(&Value) -> Option<Value> + Send + 'static) -> thread::JoinHandle<usize> {
    stand_in_with(home, &["status", "runs.list"], answer)
}

/// The same, one that has these methods.
fn stand_in_with(
    home: &Home,
    methods: &'static [&str],
    answer: impl Fn(&Value) -> Option<Value> + Send + 'static,
) -> thread::JoinHandle<usize> {
    let listener = UnixListener::bind(home.path().join("limulus.sock")).expect("nobody else listens");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a command comes");
        talk(stream, methods, answer)
    })
}

/// Answers until the other side leaves; gives the number of its requests.
fn talk(mut stream: UnixStream, methods: &[&str], answer: impl Fn(&Value) -> Option<Value>) -> usize {
    let lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
    let mut requests = 0;
    for line in lines.map_while(Result::ok) {
        requests += 1;
        let request: Value = serde_json::from_str(&line).expect("a frame is JSON");
        let hello = json!({
            "type": "hello-ok", "protocol": 1, "server": { "version": "0", "connId": "1", "pid": 1, "epoch": 1 },
            "features": { "methods": methods, "events": [] },
            "policy": { "maxPayload": 1, "maxBufferedBytes": 1, "tickIntervalMs": 1 },
        });
        let hello = json!({ "type": "res", "id": request["id"], "ok": true, "payload": hello });
        let said = if request["method"] == "connect" { Some(hello) } else { answer(&request) };
        // One that does not wait for the answer has left.
        if said.is_none_or(|said| writeln!(stream, "{said}").is_err()) {
            break;
        }
    }
    requests
}

fn one_run() -> Home {
    let home = Home::new();
    home.run(&["agent", "-m", "tokens=3 Who are you?"]).expect_code(0);
    home
}

#[test]
fn r61_the_owner_is_asked_first() {
    let home = one_run();
    let owner = stand_in(&home, |request| {
        assert_eq!(request["method"], "runs.list");
        Some(json!({ "type": "res", "id": request["id"], "ok": true, "payload": { "runs": [] } }))
    });
    assert_eq!(home.json(&["runs", "list"]), json!([]));
    assert_eq!(owner.join().expect("it answered"), 2);
}

#[test]
fn r61_an_error_of_the_owner_looks_like_a_local_one() {
    let home = one_run();
    let owner = stand_in(&home, |request| {
        let error = json!({ "code": "NOT_FOUND", "message": "it is gone", "details": { "hint": "look", "exit": 4 } });
        Some(json!({ "type": "res", "id": request["id"], "ok": false, "error": error }))
    });
    let refused = home.run(&["runs", "list"]).expect_code(4);
    assert_eq!(refused.err, "limulus: it is gone\n  hint: look\n");
    assert_eq!(owner.join().expect("it answered"), 2);
}

#[test]
fn r22_r61_the_journal_is_read_where_the_owner_cannot_answer() {
    let home = one_run();
    let expected = home.json(&["runs", "list"]);
    assert_eq!(expected.as_array().map(Vec::len), Some(1));
    let socket = home.path().join("limulus.sock");
    let refusing = |code: &'static str| {
        let owner = stand_in(&home, move |request| {
            let error = json!({ "code": code, "message": "no" });
            Some(json!({ "type": "res", "id": request["id"], "ok": false, "error": error }))
        });
        assert_eq!(home.json(&["runs", "list"]), expected, "{code}");
        assert_eq!(owner.join().expect("it answered"), 2);
        fs::remove_file(&socket).expect("the socket of the stand-in");
    };
    refusing("TOO_LARGE");
    refusing("UNAVAILABLE");
    // One that leaves in the middle, and one of another kind.
    for said in [None, Some(json!("rubbish"))] {
        let owner = stand_in(&home, move |_| said.clone());
        assert_eq!(home.json(&["runs", "list"]), expected);
        assert_eq!(owner.join().expect("it was asked"), 2);
        fs::remove_file(&socket).expect("the socket of the stand-in");
    }
    // One of another version, which has no such method: it is not asked.
    let owner = stand_in_with(&home, &["status"], |_| None);
    assert_eq!(home.json(&["runs", "list"]), expected);
    assert_eq!(owner.join().expect("it greeted"), 1);
    fs::remove_file(&socket).expect("the socket of the stand-in");
    // One that is stopped: it listens, and never greets.
    let listener = UnixListener::bind(&socket).expect("nobody else listens");
    assert_eq!(home.json(&["runs", "list"]), expected);
    drop(listener);
    // An owner that was killed: its socket exists, and nobody listens.
    assert_eq!(home.json(&["runs", "list"]), expected);
}

/// R22: page by page the list is the same as at once, also where rows are added meanwhile; JSON stays an array.
#[test]
fn r22_a_long_list_is_shown_page_by_page_from_the_newest_on() {
    let home = Home::new();
    for session in ["a", "b", "c", "d", "e"] {
        home.run(&["agent", "--session", session, "-m", "tokens=3 Who are you?"]).expect_code(0);
    }
    for (list, id) in [("sessions", "session"), ("runs", "run")] {
        let all = home.json(&[list, "list"]);
        let all = all.as_array().expect("a list");
        let first = home.run(&[list, "list", "--limit", "2", "--json"]).expect_code(0);
        let page: Vec<Value> = serde_json::from_str(&first.out).expect("an array");
        assert_eq!(page, all[all.len() - 2..]);
        // The list of sessions for people is in another order (sessions.rs).
        let text = home.run(&["runs", "list", "--limit", "2"]).expect_code(0).out;
        let text = if list == "runs" { &text } else { &first.err };
        let next = text.lines().last().expect("a line");
        assert!(first.err.contains(next), "{first:?}");
        let next: Vec<&str> = next.split("limulus ").nth(1).expect("a command").split(' ').collect();
        home.run(&["agent", "--session", list, "-m", "tokens=3 Who are you?"]).expect_code(0);
        assert_eq!(home.json(&next).as_array().expect("a list")[..], all[all.len() - 4..all.len() - 2]);
        let cursor = all[1][id].as_str().expect("an id");
        let last = home.run(&[list, "list", "--json", "--after", cursor]).expect_code(0);
        assert!(last.out.contains("agent:main:a") && !last.out.contains("agent:main:b"), "{last:?}");
        assert!(!last.err.contains("older ones"), "{last:?}");
        home.run(&[list, "list", "--after", "nowhere"]).expect_code(2).expect_err("not a cursor");
    }
}
