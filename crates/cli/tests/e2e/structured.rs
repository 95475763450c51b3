//! Answers that are to fit a JSON schema: what the provider receives of it, and what is taken as a value.

use serde_json::{Value, json};

use crate::formats::bodies_with;
use crate::support::{Home, refused, serve, serve_whole};

/// Every format that has a place for a schema, with the place of it, of what else is beside it, and its value.
const PLACES: [(&str, &str, &str, Option<&str>); 4] = [
    (
        "openai-chat",
        "/response_format/json_schema/schema",
        "/response_format/type",
        Some("/response_format/json_schema/strict"),
    ),
    ("anthropic", "/output_config/format/schema", "/output_config/format/type", None),
    ("openai-responses", "/text/format/schema", "/text/format/type", Some("/text/format/strict")),
    ("gemini", "/generationConfig/responseJsonSchema", "/generationConfig/responseMimeType", None),
];

/// An object that has `a`, and nothing else if it is closed.
fn schema(closed: bool) -> Value {
    let mut schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    if closed {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

/// The text of an answer as it stands in a stream.
fn in_json(text: &str) -> String {
    json!(text).to_string().trim_matches('"').to_owned()
}

fn home_at(address: &str, api: &str, schema: &Value) -> (Home, String) {
    let home = Home::new().served_at(address).with("LIMULUS_PROVIDERS__ACME__API", api);
    home.put("schema.json", schema.to_string());
    let file = home.file("schema.json").display().to_string();
    (home, file)
}

/// R61: where a format has a place for the schema and the model is known to take it there, it is sent; strict modes are asked for
/// only with a schema that they take. Without that knowledge nothing of it is sent.
#[test]
pub(crate) fn r61_a_provider_that_takes_the_schema_of_an_answer_receives_it() {
    for (at, (api, _)) in bodies_with("", false).iter().enumerate() {
        let place = PLACES.iter().find(|place| place.0 == *api);
        for (closed, takes) in [(true, true), (false, true), (true, false)] {
            let answer = bodies_with(&in_json("{\"a\": 1}"), false)[at].1.clone();
            let (address, bodies) = serve([answer]);
            let (home, file) = home_at(&address, api, &schema(closed));
            let home = if takes { home.with("LIMULUS_MODELS__ACME/SCRIPTED__STRUCTURED_OUTPUT", "true") } else { home };
            let answer = home.run(&["agent", "--output-schema", &file, "-m", "How many?"]).expect_code(0);
            assert_eq!(answer.out, "{\"a\":1}\n", "{api}");
            let body = bodies.recv().expect("a request");
            assert!(body.to_string().contains("fits the JSON schema"), "{api}: the model reads it as well: {body}");
            // Every schema is a strict one for Anthropic: another one is refused with the whole request.
            let is_sent = takes && (closed || *api != "anthropic");
            let Some((_, schema_at, kind_at, strict_at)) = place else {
                assert!(body.get("format").is_none(), "{api}: {body}");
                continue;
            };
            assert_eq!(body.pointer(schema_at), is_sent.then_some(&schema(closed)), "{api} {closed} {takes}: {body}");
            let kind = if *api == "gemini" { json!("application/json") } else { json!("json_schema") };
            assert_eq!(body.pointer(kind_at), is_sent.then_some(&kind), "{api}: {body}");
            if let Some(strict_at) = strict_at {
                assert_eq!(body.pointer(strict_at), is_sent.then_some(&json!(closed)), "{api}: {body}");
            }
        }
    }
}

/// R61: an answer that was cut and continued is one answer: the whole is checked, and asked for once more. Its rest is no value of
/// its own, so it is asked for without the schema.
#[test]
pub(crate) fn r61_an_answer_that_was_continued_is_asked_for_once_more() {
    let text = |at: usize, text: &str, is_cut: bool| bodies_with(&in_json(text), is_cut)[at].1.clone();
    for (at, (api, _)) in bodies_with("", false).iter().enumerate() {
        let answers =
            [text(at, "{\"a\":", true), text(at, "\"x\"}", false), text(at, "{\"a\":", true), text(at, "12}", false)];
        let (address, bodies) = serve(answers);
        let (home, file) = home_at(&address, api, &schema(true));
        let home = home.with("LIMULUS_MODELS__ACME/SCRIPTED__STRUCTURED_OUTPUT", "true");
        let answer = home.run(&["agent", "--output-schema", &file, "-m", "How many?"]).expect_code(0);
        assert_eq!(answer.out, "{\"a\":12}\n", "{api}");
        let bodies: Vec<Value> = bodies.iter().collect();
        assert_eq!(bodies.len(), 4, "{api}");
        let sent = bodies[2].to_string();
        assert!(sent.contains("does not fit the JSON schema") && sent.contains("/a"), "{api}: {sent}");
        if let Some((_, schema_at, ..)) = PLACES.iter().find(|place| place.0 == *api) {
            let sent: Vec<bool> = bodies.iter().map(|body| body.pointer(schema_at).is_some()).collect();
            assert_eq!(sent, [true, false, true, false], "{api}");
        }
    }
}

/// R61: a provider that refuses the field is no riddle: the error names the key that leaves it out.
#[test]
pub(crate) fn r61_a_provider_that_refuses_the_schema_is_an_error_that_names_the_key() {
    let what = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.";
    let (address, _bodies) = serve_whole([refused(400, &json!({ "error": { "message": what } }))]);
    let (home, file) = home_at(&address, "openai-chat", &schema(true));
    let home = home.with("LIMULUS_MODELS__ACME/SCRIPTED__STRUCTURED_OUTPUT", "true");
    let failed = home.run(&["agent", "--output-schema", &file, "-m", "How many?"]);
    let failed = failed.expect_code(1);
    for part in ["response_format", "[models.\"acme/scripted\"]", "structured_output = false"] {
        assert!(failed.err.contains(part), "{part}: {}", failed.err);
    }
}

/// R61: a number is printed as the model wrote it, on stdout, in the last line of `--json`, and in the file.
#[test]
pub(crate) fn r61_a_number_of_an_answer_is_not_rounded() {
    let number = "12345678901234567890123.0000000000000000001";
    let schema = json!({ "properties": { "a": { "type": "number" } } });
    let value = format!("{{\"b\":[1.0000000000000000001],\"a\":{number}}}");
    let text = || bodies_with(&in_json(&format!("Here it is:\n\n~~~JSON\n{value}\n~~~")), false)[0].1.clone();
    let (address, _bodies) = serve([text(), text()]);
    let (home, file) = home_at(&address, "openai-chat", &schema);
    let output = home.file("last").display().to_string();
    let answer = home.run(&["agent", "--output-schema", &file, "--output-last", &output, "-m", "How many?"]);
    assert_eq!(answer.expect_code(0).out, format!("{value}\n"));
    assert_eq!(std::fs::read_to_string(output).unwrap(), value);
    let lines = home.run(&["agent", "--output-schema", &file, "--json", "-m", "How many?"]).expect_code(0).out;
    let last = lines.lines().last().unwrap();
    assert!(last.contains(&format!("\"structured\":{value}")), "{last}");
    let parsed: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&parsed["stream"], &parsed["exit"]), (&json!("result"), &json!(0)));
}

