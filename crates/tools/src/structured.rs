//! Answers that are to fit a JSON schema.

use serde_json::Value;

use crate::limits::{MISFIT_CHARS, MISFITS, SCHEMA_BYTES, SCHEMA_STACK_BYTES, STRUCTURED_BYTES};
use crate::schema_validator::SchemaValidator;

/// Checks that a value is a JSON schema that answers can be checked against. The error says why it is not.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("a schema is a JSON object".to_owned());
    }
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES {
        return Err(format!(
            "the schema has {} KiB, at most {} KiB are taken",
            bytes.div_ceil(1 << 10),
            SCHEMA_BYTES >> 10
        ));
    }
    let valid = on_a_large_stack(|| SchemaValidator::new(schema).map(drop));
    valid.map_err(|why| format!("the schema is not valid: {}", in_one_line(&why)))
}

/// The validator goes into a schema and a value as deep as they are, and panics at a few: neither may end this process.
fn on_a_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(SCHEMA_STACK_BYTES);
        let thread =
            thread.spawn_scoped(scope, work).map_err(|error| format!("there is no thread to check it ({error})"))?;
        thread
            .join()
            .unwrap_or_else(|_| Err("a part of it cannot be checked, such as a pattern that is too large".to_owned()))
    })
}

/// The value that an answer is, if it fits the schema. The error says why it does not, in one line.
pub fn structured(schema: &Value, answer: &str) -> Result<Value, String> {
    if answer.len() > STRUCTURED_BYTES {
        return Err(format!("it has more than {} MiB", STRUCTURED_BYTES >> 20));
    }
    let value = serde_json::from_str(unfenced(answer)).map_err(|error| format!("it is not JSON ({error})"))?;
    let violations = on_a_large_stack(|| Ok(SchemaValidator::new(schema)?.violations(&value)))?;
    if violations.is_empty() {
        return Ok(value);
    }
    let named = violations.iter().take(MISFITS).map(|found| {
        let place = if found.pointer.is_empty() { "the value" } else { &found.pointer };
        format!("{place}: {}", found.message)
    });
    Err(in_one_line(&named.collect::<Vec<_>>().join("; ")))
}

/// The text without the code fence that some models put around it.
fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.map(|inner| inner.strip_prefix("json").unwrap_or(inner));
    inner.unwrap_or(text).trim()
}

fn in_one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MISFIT_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r61_an_answer_is_the_value_or_says_why_it_is_not() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
        for (answer, fits) in [
            ("{\"a\":1}", Ok(json!({ "a": 1 }))),
            ("\n```json\n{\"a\": 2}\n```\n", Ok(json!({ "a": 2 }))),
            ("```\n{\"a\": 3}```", Ok(json!({ "a": 3 }))),
            ("{\"a\":\"x\"}", Err("/a: ")),
            ("{}", Err("the value: ")),
            ("Here it is: {\"a\":1}", Err("not JSON")),
            ("{\"a\":1} {\"a\":1}", Err("not JSON")),
        ] {
            match (structured(&schema, answer), fits) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{answer}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{answer}: {why}"),
                (is, _) => panic!("{answer}: {is:?}"),
            }
        }
        let long = " ".repeat(STRUCTURED_BYTES) + "{\"a\":1}";
        assert!(structured(&schema, &long).unwrap_err().contains("MiB"));
    }

    #[test]
    fn r61_a_schema_is_checked_before_it_is_used() {
        assert_eq!(check_schema(&json!({ "type": "object" })), Ok(()));
        let wrong = [json!(true), json!({ "type": "thing" }), json!({ "$ref": "file:///etc/hostname" })];
        for schema in wrong.iter().chain([&json!({ "description": "x".repeat(SCHEMA_BYTES) })]) {
            let why = check_schema(schema).unwrap_err();
            assert!(!why.contains('\n') && why.chars().count() < MISFIT_CHARS + 100, "{why}");
        }
    }

    #[test]
    fn r24_a_deep_schema_and_a_pattern_that_is_too_large_end_no_process() {
        let chain = |length: usize| {
            let next = |at: usize| {
                if at == length {
                    json!({ "type": "integer" })
                } else {
                    json!({ "$ref": format!("#/$defs/d{}", at + 1) })
                }
            };
            let definitions: serde_json::Map<_, _> = (0..=length).map(|at| (format!("d{at}"), next(at))).collect();
            json!({ "$ref": "#/$defs/d0", "$defs": definitions })
        };
        assert_eq!(structured(&chain(1_500), "5"), Ok(json!(5)));
        assert!(structured(&chain(1_500), "\"x\"").is_err());
        let deep = (0..100).fold(json!({ "type": "integer" }), |inner, _| json!({ "not": inner }));
        assert_eq!(check_schema(&deep), Ok(()));
        let error = check_schema(&json!({ "pattern": "^\\p{L}{1,2000}$" })).unwrap_err();
        assert!(error.contains("too large"), "{error}");
    }
}
