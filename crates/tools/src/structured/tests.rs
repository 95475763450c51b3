//! What a check says of schemas and answers, without the process around it.

use serde_json::json;

use super::*;
use crate::limits::MISFIT_CHARS;

/// As in the process that checks.
fn checked(schema: &Value, answer: Option<&str>) -> Result<String, StructuredError> {
    let job = Job { schema: schema.clone(), answer: answer.map(str::to_owned) };
    let job = job.rendered().map_err(StructuredError::Unchecked)?;
    let job = Job::read(&job).expect("what was written can be read");
    read_verdict(&write_verdict(&check::on_a_large_stack(|| check::checked(&job))))
}

fn structured(schema: &Value, answer: &str) -> Result<String, String> {
    checked(schema, Some(answer)).map_err(|error| error.to_string())
}

fn check_schema(schema: &Value) -> Result<(), String> {
    checked(schema, None).map(drop).map_err(|error| error.to_string())
}

fn number() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "number" } }, "required": ["a"] })
}

/// R61: what the tools of the field take: the value alone, or in the one code fence of the answer that has one.
#[test]
fn r61_an_answer_is_the_value_or_says_why_it_is_not() {
    for (answer, fits) in [
        ("{\"a\":1}", Ok("{\"a\":1}")),
        ("\n```json\n{\"a\": 2}\n```\n", Ok("{\"a\":2}")),
        ("```\n{\"a\": 3}```", Ok("{\"a\":3}")),
        ("```JSON\n{\"a\": 4}\n```", Ok("{\"a\":4}")),
        ("~~~json\n{\"a\": 5}\n~~~", Ok("{\"a\":5}")),
        ("```  json  \n{\"a\": 6}\n```  ", Ok("{\"a\":6}")),
        ("````\n{\"a\": 7}\n````", Ok("{\"a\":7}")),
        ("```json {\"a\": 8} ```", Ok("{\"a\":8}")),
        ("```json{\"a\": 8}```", Ok("{\"a\":8}")),
        ("Here it is:\n\n  ```json\n  {\n    \"a\": 9\n  }\n  ```\nAnything else?", Ok("{\"a\":9}")),
        ("First `ls`:\n```sh\nls\n```\nThen:\n```json\n{\"a\": 10}\n```", Ok("{\"a\":10}")),
        ("```json\r\n{\"a\": 11}\r\n```\r\n", Ok("{\"a\":11}")),
        ("{\"a\":\"x\"}", Err("/a: ")),
        ("```json\n{\"a\":\"x\"}\n```", Err("/a: ")),
        ("{}", Err("the value: ")),
        ("Here it is: {\"a\":1}", Err("not JSON")),
        ("{\"a\":1} {\"a\":1}", Err("not JSON")),
        ("```json\n{\"a\":1}\n```\nor\n```json\n{\"a\":2}\n```", Err("more than one")),
        ("```yaml\n{\"a\":1}\n```", Err("not JSON")),
        ("```json\n{\"a\":1}\n", Err("not JSON")),
        ("{\"a\":1,\"a\":2}", Err("\"a\" twice")),
        ("", Err("not JSON")),
    ] {
        match (structured(&number(), answer), fits) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{answer}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{answer}: {why}"),
            (is, _) => panic!("{answer}: {is:?}"),
        }
    }
}

