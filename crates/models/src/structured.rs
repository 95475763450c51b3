//! The JSON schema of an answer, where a wire format has a place for it. The system prompt has the schema too: an adapter only
//! makes the provider hold to it.

use serde_json::{Map, Value};

use crate::model::Request;

/// The name of the answer, where a format wants one.
pub(crate) const NAME: &str = "answer";

/// The schema that a request is to send: the model must be known to take one beside tools. The rest of an answer that was cut is
/// no value, so it is asked for without. All of these APIs want an object.
pub(crate) fn schema_of(request: &Request) -> Option<&Value> {
    let schema = request.output_schema.as_deref().filter(|schema| schema["type"] == "object")?;
    Some(schema).filter(|_| request.candidate.structured_output && !request.continues)
}

/// What an API takes of JSON Schema. A schema that goes beyond may be refused with the whole request.
#[derive(Debug)]
pub(crate) struct Subset {
    keywords: &'static [&'static str],
    /// Whether each object must require all that it says, and have nothing else.
    is_closed: bool,
    /// Whether a schema may refer to itself.
    may_recur: bool,
}

/// The strict mode of OpenAI (<https://platform.openai.com/docs/guides/structured-outputs>), without what Anthropic does not take.
pub(crate) const OPENAI_STRICT: Subset = Subset { keywords: STRICT, is_closed: true, may_recur: true };

/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
pub(crate) const ANTHROPIC: Subset = Subset { keywords: STRICT, is_closed: true, may_recur: false };

/// <https://ai.google.dev/api/generate-content#generationconfig>, `responseJsonSchema`.
pub(crate) const GEMINI: Subset = Subset {
    keywords: &[
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "enum",
        "anyOf",
        "oneOf",
        "format",
        "$ref",
        "$defs",
        "title",
        "description",
    ],
    is_closed: false,
    may_recur: false,
};

const STRICT: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "title",
    "description",
];

/// Levels of objects and lists in each other that OpenAI takes.
const LEVELS: usize = 10;

/// Parts that OpenAI takes, and so no more are looked at.
const PARTS: usize = 5_000;

/// Whether an API takes a schema.
pub(crate) fn fits(schema: &Value, subset: &'static Subset) -> bool {
    let mut looked = Looked { root: schema, subset, parts: 0 };
    let definitions = schema.get("$defs").and_then(Value::as_object);
    looked.takes(schema, 0)
        && definitions.into_iter().flat_map(Map::values).all(|definition| looked.takes(definition, 0))
}

struct Looked<'a> {
    root: &'a Value,
    subset: &'static Subset,
    parts: usize,
}

impl<'a> Looked<'a> {
    fn takes(&mut self, schema: &'a Value, level: usize) -> bool {
        let Some(members) = schema.as_object() else { return false };
        self.parts += 1;
        if level > LEVELS || self.parts > PARTS {
            return false;
        }
        let is_root = std::ptr::eq(schema, self.root);
        let is_taken = |name: &String| self.subset.keywords.contains(&name.as_str()) || is_root && name == "$schema";
        members.keys().all(is_taken)
            && (is_root || !members.contains_key("$defs"))
            && (!is_root || !members.contains_key("anyOf"))
            && (!self.subset.is_closed || is_closed(members))
            && members
                .get("enum")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .chain(members.get("const"))
                .all(is_scalar)
            && self.refers(members, level)
            && self.below(members, level)
    }

    /// To a definition; if a schema must not refer to itself, the definition is a part like any other, which has an end.
    fn refers(&mut self, members: &'a Map<String, Value>, level: usize) -> bool {
        let Some(reference) = members.get("$ref") else { return true };
        let root = self.root;
        let target = reference.as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        target.is_some_and(|target| self.subset.may_recur || self.takes(target, level + 1))
    }

    fn below(&mut self, members: &'a Map<String, Value>, level: usize) -> bool {
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let listed = ["anyOf", "oneOf", "prefixItems"].into_iter().filter_map(|name| members.get(name)?.as_array());
        let more = members.get("additionalProperties").filter(|more| more.is_object());
        let parts: Vec<&Value> = properties.chain(members.get("items")).chain(more).chain(listed.flatten()).collect();
        parts.into_iter().all(|part| self.takes(part, level + 1))
    }
}

/// Whether an object has what it says and nothing else.
fn is_closed(members: &Map<String, Value>) -> bool {
    let is_object = match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => members.contains_key("properties"),
    };
    if !is_object {
        return true;
    }
    let required: Vec<&str> =
        members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = members.get("properties").and_then(Value::as_object);
    members.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_none_or(|properties| properties.keys().all(|name| required.contains(&name.as_str())))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r61_an_api_gets_only_a_schema_that_it_takes() {
        let object = |properties: Value, required: Value| {
            json!({ "type": "object", "properties": properties,
            "required": required, "additionalProperties": false })
        };
        let a = object(json!({ "a": { "type": "integer", "description": "how many" } }), json!(["a"]));
        let of = |part: Value| object(json!({ "a": part }), json!(["a"]));
        let with_definition = |part: Value, definition: Value| {
            let mut schema = of(part);
            schema["$defs"] = json!({ "d": definition });
            schema
        };
        let reference = || json!({ "$ref": "#/$defs/d" });
        let deep = (0..12).fold(json!({ "type": "string" }), |inner, _| of(inner));
        for (schema, by_openai, by_anthropic, by_gemini) in [
            (a.clone(), true, true, true),
            (of(json!({ "type": ["string", "null"], "enum": ["x", null] })), true, true, true),
            (of(json!({ "type": "array", "items": a.clone() })), true, true, true),
            (of(json!({ "anyOf": [a.clone(), { "type": "null" }] })), true, true, true),
            (with_definition(reference(), a.clone()), true, true, true),
            (
                with_definition(reference(), of(json!({ "anyOf": [reference(), { "type": "null" }] }))),
                true,
                false,
                false,
            ),
            (json!({ "type": "object" }), false, false, true),
            (object(json!({ "a": {}, "b": {} }), json!(["a"])), false, false, true),
            (of(json!({ "type": "object", "properties": {} })), false, false, true),
            (of(json!({ "type": "string", "minLength": 1 })), false, false, false),
            (of(json!({ "allOf": [a.clone()] })), false, false, false),
            (of(json!({ "const": [1] })), false, false, false),
            (of(json!(true)), false, false, false),
            (of(reference()), false, false, false),
            (of(json!({ "type": "integer", "minimum": 0 })), false, false, true),
            (deep, false, false, false),
        ] {
            let takes = [&OPENAI_STRICT, &ANTHROPIC, &GEMINI].map(|subset| fits(&schema, subset));
            assert_eq!(takes, [by_openai, by_anthropic, by_gemini], "{schema}");
        }
    }

    /// It takes no longer than the schema is long.
    #[test]
    fn r24_a_schema_that_doubles_is_not_followed() {
        let mut definitions = Map::new();
        for at in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
            definitions.insert(format!("d{at}"), json!({ "anyOf": [next, next, next, next, next, next, next, next] }));
        }
        definitions.insert("d60".to_owned(), json!({ "type": "null" }));
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "required": ["a"],
            "additionalProperties": false, "$defs": definitions });
        assert!(!fits(&schema, &ANTHROPIC) && !fits(&schema, &GEMINI));
    }
}
