//! `limulus models`: the list of models, and the check of one by real requests to a local server.

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::{CLOSED, Finished, Home, answered, refused, serve_whole};

/// An answer of chat completions: these deltas, and this usage.
fn chat(deltas: &[Value], usage: &Value) -> String {
    let chunk = |delta: &Value| format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }));
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }], "usage": usage });
    answered(&format!("{}data: {end}\n\ndata: [DONE]\n\n", deltas.iter().map(chunk).collect::<String>()))
}

fn chat_text(text: &str, cached: u64) -> String {
    let details = json!({ "cached_tokens": cached });
    let usage = json!({ "prompt_tokens": 6_000, "completion_tokens": 1, "prompt_tokens_details": details });
    chat(&[json!({ "content": text })], &usage)
}

fn chat_call() -> String {
    let function = json!({ "name": "ls", "arguments": "{\"path\": \".\"}" });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    chat(&[json!({ "tool_calls": [call] })], &json!({ "prompt_tokens": 9, "completion_tokens": 9 }))
}

/// An answer of Anthropic Messages with one block.
fn messages(block: &Value, delta: &Value, read: u64) -> String {
    let usage = json!({ "input_tokens": 10, "cache_read_input_tokens": read, "output_tokens": 1 });
    let events = [
        json!({ "type": "message_start", "message": { "id": "m", "role": "assistant", "content": [], "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ];
    answered(&events.map(|event| format!("data: {event}\n\n")).concat())
}

fn messages_text(text: &str, read: u64) -> String {
    messages(&json!({ "type": "text", "text": "" }), &json!({ "type": "text_delta", "text": text }), read)
}

fn messages_call() -> String {
    let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "ls", "input": {} });
    messages(&block, &json!({ "type": "input_json_delta", "partial_json": "{\"path\": \".\"}" }), 0)
}

/// Thinks, then answers: two blocks in one answer.
fn messages_thought() -> String {
    let thinking = json!({ "type": "thinking_delta", "thinking": "2, 3, 5 …" });
    let thought = messages(&json!({ "type": "thinking", "thinking": "", "signature": "" }), &thinking, 0);
    let body = thought.split_once("\r\n\r\n").expect("a head").1;
    let block = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
    let delta = json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "text_delta", "text": "12" } });
    let (before, end) = body.split_once("data: {\"delta\":{\"stop_reason\"").expect("its end");
    answered(&format!("{before}data: {block}\n\ndata: {delta}\n\ndata: {{\"delta\":{{\"stop_reason\"{end}"))
}

/// Runs the check against a server with these answers. Returns the output and the requests.
fn check<const N: usize>(api: &str, answers: [String; N]) -> (Finished, Vec<Value>) {
    let (address, bodies) = serve_whole(answers);
    let home = Home::new().served_at(&address).with("LIMULUS_PROVIDERS__ACME__API", api);
    let home =
        home.with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "env:ACME_KEY").with("ACME_KEY", "sk-not-shown-1");
    let finished = home.run(&["models", "check", "acme/m"]);
    assert!(!finished.out.contains("sk-not-shown") && !finished.err.contains("sk-not-shown"), "{finished:?}");
    assert!(!home.path().join("journal.db").exists(), "a check records nothing");
    (finished, bodies.try_iter().collect())
}

/// Whether a line starts with the first text and continues with the second.
#[track_caller]
fn assert_line(finished: &Finished, mark: &str, what: &str, says: &str) {
    let begins = format!("{mark} {what} ");
    let line = finished.out.lines().find(|line| line.starts_with(&begins));
    assert!(line.is_some_and(|line| line.contains(says)), "{begins:?} {says:?}: {finished:?}");
}

