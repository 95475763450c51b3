//! What a message asks of its run: to stop before calls, to plan only, to answer in JSON.

use std::fs;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::Home;

fn run_of(home: &Home) -> String {
    let runs = home.json(&["runs", "list"]);
    runs.as_array().and_then(|runs| runs.last()).expect("a run")["run"].as_str().expect("an id").to_owned()
}

/// R16: the breakpoint is part of the message, so no call comes before it; it is asked for no approval before it stops; what it
/// wants and how it goes on is said; the next owner still stops, and each class stops once.
#[test]
pub(crate) fn r16_a_message_stops_its_run_before_the_first_call_of_a_class() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let text = "exec: echo one >> out\nexec: echo two >> out\ncall:write {\"path\":\"a\",\"content\":\"b\"}\ntokens=2";
    let words = ["agent", "--yes", "--stop-before", "edit,exec", "--key", "k", "-m", text];
    let stopped = home.run(&words).expect_code(6);
    let run = run_of(&home);
    for part in ["stopped before `exec`", "$ echo one >> out", &format!("limulus runs resume {run}")] {
        assert!(stopped.err.contains(part), "{part}: {}", stopped.err);
    }
    assert!(!home.file("out").exists(), "nothing ran");
    home.run(&words).expect_code(6).expect_err("$ echo one >> out");
    let explained = home.json(&["runs", "explain", &run]);
    assert_eq!(explained["state"], "paused", "{explained}");
    // The second command is the same class; the file is another.
    home.run(&["runs", "resume", &run]).expect_code(6).expect_err("stopped before `write`");
    assert_eq!(fs::read_to_string(home.file("out")).unwrap(), "one\ntwo\n");
    assert!(!home.file("a").exists(), "it stopped before the first edit too");
    home.run(&words).expect_code(6).expect_err("stopped before `write`");
    home.run(&["runs", "resume", &run]).expect_code(0);
    assert_eq!(fs::read_to_string(home.file("a")).unwrap(), "b");
    home.run(&words).expect_code(0);
}

/// A list may have blanks around its commas.
#[test]
pub(crate) fn r16_a_list_of_classes_may_have_blanks() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let words = ["--yes", "--stop-before", " exec , edit ", "call:write {\"path\":\"a\",\"content\":\"b\"}\ntokens=2"];
    home.run(&words).expect_code(6).expect_err("stopped before `write`");
}

/// R16: where nobody can be asked, a run stops before it is denied; then it is denied as ever.
#[test]
fn r16_a_run_stops_before_its_question() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["--stop-before", "exec", "exec: echo one >> out"]).expect_code(6).expect_err("echo one");
    home.run(&["runs", "resume"]).expect_code(0);
    assert!(!home.file("out").exists(), "nobody approved it");
}

#[test]
pub(crate) fn r16_a_class_that_does_not_exist_is_refused_with_the_list() {
    let home = Home::new();
    let refused = home.run(&["agent", "--stop-before", "edit,delete", "-m", "hello there"]).expect_code(2);
    for part in ["delete", "edit (write, edit, apply_patch)", "exec (exec, process)", "web_fetch"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    for (given, nearest) in [("edti", "edit"), ("Exec,grpe", "exec"), ("exec, aply_patch", "apply_patch")] {
        let refused = home.run(&["agent", "--stop-before", given, "-m", "hello there"]).expect_code(2);
        assert!(refused.err.contains(&format!("the nearest is `{nearest}`")), "{given}: {}", refused.err);
    }
    let refused = home.run(&["runs", "break", "--before-tool", "exce"]).expect_code(2);
    assert!(refused.err.contains("the nearest is `exec`"), "{}", refused.err);
    let steer = ["agent", "--stop-before", "exec", "--mode", "steer", "-m", "hello there"];
    home.run(&steer).expect_code(2).expect_err("run of its own");
}

/// A plan has only tools that read, whatever the model calls and whoever approves.
#[test]
pub(crate) fn r61_a_plan_changes_nothing() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("notes.txt", "the tide\n");
    let text = "call:read {\"path\":\"notes.txt\"}\ncall:write {\"path\":\"a\",\"content\":\"b\"}\nexec: echo one >> out\ntokens=2";
    home.run(&["--yes", "--plan", text]).expect_code(0);
    assert!(!home.file("a").exists() && !home.file("out").exists());
    let prompt = home.run(&["sessions", "context", "--json"]).expect_code(0).out;
    assert!(
        prompt.contains("planning run") && prompt.contains("- web_fetch:") && !prompt.contains("- exec:"),
        "{prompt}"
    );
    let shown = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(shown.contains("the tide") && shown.contains("`write` was not run: this run makes a plan"), "{shown}");
    home.run(&["--yes", "exec: echo one >> out"]).expect_code(0);
    assert!(home.file("out").exists(), "the next run is another");
}

