//! Answers of several megabytes, in many pieces or in one: they reach their client, whoever owns the home.

use model_server::ModelServer;
use serde_json::json;

use crate::support::{Home, answered, serve};

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
