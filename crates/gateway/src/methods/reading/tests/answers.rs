//! Results in their form on the wire, and invalid requests.

use protocol::method::{Method, RunParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use views::scene::Scene;

use super::super::*;

/// A finished run, a run that streams with a call behind it, and a waiting message.
fn busy() -> Scene {
    let mut scene = Scene::new();
    scene.start("first");
    scene.stream("One.");
    scene.end_stream();
    scene.start("second");
    scene.call("ls", "{}");
    scene.end_stream();
    scene.allow_and_start();
    scene.settle("a.txt, b.txt");
    scene.stream("Two");
    scene.keyed("third", "k3");
    scene
}

/// A printed result parses to an equal value and prints the same again, also after the wire.
fn reads_back<M: Reads>(scene: &Scene, params: Value) -> Value
where
    M::Params: DeserializeOwned,
{
    let source = Source::of(&scene.journal);
    let result = M::read(&source, serde_json::from_value(params.clone()).unwrap()).unwrap();
    let printed = serde_json::to_string(&result).unwrap();
    let over_the_wire = read(&source, M::NAME, params).unwrap();
    for text in [printed.clone(), serde_json::to_string(&over_the_wire).unwrap()] {
        // Through a JSON value, as a client has it.
        let value: Value = serde_json::from_str(&text).unwrap();
        let again: M::Result = serde_json::from_value(value).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), printed, "{}", M::NAME);
    }
    over_the_wire
}

#[test]
fn r60_printed_results_parse_back_equal() {
    let scene = busy();
    let waits = reads_back::<StatusGet>(&scene, json!({}));
    assert_eq!((&waits["unfinished"][0]["queued"], &waits["sessions"]["active"]), (&json!(1), &json!(1)));
    assert_eq!(reads_back::<RunsList>(&scene, json!({}))["runs"][0]["outcome"], "completed");
    let run = reads_back::<RunsShow>(&scene, json!({}));
    assert_eq!((&run["open_text"], &run["steps"][0]["calls"][0]["stage"]), (&json!("Two"), &json!("settled")));
    assert_eq!(reads_back::<RunsTrace>(&scene, json!({}))["lines"][0]["event"], "message_accepted");
    assert_eq!(reads_back::<SessionsList>(&scene, json!({}))["sessions"][0]["queue"][0]["key"], "k3");
    let session = reads_back::<SessionsShow>(&scene, json!({ "sessionKey": "main" }));
    assert_eq!((&session["transcript"][0]["text"], &session["flags"]["isStreaming"]), (&json!("first"), &json!(true)));
    assert_eq!(reads_back::<ReceiptsGet>(&scene, json!({ "key": "k3" }))["ahead"], 1);
}

#[test]
fn r18_repeated_lines_are_marked_and_none_is_left_out() {
    let scene = busy();
    let lines = RunsTrace::read(&Source::of(&scene.journal), RunParams::default()).unwrap().lines;
    let echoes: Vec<&str> = lines.iter().filter(|line| line.echo).filter_map(|line| line.detail.as_deref()).collect();
    assert_eq!(echoes, ["session idle → active (task)"]);
}

#[test]
fn r60_a_limit_returns_only_the_last_rows() {
    let scene = busy();
    let asked = |name: &str, params: Value| read(&Source::of(&scene.journal), name, params).unwrap();
    let texts = |limit: usize| {
        let session = asked("sessions.show", json!({ "limit": limit }));
        let items = session["transcript"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| (item["seq"].as_u64(), item["text"].clone())).collect::<Vec<_>>()
    };
    let all = texts(100);
    assert_eq!(all.len(), 5, "{all:?}");
    assert_eq!(texts(2), all[3..]);
    assert_eq!(texts(0), []);
    let runs = |limit: usize| asked("runs.list", json!({ "limit": limit }))["runs"].as_array().map(Vec::len);
    assert_eq!((runs(0), runs(1), runs(9)), (Some(0), Some(1), Some(2)));
    assert_eq!(asked("sessions.list", json!({ "limit": 0 })), json!({ "sessions": [] }));
}

#[test]
fn r60_a_response_that_is_too_large_is_refused_before_its_texts_are_read() {
    let scene = busy();
    let small = Source { most_bytes: 8, ..Source::of(&scene.journal) };
    let refused = |name: &str, params: Value| read(&small, name, params).unwrap_err();
    assert!(matches!(refused("sessions.show", Value::Null), Error::TooLarge));
    assert!(matches!(refused("runs.show", Value::Null), Error::TooLarge));
    assert!(read(&small, "runs.trace", Value::Null).is_ok(), "only beginnings are included");
    let run = read(&small, "runs.list", Value::Null).unwrap()["runs"][0]["run"].as_str().map(str::to_owned);
    assert_eq!(read(&small, "runs.show", json!({ "run": run })).unwrap()["text"], "One.");
    assert!(serde_json::to_writer(PageBudget(3), "ab").is_err() && serde_json::to_writer(PageBudget(4), "ab").is_ok());
}

#[test]
fn r60_an_invalid_request_is_refused_with_the_reason() {
    let scene = busy();
    let check = |name: &str, params: Value, exit: u8, says: &str| {
        let shape = read(&Source::of(&scene.journal), name, params).unwrap_err().shape();
        let details = shape.details.unwrap();
        assert!(details.exit == exit && shape.message.contains(says), "{name}: {}, {}", details.exit, shape.message);
    };
    check("runs.show", json!({ "runn": "x" }), 2, "invalid parameters of `runs.show`: unknown field `runn`");
    check("runs.list", json!({ "limit": -1 }), 2, "invalid value");
    check("status", json!([1]), 2, "invalid parameters of `status`");
    check("sessions.show", json!({ "sessionKey": "a b" }), 2, "not a session key");
    check("sessions.show", json!({ "sessionKey": "nobody" }), 4, "no session `agent:main:nobody`");
    check("receipts.get", Value::Null, 2, "an id or a key");
    check("receipts.get", json!({ "id": "x" }), 2, "`x` is not a message id");
    check("agent", Value::Null, 70, "is not a read-only method");
    assert!(only_reads("status") && !only_reads("agent"));
    let table = protocol::method::METHODS;
    assert!(table.iter().any(|method| method.name == SessionsShow::NAME));
}

#[tokio::test]
async fn r60_an_owner_answers_from_a_thread_that_may_block() {
    let scene = busy();
    let journal: Arc<dyn Read> = Arc::new(scene.journal);
    let home: Arc<Path> = Path::new("/nowhere").into();
    let answer = |name: &str, params| {
        answer(Arc::clone(&home), Arc::clone(&journal), (vec![], vec![], vec![]), (name.to_owned(), params))
    };
    assert_eq!(answer("runs.show", Value::Null).await.unwrap()["open_text"], "Two");
    let refused = answer("runs.show", json!({ "run": "f" })).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (protocol::ErrorCode::NotFound, "there is no run `f`"));
}