#[test]
fn r69_a_model_that_can_do_everything_is_found_to_in_two_formats() {
    let text = chat_text("OK", 0);
    let answers = [text.clone(), chat_call(), chat_text("Red", 0), text, chat_text("OK", 5_900)];
    let (finished, bodies) = check("openai-chat", answers);
    let finished = finished.expect_code(0);
    for (mark, what, says) in [
        ("✓", "reachable", "it answers"),
        ("✓", "key", "accepted"),
        ("✓", "streaming", "“OK” in 1 piece"),
        ("✓", "usage", "6000 tokens in, 1 out"),
        ("✓", "tools", "called ls {\"path\": \".\"}"),
        ("✓", "images", "set images = true in [models.\"acme/m\"]"),
        ("✓", "cache", "5900 of 6000 tokens were read from it the second time"),
        ("–", "thinking", "it is not known to take `reasoning_effort`"),
    ] {
        assert_line(&finished, mark, what, says);
    }
    assert_eq!(bodies.len(), 5);
    assert!(bodies[2].to_string().contains("data:image/png;base64,"), "{}", bodies[2]);
    assert_eq!(bodies[3], bodies[4], "the same request twice");

    let text = messages_text("OK", 0);
    let answers =
        [text.clone(), messages_call(), messages_text("Red.", 0), text, messages_text("OK", 5_900), messages_thought()];
    let (finished, bodies) = check("anthropic", answers);
    let finished = finished.expect_code(0);
    for (what, says) in
        [("tools", "called ls"), ("images", "red square"), ("cache", "5900 of 5910"), ("thinking", "low: ")]
    {
        assert_line(&finished, "✓", what, says);
    }
    assert!(bodies[5]["thinking"]["budget_tokens"].is_number(), "{}", bodies[5]);
}

#[test]
fn r50_a_key_that_is_not_taken_is_all_that_is_tried() {
    for api in ["openai-chat", "anthropic"] {
        let error = json!({ "error": { "type": "authentication_error", "message": "Incorrect key sk-not-shown-1" } });
        let (finished, bodies) = check(api, [refused(401, &error)]);
        let finished = finished.expect_code(1);
        assert_line(&finished, "✓", "reachable", "HTTP 401");
        assert_line(&finished, "✗", "key", "answered HTTP 401: Incorrect key [key]");
        assert_line(&finished, "–", "tools", "not tried");
        let verdict = finished.verdict();
        assert!(verdict.contains("acme/m cannot be used: key fails") && verdict.contains("Check the key"), "{verdict}");
        assert_eq!(bodies.len(), 1, "{api}");
    }
}

#[test]
fn r24_a_refusal_of_a_server_is_shown_verbatim() {
    let refusal = |what: &str| {
        let message = format!("{what} is not supported by this model");
        refused(400, &json!({ "error": { "type": "invalid_request_error", "message": message } }))
    };
    let text = chat_text("OK", 0);
    let answers = [text.clone(), refusal("`tools`"), refusal("image input"), text.clone(), text];
    let finished = check("openai-chat", answers).0.expect_code(1);
    assert_line(&finished, "✗", "tools", "`tools` is not supported by this model");
    assert_line(&finished, "✗", "images", "image input is not supported by this model");
    assert_line(&finished, "–", "cache", "of 6000 tokens the server reports none as read from it");
    assert!(finished.verdict().contains("tools fails"), "{finished:?}");

    let text = messages_text("OK", 0);
    let answers = [text.clone(), messages_call(), refusal("image input"), text.clone(), text, refusal("thinking")];
    let finished = check("anthropic", answers).0.expect_code(0);
    assert_line(&finished, "✗", "images", "image input is not supported by this model");
    assert_line(&finished, "✗", "thinking", "thinking is not supported by this model");
}

#[test]
fn a_missing_server_and_an_unconfigured_provider_have_different_errors() {
    let home = Home::new().served_at(&format!("http://{CLOSED}/v1"));
    let finished = home.run(&["models", "check"]).expect_code(1);
    assert_line(&finished, "✗", "reachable", "could not be reached");
    let checked: Value = serde_json::from_str(&home.run(&["models", "check", "--json"]).expect_code(1).out).unwrap();
    assert_eq!((&checked["works"], &checked["checks"][0]["verdict"]), (&false.into(), &"fails".into()), "{checked}");
    home.run(&["models", "check", "nobody/m"]).expect_code(78).expect_err("nobody");
    home.run(&["models", "check", "nothing"]).expect_code(78).expect_err("`nothing` is not a model");
}