/// R24: a schema without an end, or without a bound, is refused before anything is sent; what only an answer shows ends the check.
#[test]
pub(crate) fn r24_a_schema_without_an_end_is_refused_and_a_check_is_bounded() {
    let doubled = |at: usize| {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        (format!("d{at}"), json!({ "anyOf": [next, next] }))
    };
    let mut definitions: serde_json::Map<String, Value> = (0..60).map(doubled).collect();
    definitions.insert("d60".to_owned(), json!({ "type": "null" }));
    let home = Home::new();
    for (schema, says) in [
        (json!({ "$ref": "#" }), "the schema has no end"),
        (json!({ "$ref": "#/$defs/d0", "$defs": definitions }), "too expensive to check"),
    ] {
        home.put("schema.json", schema.to_string());
        let path = home.file("schema.json").display().to_string();
        let refused = home.run(&["agent", "--output-schema", &path, "-m", "hello there"]).expect_code(2);
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
    }
    let (grows, nested) = slow_check();
    let (address, bodies) = serve([bodies_with(&in_json(&nested), false)[0].1.clone()]);
    let (home, file) = home_at(&address, "openai-chat", &grows);
    let unknown = home.run(&["agent", "--output-schema", &file, "-m", "How deep?"]).expect_code(7);
    assert!(unknown.err.contains("nobody knows whether the answer fits"), "{}", unknown.err);
    assert!(unknown.err.contains("the schema is too expensive to check"), "{}", unknown.err);
    assert_eq!((unknown.out, bodies.iter().count()), (nested + "\n", 1), "it is not asked for again");
}