fn schema(home: &Home) -> String {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    home.put("schema.json", schema.to_string());
    home.file("schema.json").display().to_string()
}

fn structured(home: &Home, text: &str, json: bool) -> crate::support::Finished {
    let file = schema(home);
    let mut words = vec!["agent", "--output-schema", file.as_str(), "-m", text];
    words.extend(json.then_some("--json"));
    home.run(&words)
}

/// R61: stdout has the value alone; the model receives the schema.
#[test]
pub(crate) fn r61_a_structured_answer_is_one_value() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let answer = structured(&home, "say:```json\nsay: {\"a\": 1}\nsay:```", false).expect_code(0);
    assert_eq!(answer.out, "{\"a\":1}\n");
    let prompt = home.run(&["sessions", "context", "--json"]).expect_code(0).out;
    assert!(prompt.contains("fits the JSON schema"), "{prompt}");
    let file = schema(&home);
    let words = ["agent", "--key", "k", "--output-schema", &file, "-m", "say:{\"a\": 3}"];
    for _ in 0..2 {
        assert_eq!(
            home.run(&words).expect_code(0).out,
            "{\"a\":3}\n",
            "the value once, also when it is asked for again"
        );
    }
    let words = ["agent", "--key", "k2", "--output-schema", &file, "-m", "say:no"];
    for _ in 0..2 {
        assert_eq!(home.run(&words).expect_code(7).out, "no\n");
    }
    let lines = structured(&home, "say:{\"a\": 2}", true).expect_code(0).out;
    let result: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&result["structured"], &result["exit"]), (&json!({ "a": 2 }), &json!(0)), "{result}");
}

/// R61: an answer that does not fit is asked for once more, and then it is an error; the answer is there as it came.
#[test]
pub(crate) fn r61_an_answer_that_does_not_fit_is_asked_for_once_more() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let answer = structured(&home, "say:nothing\nsay_again:{\"a\": 1}", false).expect_code(0);
    assert_eq!((answer.out.as_str(), server.seen().len()), ("{\"a\":1}\n", 2));
    let shown = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(shown.contains("does not fit the JSON schema") && shown.contains("not JSON"), "{shown}");
    let schema_mismatch = structured(&home, "say:nothing\nsay_again:{\"a\":\"x\"}", false).expect_code(7);
    assert_eq!((schema_mismatch.out.as_str(), server.seen().len()), ("{\"a\":\"x\"}\n", 4), "no third try");
    assert!(schema_mismatch.err.contains("does not fit the schema of --output-schema: /a"), "{}", schema_mismatch.err);
    let lines = structured(&home, "say:nothing", true).expect_code(7).out;
    let result: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&result["structured"], &result["exit"]), (&Value::Null, &json!(7)), "{result}");
}

#[test]
pub(crate) fn r61_a_schema_that_is_none_is_refused_before_anything_is_sent() {
    let home = Home::new();
    home.put("long.json", format!("{{\"description\":\"{}\"}}", "x".repeat(70_000)));
    for (file, content, says) in [
        ("none.json", None, "cannot be read"),
        ("text.json", Some("type: object"), "is not JSON"),
        ("wrong.json", Some("{\"type\":\"thing\"}"), "the schema is not valid"),
        ("list.json", Some("[]"), "a schema is a JSON object"),
        ("other.json", Some("{\"$ref\":\"file:///etc/hostname\"}"), "another document"),
        ("long.json", None, "more than 64 KiB"),
    ] {
        if let Some(content) = content {
            home.put(file, content);
        }
        let path = home.file(file).display().to_string();
        let refused = home.run(&["agent", "--output-schema", &path, "-m", "hello there"]).expect_code(2);
        assert!(refused.err.contains(says), "{file}: {}", refused.err);
    }
    assert!(!home.path().exists(), "no home was made for it");
}

/// R61: the same key gives the same exit code, whoever asks.
#[test]
pub(crate) fn r61_the_same_key_gives_the_same_exit_code() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let words = ["agent", "--key", "k", "-m", "exec: echo one\ntokens=2"];
    home.run(&words).expect_code(3).expect_err("no terminal to ask on");
    home.run(&words).expect_code(3).expect_err("no terminal to ask on");
    let file = schema(&home);
    let words = ["agent", "--key", "k2", "--output-schema", &file, "-m", "say:nothing"];
    home.run(&words).expect_code(7);
    home.run(&words).expect_code(7);
    home.run(&["agent", "--key", "k3", "-m", "tokens=2"]).expect_code(0);
    home.run(&["agent", "--key", "k3", "-m", "tokens=2"]).expect_code(0);
}
