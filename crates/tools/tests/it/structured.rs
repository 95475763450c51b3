//! Answers that are to fit a schema, checked in a process with bounds.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tools::{SchemaChecker, StructuredError};

/// Far below what a check without a bound takes, and above the bound on a machine that is busy.
const AT_MOST: Duration = Duration::from_secs(90);

fn checker() -> SchemaChecker {
    SchemaChecker::new(Path::new(env!("CARGO_BIN_EXE_limulus-supervise")))
}

#[tokio::test]
async fn r61_a_process_checks_a_schema_and_an_answer() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    assert_eq!(checker().check_schema(schema.clone()).await, Ok(()));
    let answer = "```json\n{\"a\": 12345678901234567890123}\n```".to_owned();
    let value = checker().structured(schema.clone(), answer).await;
    assert_eq!(value.as_deref(), Ok("{\"a\":12345678901234567890123}"));
    let no_value = checker().structured(schema.clone(), "{\"a\":\"x\"}".to_owned()).await.unwrap_err();
    assert!(matches!(&no_value, StructuredError::Mismatch(why) if why.contains("/a")), "{no_value}");
    let long = " ".repeat(tools::STRUCTURED_BYTES) + "{\"a\":1}";
    let no_value = checker().structured(schema, long).await.unwrap_err();
    assert!(matches!(&no_value, StructuredError::Mismatch(why) if why.contains("MiB")), "{no_value}");
    for schema in
        [json!([]), json!({ "type": "thing" }), json!({ "$ref": "#" }), json!({ "pattern": "^\\p{L}{1,2000}$" })]
    {
        assert!(checker().check_schema(schema.clone()).await.is_err(), "{schema}");
    }
}

/// The largest answer, full of what is not ASCII or has to be escaped.
#[tokio::test]
async fn r61_an_answer_of_the_largest_size_is_checked() {
    let text = "\\u0001é".repeat((tools::STRUCTURED_BYTES - 2) / 8);
    let answer = format!("\"{text}\"");
    let value = checker().structured(json!({ "type": "string" }), answer.clone()).await;
    assert!(value.is_ok_and(|value| value == answer));
}

/// R24: no schema and no answer keeps a processor busy or takes memory without bound; it is said that nobody knows.
#[tokio::test]
async fn r24_a_check_without_an_end_is_ended() {
    // Each level of the value doubles what is to be checked.
    let doubled = json!({ "$ref": "#/$defs/a", "$defs": { "a": {
        "properties": { "n": { "anyOf": [{ "allOf": [{ "$ref": "#/$defs/a" }, false] }, { "$ref": "#/$defs/a" }] } } } } });
    let nested = "{\"n\":".repeat(100) + "1" + &"}".repeat(100);
    // Everything that is wrong is remembered: this is memory.
    let wrong: Value = (0..300).map(|_| json!({ "type": "string" })).collect();
    let wrong = json!({ "items": { "items": { "allOf": wrong } } });
    let numbers = format!("[{}]", vec![format!("[{}]", vec!["1"; 1_000].join(",")); 400].join(","));
    for (schema, answer) in [(doubled, nested), (wrong, numbers)] {
        let begun = Instant::now();
        assert_eq!(checker().check_schema(schema.clone()).await, Ok(()), "only the answer shows it");
        let unknown = checker().structured(schema, answer).await.unwrap_err();
        let StructuredError::Unchecked(why) = &unknown else { panic!("{unknown:?}") };
        assert!(why.starts_with("the schema is too expensive to check: "), "{why}");
        assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
    }
}

/// What is large and harmless is checked, whatever it costs elsewhere.
#[tokio::test]
async fn r24_large_answers_are_no_reason_to_give_up() {
    let unique = format!("[{}]", (0..60_000).map(|at| format!("{{\"a\":{at}}}")).collect::<Vec<_>>().join(","));
    for schema in [
        json!({ "uniqueItems": true }),
        json!({ "contains": { "properties": { "a": { "const": 59_999 } } } }),
        json!({ "items": { "properties": { "a": { "multipleOf": 1 } } } }),
    ] {
        let value = checker().structured(schema.clone(), unique.clone()).await;
        assert!(value.is_ok_and(|value| value == unique), "{schema}");
    }
    let backtracks = json!({ "pattern": "^(a+)+$" });
    let text = format!("\"{}b\"", "a".repeat(500_000));
    assert!(matches!(checker().structured(backtracks, text).await, Err(StructuredError::Mismatch(_))));
    let deep = "[".repeat(100) + &"]".repeat(100);
    assert_eq!(checker().structured(json!({ "items": { "$ref": "#" } }), deep.clone()).await, Ok(deep));
    let too_deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(matches!(checker().structured(json!({}), too_deep).await, Err(StructuredError::Mismatch(_))));
}

#[tokio::test]
async fn r61_a_program_that_does_not_check_is_an_error() {
    for program in ["/nowhere", "/bin/true", "/bin/false"] {
        let unknown = SchemaChecker::new(Path::new(program)).structured(json!({}), "1".to_owned()).await;
        assert!(matches!(&unknown, Err(StructuredError::Unchecked(_))), "{program}: {unknown:?}");
    }
}