/// R61: a pipe may be written to later, which is said; a key that comes twice is refused.
#[test]
pub(crate) fn r61_a_schema_in_a_pipe_is_waited_for_and_said_and_one_with_a_key_twice_is_refused() {
    let (address, _bodies) = serve([bodies_with(&in_json("{\"a\":1}"), false)[0].1.clone()]);
    let (home, _) = home_at(&address, "openai-chat", &json!({ "type": "object" }));
    let fifo = home.user().join("schema.fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let path = fifo.display().to_string();
    let agent = home.start(&["agent", "--output-schema", &path, "-m", "How many?"]);
    agent.until_err(&format!("waiting for the text in {path}"));
    std::fs::write(&fifo, r#"{"type":"object"}"#).unwrap();
    agent.finish().expect_code(0);
    home.put("schema.json", r#"{"type":"object","type":"array"}"#);
    let path = home.file("schema.json").display().to_string();
    let refused = home.run(&["agent", "--output-schema", &path, "-m", "How many?"]).expect_code(2);
    refused.expect_err("an object has \"type\" twice");
}

/// A schema, and an answer of which a check takes as long as it may.
fn slow_check() -> (Value, String) {
    let grows = json!({ "$ref": "#/$defs/a", "$defs": { "a": {
        "properties": { "n": { "anyOf": [{ "allOf": [{ "$ref": "#/$defs/a" }, false] }, { "$ref": "#/$defs/a" }] } } } } });
    (grows, "{\"n\":".repeat(100) + "1" + &"}".repeat(100))
}

/// R24: the clock of a request does not count a check, nor the wait for others: the answer was not silent, and is not asked for again.
#[test]
pub(crate) fn r24_a_check_that_takes_longer_than_an_answer_may_be_silent_fails_no_run() {
    let (grows, nested) = slow_check();
    let (address, bodies) = serve([bodies_with(&in_json(&nested), false)[0].1.clone()]);
    let (home, file) = home_at(&address, "openai-chat", &grows);
    let home = home.with("LIMULUS_REQUESTS__IDLE_TIMEOUT_S", "1");
    let unknown = home.run(&["agent", "--output-schema", &file, "-m", "How deep?"]).expect_code(7);
    assert!(unknown.err.contains("the schema is too expensive to check"), "{}", unknown.err);
    assert_eq!((unknown.out, bodies.iter().count()), (nested + "\n", 1), "it is not asked for again");
}

/// R10, R61: the same key is the same run, with the schema that it was started with: its answer does not fit however it is asked for.
#[test]
pub(crate) fn r10_r61_a_key_whose_answer_did_not_fit_says_so_without_the_schema_too() {
    let home = Home::new();
    home.put("schema.json", "{\"type\":\"integer\"}");
    let with_schema = ["agent", "--key", "K", "--output-schema", "schema.json", "-m", "Who are you?"];
    let first = home.run(&with_schema).expect_code(7);
    let two_lines = |finished: &crate::support::Finished| {
        let lines: Vec<_> = finished.err.lines().map(str::to_owned).collect();
        lines[lines.len() - 2..].to_vec()
    };
    let again = home.run(&["agent", "--key", "K", "-m", "Who are you?"]).expect_code(7);
    assert_eq!(two_lines(&again), two_lines(&first));
    assert_eq!(home.run(&["agent", "--key", "K", "--json", "-m", "Who are you?"]).expect_code(7).result()["exit"], 7);
    assert_eq!(two_lines(&home.run(&with_schema).expect_code(7)), two_lines(&first));
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
}