/// R61: the value is given as the model wrote it: no number is rounded, no text is changed, no member moves.
#[test]
fn r61_a_value_is_given_as_it_was_written() {
    for (answer, value) in [
        ("{ \"b\": 0, \"a\" : 12345678901234567890123 }", "{\"b\":0,\"a\":12345678901234567890123}"),
        ("{\"a\":1.0000000000000000001}", "{\"a\":1.0000000000000000001}"),
        ("{\"a\":1e2,\"b\":-0.0}", "{\"a\":1e2,\"b\":-0.0}"),
        ("{\"a\":1,\"b\":\"x  \\\" y\\\\\"\n}", "{\"a\":1,\"b\":\"x  \\\" y\\\\\"}"),
        ("{\"a\":1,\"b\":[ 1 ,\t[ ] ]}", "{\"a\":1,\"b\":[1,[]]}"),
    ] {
        assert_eq!(structured(&number(), answer).as_deref(), Ok(value));
    }
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

/// A chain of definitions, each of which is `next` with the reference to the one after it.
fn chain(length: usize, next: impl Fn(Value) -> Value) -> Value {
    let definition = |at: usize| {
        if at == length {
            json!({ "type": "integer" })
        } else {
            next(json!({ "$ref": format!("#/$defs/d{}", at + 1) }))
        }
    };
    let definitions: serde_json::Map<_, _> = (0..=length).map(|at| (format!("d{at}"), definition(at))).collect();
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn r24_a_deep_schema_and_a_pattern_that_is_too_large_end_no_process() {
    assert_eq!(structured(&chain(1_500, |next| next), "5").as_deref(), Ok("5"));
    assert!(structured(&chain(1_500, |next| next), "\"x\"").is_err());
    let deepest = "{\"not\":".repeat(126) + "{}" + &"}".repeat(126);
    assert_eq!(check_schema(&serde_json::from_str(&deepest).unwrap()), Ok(()));
    let deep = (0..100).fold(json!({ "type": "integer" }), |inner, _| json!({ "not": inner }));
    assert_eq!(check_schema(&deep), Ok(()));
    let error = check_schema(&json!({ "pattern": "^\\p{L}{1,2000}$" })).unwrap_err();
    assert!(error.starts_with("the schema is not valid: a pattern in it cannot be used"), "{error}");
}

/// R24: what expands without bound is known before anything is sent, by a count that is as short as the schema.
#[test]
fn r24_a_schema_that_expands_without_bound_is_refused() {
    for schema in [
        chain(60, |next| json!({ "allOf": [next, next] })),
        chain(24, |next| json!({ "anyOf": [next, next] })),
        chain(24, |next| json!({ "if": next, "then": next, "else": next })),
        json!({ "properties": { "a": chain(60, |next| json!({ "oneOf": [next, next] }))["$defs"]["d0"] },
            "$defs": chain(60, |next| json!({ "oneOf": [next, next] }))["$defs"] }),
    ] {
        let error = check_schema(&schema).unwrap_err();
        assert!(error.starts_with("the schema is too expensive to check: "), "{error}");
    }
    for schema in [
        chain(1_000, |next| json!({ "anyOf": [next, { "type": "null" }] })),
        chain(12, |next| json!({ "allOf": [next, next] })),
    ] {
        assert_eq!(check_schema(&schema), Ok(()));
    }
}

/// R61: a schema that refers to itself for the same value has no end; a tree has one, because a value has.
#[test]
fn r61_a_schema_without_an_end_is_refused_and_a_tree_is_none() {
    let definitions = |a: Value, b: Value| json!({ "$ref": "#/$defs/a", "$defs": { "a": a, "b": b } });
    let of = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }),
        json!({ "not": { "not": { "$ref": "#" } } }),
        json!({ "if": { "$ref": "#" } }),
        json!({ "dependentSchemas": { "a": { "$ref": "#" } } }),
        definitions(of("b"), of("a")),
        definitions(json!({ "anyOf": [of("b")] }), json!({ "oneOf": [of("a")] })),
        json!({ "items": { "$ref": "#/$defs/a%20b" }, "$defs": { "a b": { "$ref": "#/$defs/a b" } } }),
        json!({ "properties": { "x": { "$anchor": "n", "allOf": [{ "$ref": "#n" }] } } }),
        json!({ "$id": "https://example.org/s", "$ref": "https://example.org/s" }),
        json!({ "$id": "https://example.org/s", "items": { "$id": "t", "allOf": [{ "$ref": "t#" }] } }),
        json!({ "$dynamicAnchor": "n", "$dynamicRef": "#n" }),
    ] {
        let error = check_schema(&schema).unwrap_err();
        assert!(error.starts_with("the schema has no end"), "{schema}: {error}");
    }
    let tree = json!({ "type": "object", "properties": { "v": { "type": "integer" },
        "below": { "type": "array", "items": { "$ref": "#" } } }, "required": ["v"] });
    let list = definitions(json!({ "properties": { "next": { "anyOf": [{ "type": "null" }, of("a")] } } }), json!({}));
    for schema in [&tree, &list, &json!({ "$defs": { "unused": { "$ref": "#/$defs/unused" } } })] {
        assert_eq!(check_schema(schema), Ok(()));
    }
    assert!(structured(&tree, "{\"v\":1,\"below\":[{\"v\":2,\"below\":[]}]}").is_ok());
    assert!(structured(&tree, "{\"v\":1,\"below\":[{\"v\":\"x\"}]}").unwrap_err().contains("/below/0/v"));
}