#[test]
fn r24_models_are_found_by_a_part_of_their_name() {
    let home = Home::new();
    let names = |text: &str| {
        let found = home.json(&["models", "list", "--search", text]);
        found.as_array().unwrap().iter().map(|row| row["model"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("HAIKU claude"), ["anthropic/claude-haiku-4-5"]);
    assert!(names("openai/").len() > 3 && names("no such model").is_empty());
    let none = home.run(&["models", "list", "--search", "claude-hiaku-4-5"]).expect_code(0).out;
    assert!(none.contains("near it are anthropic/claude-haiku-4-5"), "{none}");
}

#[test]
fn r24_a_model_of_a_unique_name_is_named_without_its_provider() {
    let server = ModelServer::start().unwrap();
    let address = server.base_url();
    let home = Home::new().with("LIMULUS_PROVIDERS__ACME__API", "openai-chat");
    let home = home.with("LIMULUS_PROVIDERS__ACME__BASE_URL", &address);
    let named = |words: &[&str], code: i32| home.run(words).expect_code(code);
    named(&["agent", "--model", "m-large", "-m", "tokens=3 hi"], 78).expect_err("`m-large` is not a model");
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("config.toml"), "[models.\"acme/m-large\"]\nimages = false\n").unwrap();
    named(&["agent", "--model", "m-large", "-m", "tokens=3 hi"], 0);
    assert_eq!(home.json(&["runs", "list"])[0]["model"], "acme/m-large");
    named(&["agent", "-m", "/model m-large"], 0);
    named(&["agent", "-m", "tokens=3 hi"], 0);
    assert_eq!(home.json(&["runs", "list"])[0]["model"], "acme/m-large", "the session keeps the full name");
    named(&["config", "set", "agents.main.model", "m-large"], 0);
    assert_eq!(named(&["config", "get", "agents.main.model"], 0).out, "acme/m-large\n");
    named(&["config", "set", "agents.main.model", "m-lrage"], 2).expect_err("near it are acme/m-large");
    let file = "[models.\"acme/m-large\"]\nimages = false\n[models.\"ollama/m-large\"]\nimages = false\n";
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let refused = named(&["agent", "--model", "m-large", "-m", "hi"], 78);
    refused
        .expect_err("several providers have a model `m-large`")
        .expect_err("name one of them: acme/m-large, ollama/m-large");
}

#[test]
fn the_offline_model_is_checked_like_any_other() {
    let finished = Home::new().run(&["models", "check"]).expect_code(0);
    for (mark, what, says) in [
        ("✓", "key", "none is needed"),
        ("✓", "streaming", "piece"),
        ("✓", "tools", "called ls"),
        ("–", "usage", "not reported"),
        ("–", "thinking", "does not think"),
    ] {
        assert_line(&finished, mark, what, says);
    }
}

#[test]
fn r50_every_model_is_listed_with_its_figures_and_the_place_of_its_key() {
    let home = Home::new().with("OPENAI_API_KEY", "sk-not-shown-1").with("LIMULUS_MODELS__ACME/M__IMAGES", "true");
    let rows = home.json(&["models", "list"]);
    let row = |model: &str| {
        let found = rows.as_array().unwrap().iter().find(|row| row["model"] == model);
        found.unwrap_or_else(|| panic!("no {model}")).clone()
    };
    let known = row("openai/gpt-5.4-mini");
    assert_eq!((&known["is_default"], &known["from"]), (&true.into(), &"catalogue".into()));
    assert_eq!(known["key"], json!({ "state": "there", "source": "env:OPENAI_API_KEY" }));
    assert_eq!((&known["price"]["input"], &known["images"]), (&0.75.into(), &true.into()));
    let configured = row("acme/m");
    assert_eq!((&configured["configured"], &configured["from"]), (&json!(["images"]), &"default".into()));
    assert_eq!(row("offline/offline")["key"]["state"], "not_needed");
    let table = home.run(&["models", "list"]).expect_code(0).out;
    assert!(table.contains("openai/gpt-5.4-mini*") && table.contains("✗ env:GEMINI_API_KEY"), "{table}");
    assert!(!table.contains("sk-not-shown"));
}
