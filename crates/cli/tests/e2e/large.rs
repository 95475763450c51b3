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

/// The server sends it as one piece of one event.
#[test]
pub(crate) fn r43_an_answer_of_six_megabytes_in_one_piece_reaches_everybody() {
    let text = "twelve bytes".repeat(BYTES / 12);
    let choice = |delta, reason| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let events = [choice(json!({ "content": text }), json!(null)), choice(json!({}), json!("stop"))];
    let stream = events.map(|event| format!("data: {event}\n\n")).concat() + "data: [DONE]\n\n";
    let (url, _bodies) = serve([answered(&stream), answered(&stream)]);
    let home = Home::new().served_at(&url);
    reaches_all(&home, "go", |found| found == text);
}