/// R24, R61: a reference by way of `$id` or of anchors is counted as it is resolved when a value is checked.
#[test]
fn r24_r61_references_by_ids_and_anchors_are_counted_as_they_are_resolved() {
    let doubled = |at: usize, reference: &dyn Fn(usize) -> String| {
        let next = json!({ "$ref": reference(at + 1) });
        if at == 24 { json!({}) } else { json!({ "anyOf": [next, next] }) }
    };
    let named = |name: &dyn Fn(usize) -> (&'static str, String), reference: &dyn Fn(usize) -> String| {
        let definition = |at: usize| {
            let mut definition = doubled(at, reference);
            let (key, value) = name(at);
            definition[key] = value.into();
            (format!("d{at}"), definition)
        };
        (0..=24).map(definition).collect::<serde_json::Map<_, _>>()
    };
    let ids = named(&|at| ("$id", format!("/{at}/s.json")), &|at| format!("../{at}/s.json"));
    let anchors = named(&|at| ("$anchor", format!("a{at}")), &|at| format!("#a{at}"));
    for schema in [
        json!({ "$id": "https://example.org/a/b", "$ref": "/0/s.json", "$defs": ids }),
        // The same anchors in two resources: those of the second one expand.
        json!({ "$id": "https://example.org/a", "$ref": "b#a0", "$defs": {
            "first": { "allOf": (0..=24).map(|at| json!({ "$anchor": format!("a{at}") })).collect::<Vec<_>>() },
            "second": { "$id": "b", "$defs": anchors } } }),
    ] {
        let error = check_schema(&schema).unwrap_err();
        assert!(error.starts_with("the schema is too expensive to check: "), "{error}");
    }
    for schema in [
        json!({ "$id": "https://example.org/a/b", "$ref": "c/../d", "$defs": { "x": { "$id": "d", "$ref": "./d" } } }),
        json!({ "$id": "https://example.org/a", "$ref": "b#x", "$defs": {
            "y": { "$anchor": "x" }, "b": { "$id": "b", "$defs": { "x": { "$anchor": "x", "not": { "$ref": "#x" } } } } } }),
        json!({ "$id": "https://example.org/a", "$ref": "b", "$dynamicAnchor": "x",
            "$defs": { "b": { "$id": "b", "$dynamicAnchor": "x", "$dynamicRef": "#x" } } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#n", "definitions": { "a": { "$id": "#n",
            "allOf": [{ "$ref": "#n" }] } } }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "https://example.org/a", "allOf": [{ "$ref": "b" }],
            "definitions": { "a": { "id": "b", "not": { "$ref": "b#" } } } }),
    ] {
        let error = check_schema(&schema).unwrap_err();
        assert!(error.starts_with("the schema has no end"), "{schema}: {error}");
    }
    // Before draft 2019-09 nothing counts beside a reference, and an `$id` beside one is none.
    let ignored = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "a": {
        "$ref": "#/definitions/a", "$id": "https://example.org/b", "allOf": [{ "$ref": "#/properties/a" }] } },
        "definitions": { "a": { "type": "integer" } } });
    let bundled = json!({ "$id": "https://example.org/a", "properties": { "t": { "$ref": "tree" } }, "$defs": { "t": {
        "$id": "tree", "$dynamicAnchor": "node", "properties": { "below": { "items": { "$dynamicRef": "#node" } } } } } });
    let elsewhere =
        json!({ "$ref": "#/components/schemas/a", "components": { "schemas": { "a": { "type": "integer" } } } });
    let meta = json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" });
    let data = json!({ "const": { "$id": "x", "$anchor": "y" }, "properties": { "$id": { "type": "string" } } });
    for schema in [&ignored, &bundled, &elsewhere, &meta, &data] {
        assert_eq!(check_schema(schema), Ok(()), "{schema}");
    }
}

/// R61: what the count does not see through is refused by its key before anything is sent.
#[test]
fn r61_a_schema_that_cannot_be_counted_is_refused_and_its_key_is_named() {
    let hidden = json!({ "$id": "https://example.org/a", "$ref": "#/x/y", "x": { "$id": "b/", "y": { "not": { "$ref": "#/x/y" } } } });
    let error = check_schema(&hidden).unwrap_err();
    assert!(error.contains("`$id` \"b/\"") && error.contains("`$defs`"), "{error}");
}

/// R61: a schema that turns out to have no end is what is wrong, not the answer.
#[test]
fn r61_the_end_that_a_schema_lacks_is_not_blamed_on_the_answer() {
    let endless = json!({ "allOf": [{ "$ref": "#" }] });
    let validator = crate::schema_validator::SchemaValidator::new(&endless).expect("it compiles");
    let error = check::compared(&validator, "1").unwrap_err();
    assert!(matches!(&error, StructuredError::Unchecked(why) if why.starts_with("the schema has no end")), "{error:?}");
}
