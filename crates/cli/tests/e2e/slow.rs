//! A client that does not read: only this client is dropped, with its cursors, and it reconnects without a gap.

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Home, RawClient, is_state, until};

/// So many subscriptions of one client: each line is written to it so often.
const SUBSCRIPTIONS: u64 = 100;

/// The lines of each subscription up to the end of the run, or of the connection; and the last frame if it is none.
fn lines(client: &mut RawClient, subscriptions: usize) -> (Vec<Vec<Value>>, Option<Value>) {
    let mut lines = vec![vec![]; subscriptions];
    let mut ended = 0;
    while ended < subscriptions {
        let Some(frame) = client.observe() else { return (lines, None) };
        if frame["event"] == "tick" {
            continue;
        }
        if frame["event"] != "agent" {
            return (lines, Some(frame));
        }
        let line = &frame["payload"];
        ended += usize::from(line["stream"] == "lifecycle" && line["type"] == "end");
        let at = frame["subscription"].as_u64().expect("a number") as usize - 1;
        lines[at].push(line.clone());
    }
    (lines, None)
}

/// What depends only on the journal, without the position of the reader.
fn recorded(lines: &[Value]) -> Vec<Value> {
    let kept = lines.iter().filter(|line| !is_state(line) && line["stream"] != "assistant");
    let plain = |line: &Value| {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("cursor");
        line
    };
    kept.map(plain).collect()
}

/// The text of an answer.
fn text(lines: &[Value]) -> String {
    let deltas = lines.iter().filter(|line| line["stream"] == "assistant" && line["type"] == "delta");
    deltas.map(|line| line["text"].as_str().expect("a text")).collect()
}

/// R43: a client that reads nothing while a session streams is dropped once 4 MiB wait for it. Other clients and the
/// run are not affected. With its last cursor the client receives the rest, without a gap and nothing twice.
#[test]
fn r43_a_client_that_does_not_read_is_dropped_and_receives_the_rest_later() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["agent", "-m", "tokens=3 Who are you?"]).expect_code(0);
    let (mut slow, mut quick, mut asks) = (RawClient::to(&home), RawClient::to(&home), RawClient::to(&home));
    for _ in 0..SUBSCRIPTIONS {
        slow.ask("events.subscribe", &json!({ "session": "main" }));
    }
    quick.ask("events.subscribe", &json!({ "session": "main" }));
    let clients = |asks: &mut RawClient| asks.ask("health", &Value::Null)["connections"].as_u64();
    until("only these", || clients(&mut asks) == Some(3));

    home.run(&["agent", "-m", "tokens=20000 Tell me a story."]).expect_code(0);
    until("the slow one to be dropped", || clients(&mut asks) == Some(2));
    let (whole, _) = lines(&mut quick, 1);
    let (seen, last) = lines(&mut slow, SUBSCRIPTIONS as usize);
    let seen: Vec<&[Value]> = seen.iter().map(Vec::as_slice).collect();
    let run = home.json(&["runs", "show"]);
    assert_eq!(run["text"], text(&whole[0]), "whoever reads has it all");
    assert!(seen.iter().all(|seen| text(seen).len() < text(&whole[0]).len()), "it was dropped in the middle");

    // A client that reads its remaining frames in time receives its cursors; else the connection just ends.
    if let Some(last) = last {
        assert_eq!(last["event"], "dropped", "{last}");
        let stands = last["payload"]["subscriptions"].as_array().expect("a list").clone();
        for stand in stands {
            let at = stand["subscription"].as_u64().expect("a number") as usize - 1;
            if let Some(line) = seen[at].last() {
                assert_eq!(stand["cursor"], line["cursor"]);
            }
        }
    }
    let first = seen[0];
    let cursor = first.last().expect("it has seen something")["cursor"].clone();
    let mut back = RawClient::to(&home);
    back.ask("events.subscribe", &json!({ "session": "main", "from": cursor }));
    let (rest, _) = lines(&mut back, 1);
    let both = [first, &rest[0]].concat();
    assert_eq!(text(&both), text(&whole[0]));
    assert_eq!(recorded(&both), recorded(&whole[0]));
}

/// A line of what the kernel says of the memory of a process, MiB.
fn memory_mib(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let found = status.lines().find_map(|of| of.strip_prefix(line)).expect("Linux says it");
    found.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1_024
}

/// R43: what clients that do not read made the service keep is given back to the system when they have left, although each of
/// them subscribed to answers of 6 MB.
#[test]
fn r43_the_memory_for_clients_that_do_not_read_is_given_back() {
    const CLIENTS: usize = 50;
    const ANSWERS: usize = 4;
    /// What the last answer and the cache of the database may keep: the same after 4 answers and after 8. The pages of the
    /// program itself, which count as resident too, are no memory that anybody holds.
    const KEPT_MIB: u64 = 24;
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["agent", "-m", "tokens=3 Who are you?"]).expect_code(0);
    let (before, at_rest) = (memory_mib(owner.pid(), "VmRSS:"), memory_mib(owner.pid(), "RssAnon:"));
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| RawClient::to(&home)).collect();
    for client in &mut clients {
        client.ask("events.subscribe", &json!({ "session": "main" }));
    }
    for _ in 0..ANSWERS {
        home.run(&["agent", "-m", "prose=6000000"]).expect_code(0);
    }
    let most = memory_mib(owner.pid(), "VmHWM:");
    drop(clients);
    until("the memory to be given back", || memory_mib(owner.pid(), "RssAnon:") <= at_rest + KEPT_MIB);
    assert!(most > before + 2 * KEPT_MIB, "{most} MiB at work, {before} MiB before: this shows nothing");
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}
