//! How far a schema expands before a value is looked at: a reference, or a part of `anyOf` and the like, is checked against the same
//! value again. If such steps come back to where they began, the schema has no end; if there are very many, it has none that
//! anybody waits for. Steps into a part of the value (`properties`, `items`) are not counted: a value has an end.
//!
//! Each part of a schema is counted once, so the count itself takes no longer than reading the schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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

/// The error says that the schema has no end, or is too expensive.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let document = Document::of(schema);
    let mut steps = Steps { document: &document, known: BTreeMap::new(), parts: vec![schema] };
    while let Some(part) = steps.parts.pop() {
        let count = steps.count(part)?;
        if count > SCHEMA_STEPS {
            return Err(format!(
                "the schema is too expensive to check: its references expand to more than {SCHEMA_STEPS} steps for one value; \
                 refer to the same definition fewer times within a definition"
            ));
        }
    }
    Ok(())
}

/// Where a part of the schema is, which is what it is known by.
type At = *const Value;

/// The names in a schema.
struct Document<'a> {
    root: &'a Value,
    /// The resource that each part belongs to: the next one above it that has an `$id`, or the root.
    resources: BTreeMap<At, &'a Value>,
    /// `$id`, and the resource.
    ids: Vec<(&'a str, &'a Value)>,
    anchors: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Document<'a> {
    fn of(root: &'a Value) -> Self {
        let mut document = Self { root, resources: BTreeMap::new(), ids: vec![], anchors: BTreeMap::new() };
        document.read(root, root);
        document
    }

    /// No value that was parsed is deeper than a parser goes.
    fn read(&mut self, value: &'a Value, resource: &'a Value) {
        let Some(members) = value.as_object() else {
            for item in value.as_array().into_iter().flatten() {
                self.read(item, resource);
            }
            return;
        };
        let id = members.get("$id").and_then(Value::as_str).filter(|id| !id.starts_with('#'));
        let resource = if id.is_some() { value } else { resource };
        self.ids.extend(id.map(|id| (id, value)));
        self.resources.insert(value, resource);
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = members.get(name).and_then(Value::as_str) {
                self.anchors.entry(anchor).or_insert(value);
            }
        }
        for member in members.values() {
            self.read(member, resource);
        }
    }

    /// What a reference in this part refers to; none if that is in another document, or nowhere.
    fn target(&self, reference: &str, from: &'a Value) -> Option<&'a Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own = || self.resources.get(&std::ptr::from_ref(from)).copied().unwrap_or(self.root);
        let resource = if base.is_empty() { own() } else { self.resource(base)? };
        let fragment = decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            return resource.pointer(&fragment);
        }
        self.anchors.get(fragment.as_str()).copied()
    }

    fn resource(&self, base: &str) -> Option<&'a Value> {
        let is_named = |id: &str| {
            let id = id.trim_end_matches('#');
            id == base || id.strip_suffix(base).is_some_and(|before| before.ends_with('/'))
        };
        self.ids.iter().find(|(id, _)| is_named(id)).map(|(_, resource)| *resource)
    }
}

/// The text of a fragment, in which a byte may be written as `%20`.
fn decoded(fragment: &str) -> String {
    let mut bytes = vec![];
    let mut rest = fragment.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = behind.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

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
        self.known.insert(schema, Count::Open);
        let mut steps = 1_u64;
        for next in self.same(members, schema) {
            steps = steps.saturating_add(self.count(next)?);
        }
        self.known.insert(schema, Count::Steps(steps));
        self.add_parts(members);
        Ok(steps)
    }

    fn same(&self, members: &'a Map<String, Value>, schema: &'a Value) -> Vec<&'a Value> {
        let one = SAME_ONE.iter().filter_map(|name| members.get(*name));
        let listed = SAME_LIST.iter().filter_map(|name| members.get(*name)?.as_array()).flatten();
        let mapped = SAME_MAP.iter().filter_map(|name| members.get(*name)?.as_object()).flat_map(Map::values);
        let references = REFERENCES.iter().filter_map(|name| members.get(*name)?.as_str());
        let referred = references.filter_map(|reference| self.document.target(reference, schema));
        one.chain(listed).chain(mapped).chain(referred).collect()
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
