//! Answers of several megabytes, in many pieces or in one: they reach their client, whoever owns the home.

use model_server::ModelServer;
use serde_json::json;

use crate::support::{Home, answered, serve, size_of, until};

/// Longer than what may wait for a client that does not read.
const BYTES: usize = 6_000_000;

/// R43: as the text of `agent`, and to everybody who reads the run afterwards.
fn reaches_all(home: &Home, message: &str, is_it: impl Fn(&str) -> bool) {
    let agent = home.run(&["agent", "-m", message]);
    assert!(agent.code == Some(0) && is_it(agent.out.trim_end()), "{:?}: {}", agent.code, agent.err);
    let watch = home.run(&["runs", "watch"]).expect_code(0);
    assert!(is_it(watch.out.trim_end()), "{}", watch.err);
    let lines = home.run(&["runs", "watch", "--json"]).expect_code(0).lines();
    let end = lines.last().expect("lines");
    assert!(end["stream"] == "lifecycle" && is_it(end["text"].as_str().expect("a text")));
    assert!(is_it(home.json(&["runs", "show"])["text"].as_str().expect("a text")));
    home.run(&["sessions", "show", "main", "--json"]).expect_code(0);
    home.run(&["runs", "wait"]).expect_code(0);
}

#[test]
pub(crate) fn r43_an_answer_of_six_megabytes_in_small_pieces_reaches_everybody() {
    let server = ModelServer::start().expect("a port");
    let home = Home::new().served_by(&server);
    reaches_all(&home, &format!("prose={BYTES}"), |text| text.len().abs_diff(BYTES) < 10);
}

/// A server that answers twice with these pieces, each in one event.
fn answering(pieces: &[&str]) -> String {
    let choice = |delta, reason| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let pieces = pieces.iter().map(|piece| choice(json!({ "content": piece }), json!(null)));
    let events = pieces.chain([choice(json!({}), json!("stop"))]);
    let events: Vec<String> = events.map(|event| format!("data: {event}\n\n")).collect();
    let stream = events.concat() + "data: [DONE]\n\n";
    serve([answered(&stream), answered(&stream)]).0
}

#[test]
pub(crate) fn r43_an_answer_of_six_megabytes_in_one_piece_reaches_everybody() {
    let text = "twelve bytes".repeat(BYTES / 12);
    let home = Home::new().served_at(&answering(&[&text]));
    reaches_all(&home, "go", |found| found == text);
}

/// Escaped, it has 36 MB: its line and the responses are longer than a frame.
#[test]
pub(crate) fn r43_an_answer_that_is_longer_than_a_frame_when_escaped_reaches_everybody() {
    let piece = "\u{1}".repeat(BYTES / 6) + "end";
    let text = piece.repeat(6);
    let home = Home::new().served_at(&answering(&[&*piece; 6]));
    reaches_all(&home, "go", |found| found == text);
    let json = home.run(&["agent", "--json", "--session", "other", "-m", "again"]).expect_code(0).lines();
    let texts = json.iter().filter(|line| line["type"] == "message" || line["type"] == "end");
    let texts: Vec<&str> = texts.filter_map(|line| line["text"].as_str()).collect();
    assert!(texts.len() == 2 && texts.iter().all(|found| *found == text), "{} lines", texts.len());
    let waited = home.json(&["runs", "wait"]);
    assert_eq!(waited["payloads"][0]["text"].as_str().map(str::len), Some(text.len()));
}

/// Escaped it is twice as long, and more than may wait for a client.
#[test]
pub(crate) fn r43_an_answer_of_quotes_and_newlines_reaches_everybody() {
    let text = "\"\n".repeat(BYTES / 4) + "end";
    let home = Home::new().served_at(&answering(&[&text]));
    reaches_all(&home, "go", |found| found == text);
}

/// Calls with huge results: 64 MB in one line, 32 MB of control characters, 100,000 lines of one byte; the last call waits, so
/// that the owner can be looked at.
const HUGE: &str = "tokens=3
exec:head -c 64000000 /dev/zero | tr '\\0' x
exec:head -c 33554432 /dev/zero | tr '\\0' '\\033' | tee controls
exec:yes | head -100000 | tee lines
call:read {\"path\":\"controls\"}
call:read {\"path\":\"lines\"}
call:grep {\"pattern\":\".\"}
exec:touch all; until test -e go; do sleep 0.02; done";

/// The most memory that a process has had, MB.
fn peak_mb(pid: u64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1_024
}

/// R45: while the last call waits, the owner has held little, and the run then ends as any other.
fn results_are_bounded(home: &Home) {
    until("the last call", || home.file("all").exists());
    let owner = home.json(&["status"])["owner"]["pid"].as_u64().expect("an owner");
    let peak = peak_mb(owner);
    assert!(peak < 256, "the owner held {peak} MB");
    home.put("go", "");
}

fn are_all_there(home: &Home) {
    let steps = home.json(&["runs", "show"])["steps"].clone();
    let outcomes: Vec<&str> = (0..7).filter_map(|step| steps[step]["calls"][0]["outcome"].as_str()).collect();
    assert_eq!([outcomes[0], outcomes[1], outcomes[2], outcomes[6]], ["done"; 4], "{outcomes:?}");
    for words in
        [&["runs", "show", "--json"][..], &["sessions", "show", "main", "--json"], &["runs", "watch", "--json"]]
    {
        let shown = home.run(words).expect_code(0).out.len();
        assert!(shown < 4 << 20, "{words:?} prints {shown} bytes");
    }
    let kept = size_of(&home.path());
    assert!(kept < 64 << 20, "{kept} bytes are kept");
}

#[test]
pub(crate) fn r45_huge_results_are_bounded_for_a_command() {
    let server = ModelServer::start().expect("a port");
    for format in [&[][..], &["--json"]] {
        let home = Home::new().served_by(&server);
        let agent = home.start(&[&["agent", "--yes", "-m", HUGE], format].concat());
        results_are_bounded(&home);
        agent.finish().expect_code(0);
        are_all_there(&home);
    }
}

#[test]
fn r45_huge_results_are_bounded_in_a_service() {
    let server = ModelServer::start().expect("a port");
    let home = Home::new().served_by(&server).with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let service = home.start(&["serve"]);
    service.until_err("serving");
    home.run(&["send", "--session", "main", HUGE]).expect_code(0);
    let watch = home.start(&["runs", "watch", "--json"]);
    results_are_bounded(&home);
    home.run(&["runs", "wait"]).expect_code(0);
    watch.finish().expect_code(0);
    are_all_there(&home);
    service.signal(rustix::process::Signal::TERM);
    service.finish().expect_code(0);
}
