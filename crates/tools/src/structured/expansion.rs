//! How far a schema expands before a value is looked at: a reference, or a part of `anyOf` and the like, is checked against the same
//! value again. If such steps come back to where they began, the schema has no end; if there are very many, it has none that
//! anybody waits for. Steps into a part of the value (`properties`, `items`) are not counted: a value has an end.
//!
//! Each part of a schema is counted once, so the count itself takes no longer than reading the schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::document::{Document, Target};
use crate::limits::SCHEMA_STEPS;

/// Keywords whose schema is checked against the same value.
const SAME_ONE: &[&str] = &["not", "if", "then", "else"];
const SAME_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
const SAME_MAP: &[&str] = &["dependentSchemas", "dependencies"];
const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose schema is checked against a part of the value.
const PART: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "items",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const PART_MAP: &[&str] = &["properties", "patternProperties"];

/// The error says that the schema has no end, is too expensive, or cannot be counted. Returns a reference that leads to no known
/// place, if there is one: whoever compiles the schema knows better why it is wrong.
pub(super) fn check(schema: &Value) -> Result<Option<String>, String> {
    let document = Document::of(schema);
    let mut steps = Steps { document: &document, known: BTreeMap::new(), parts: vec![schema], lost: None };
    while let Some(part) = steps.parts.pop() {
        let count = steps.count(part)?;
        if count > SCHEMA_STEPS {
            return Err(format!(
                "the schema is too expensive to check: its references expand to more than {SCHEMA_STEPS} steps for one value; \
                 refer to the same definition fewer times within a definition"
            ));
        }
    }
    Ok(steps.lost)
}

/// Where a part of the schema is, which is what it is known by.
type At = *const Value;

/// What is known of a part.
enum Count {
    /// It is being counted.
    Open,
    Steps(u64),
}

struct Steps<'a, 'd> {
    document: &'d Document<'a>,
    known: BTreeMap<At, Count>,
    /// Schemas of parts of the value, which are still to be counted.
    parts: Vec<&'a Value>,
    /// A reference that leads to no known place.
    lost: Option<String>,
}

impl<'a> Steps<'a, '_> {
    /// How many schemas are checked against one value, beginning with this one.
    fn count(&mut self, schema: &'a Value) -> Result<u64, String> {
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Count::Steps(steps)) => return Ok(*steps),
            Some(Count::Open) => return Err(endless(schema)),
            None => {}
        }
        let Some(members) = schema.as_object() else { return Ok(1) };
        self.document.must_be_placed(schema)?;
        self.known.insert(schema, Count::Open);
        let mut steps = 1_u64;
        for next in self.referred(members, schema) {
            steps = steps.saturating_add(self.count(next)?);
        }
        if !self.document.is_reference_alone(members) {
            for next in Self::same(members) {
                steps = steps.saturating_add(self.count(next)?);
            }
            self.add_parts(members);
        }
        self.known.insert(schema, Count::Steps(steps));
        Ok(steps)
    }

    /// What the references of a part refer to.
    fn referred(&mut self, members: &Map<String, Value>, schema: &'a Value) -> Vec<&'a Value> {
        let mut referred = vec![];
        for (name, reference) in REFERENCES.iter().filter_map(|name| Some((*name, members.get(*name)?.as_str()?))) {
            match self.document.target(name, reference, schema) {
                Target::Parts(parts) => referred.extend(parts),
                Target::Metaschema => {}
                Target::Lost => self.lost = Some(format!("`{name}` {reference:?}")),
            }
        }
        referred
    }

    fn same(members: &'a Map<String, Value>) -> Vec<&'a Value> {
        let one = SAME_ONE.iter().filter_map(|name| members.get(*name));
        let listed = SAME_LIST.iter().filter_map(|name| members.get(*name)?.as_array()).flatten();
        let mapped = SAME_MAP.iter().filter_map(|name| members.get(*name)?.as_object()).flat_map(Map::values);
        one.chain(listed).chain(mapped).collect()
    }

    fn add_parts(&mut self, members: &'a Map<String, Value>) {
        for value in PART.iter().filter_map(|name| members.get(*name)) {
            match value {
                Value::Array(list) => self.parts.extend(list),
                _ => self.parts.push(value),
            }
        }
        let mapped = PART_MAP.iter().filter_map(|name| members.get(*name)?.as_object()).flat_map(Map::values);
        self.parts.extend(mapped);
    }
}

fn endless(schema: &Value) -> String {
    let reference = REFERENCES.iter().find_map(|name| schema.get(*name)?.as_str());
    let part = reference.map_or_else(|| "a part of it".to_owned(), |reference| format!("{reference:?}"));
    format!(
        "the schema has no end: {part} refers to itself without a step into `properties` or `items`; refer to it from within one \
         of these"
    )
}
