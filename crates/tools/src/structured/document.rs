//! The names in a schema, resolved as the validator resolves them: each `$id` is an address that counts from the one around it, and an
//! anchor is a name within one such resource. Where the target depends on what is checked (`$dynamicRef`), it may be each that it
//! could be.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Map, Value};

use crate::schema_validator::NAME;

/// Keywords with schemas: since which draft, and what is a schema there.
const SCHEMAS: &[(&str, u16, Holds)] = &[
    ("definitions", 4, Holds::Map),
    ("not", 4, Holds::One),
    ("allOf", 4, Holds::List),
    ("anyOf", 4, Holds::List),
    ("oneOf", 4, Holds::List),
    ("properties", 4, Holds::Map),
    ("additionalProperties", 4, Holds::One),
    ("patternProperties", 4, Holds::Map),
    ("items", 4, Holds::OneOrList),
    ("additionalItems", 4, Holds::One),
    ("dependencies", 4, Holds::Map),
    ("propertyNames", 6, Holds::One),
    ("contains", 6, Holds::One),
    ("if", 7, Holds::One),
    ("then", 7, Holds::One),
    ("else", 7, Holds::One),
    ("$defs", 2019, Holds::Map),
    ("dependentSchemas", 2019, Holds::Map),
    ("unevaluatedProperties", 2019, Holds::One),
    ("unevaluatedItems", 2019, Holds::One),
    ("contentSchema", 2019, Holds::One),
    ("prefixItems", 2020, Holds::List),
];
/// Drafts by the addresses of their schemas, without scheme and fragment.
const DRAFTS: &[(&str, u16)] = &[
    ("json-schema.org/draft-04/schema", 4),
    ("json-schema.org/draft-06/schema", 6),
    ("json-schema.org/draft-07/schema", 7),
    ("json-schema.org/draft/2019-09/schema", 2019),
];
/// The host of the schemas of schemas, which the validator has in itself. They have an end.
const METASCHEMAS: &str = "json-schema.org";
const LATEST: u16 = 2020;
/// The draft from which on other keywords count beside a reference.
const BESIDE: u16 = 2019;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    One,
    List,
    OneOrList,
    Map,
}

/// Where a part of the schema is, which is what it is known by.
type At = *const Value;

/// The names in a schema.
pub(super) struct Document<'a> {
    draft: u16,
    resources: Vec<Resource<'a>>,
    /// The resource that each part belongs to, by its place in the list.
    resource_of: BTreeMap<At, usize>,
    /// The `$id` above each part where nobody knows what it means.
    misplaced: BTreeMap<At, &'a str>,
    /// What has a `$dynamicAnchor`, by its name.
    dynamic: BTreeMap<&'a str, Vec<&'a Value>>,
    /// What has a `$recursiveAnchor`.
    recursive: Vec<&'a Value>,
}

struct Resource<'a> {
    /// None if its `$id` is no address.
    address: Option<Url>,
    part: &'a Value,
    anchors: BTreeMap<&'a str, Vec<&'a Value>>,
}

/// What a reference refers to.
pub(super) enum Target<'a> {
    /// One of these, or all.
    Parts(Vec<&'a Value>),
    /// A schema of schemas.
    Metaschema,
    /// Another document, or nothing.
    Lost,
}

/// Whether a schema is expected where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Schema,
    /// Something else; a reference may lead there nevertheless.
    Other,
}

impl<'a> Document<'a> {
    pub(super) fn of(root: &'a Value) -> Self {
        let named = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let named = named.split('#').next().unwrap_or_default().split("://").last().unwrap_or_default();
        let draft = DRAFTS.iter().find(|(address, _)| *address == named).map_or(LATEST, |(_, draft)| *draft);
        let base = Resource { address: Url::parse(NAME).ok(), part: root, anchors: BTreeMap::new() };
        let mut document = Self {
            draft,
            resources: vec![base],
            resource_of: BTreeMap::new(),
            misplaced: BTreeMap::new(),
            dynamic: BTreeMap::new(),
            recursive: vec![],
        };
        document.read(root, 0, Place::Schema, None);
        document
    }

    /// Reads a value within a resource. No value that was parsed is deeper than a parser goes.
    fn read(&mut self, value: &'a Value, resource: usize, place: Place, misplaced: Option<&'a str>) {
        let Some(members) = value.as_object() else {
            for item in value.as_array().into_iter().flatten() {
                self.read(item, resource, Place::Other, misplaced);
            }
            return;
        };
        let id = self.id(members);
        let misplaced = misplaced.or(id.filter(|_| place == Place::Other));
        let resource = match id.filter(|_| misplaced.is_none()) {
            Some(id) => self.add_resource(id, value, resource),
            None => resource,
        };
        self.resource_of.insert(value, resource);
        self.misplaced.extend(misplaced.map(|id| (std::ptr::from_ref(value), id)));
        self.add_anchors(members, value, resource);
        for (name, member) in members {
            let keyword = SCHEMAS.iter().find(|(keyword, since, _)| keyword == name && *since <= self.draft);
            let holds = keyword.filter(|_| place == Place::Schema).map(|(_, _, holds)| *holds);
            match (holds, member) {
                (Some(Holds::Map), Value::Object(map)) => {
                    self.resource_of.insert(member, resource);
                    for schema in map.values() {
                        self.read(schema, resource, Place::Schema, misplaced);
                    }
                }
                (Some(Holds::List | Holds::OneOrList), Value::Array(list)) => {
                    for schema in list {
                        self.read(schema, resource, Place::Schema, misplaced);
                    }
                }
                (Some(Holds::One | Holds::OneOrList), _) => self.read(member, resource, Place::Schema, misplaced),
                (Some(Holds::Map | Holds::List) | None, _) => self.read(member, resource, Place::Other, misplaced),
            }
        }
    }

    /// The address of a part, relative to that around it.
    fn id(&self, members: &'a Map<String, Value>) -> Option<&'a str> {
        if self.is_reference_alone(members) {
            return None;
        }
        let id = members.get(self.id_keyword())?.as_str()?;
        let id = id.split('#').next().unwrap_or_default();
        (!id.is_empty()).then_some(id)
    }

    fn id_keyword(&self) -> &'static str {
        if self.draft == 4 { "id" } else { "$id" }
    }

    /// Whether a part has a reference beside which nothing counts.
    pub(super) fn is_reference_alone(&self, members: &Map<String, Value>) -> bool {
        self.draft < BESIDE && members.contains_key("$ref")
    }

    fn add_resource(&mut self, id: &str, part: &'a Value, around: usize) -> usize {
        let address = self.resources[around].address.as_ref().and_then(|base| base.join(id).ok());
        let resource = Resource { address, part, anchors: BTreeMap::new() };
        if std::ptr::eq(part, self.resources[0].part) {
            self.resources[0] = resource;
            return 0;
        }
        self.resources.push(resource);
        self.resources.len() - 1
    }

    fn add_anchors(&mut self, members: &'a Map<String, Value>, part: &'a Value, resource: usize) {
        let name = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        let id_keyword = self.id_keyword();
        let anchors = &mut self.resources[resource].anchors;
        let by_id = name(id_keyword).and_then(|id| id.strip_prefix('#'));
        for anchor in [name("$anchor"), name("$dynamicAnchor"), by_id].into_iter().flatten() {
            anchors.entry(anchor).or_default().push(part);
        }
        if let Some(anchor) = name("$dynamicAnchor") {
            self.dynamic.entry(anchor).or_default().push(part);
        }
        if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.recursive.push(part);
        }
    }

    /// What a reference in this part refers to.
    pub(super) fn target(&self, keyword: &str, reference: &str, from: &'a Value) -> Target<'a> {
        let own = self.resource_of.get(&std::ptr::from_ref(from)).copied().unwrap_or_default();
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = if base.is_empty() {
            Some(&self.resources[own])
        } else {
            let address = self.resources[own].address.as_ref().and_then(|around| around.join(base).ok());
            let Some(address) = address else { return Target::Lost };
            let found = self.resources.iter().find(|resource| resource.address.as_ref() == Some(&address));
            if found.is_none() && address.host_str() == Some(METASCHEMAS) {
                return Target::Metaschema;
            }
            found
        };
        let Some(resource) = resource else { return Target::Lost };
        let fragment = decoded(fragment);
        let mut parts: Vec<&'a Value> = if fragment.is_empty() || fragment.starts_with('/') {
            resource.part.pointer(&fragment).into_iter().collect()
        } else {
            resource.anchors.get(fragment.as_str()).cloned().unwrap_or_default()
        };
        if parts.is_empty() {
            return Target::Lost;
        }
        let others = match keyword {
            "$dynamicRef" => self.dynamic.get(fragment.as_str()).map_or(&[][..], Vec::as_slice),
            "$recursiveRef" => &self.recursive,
            _ => &[],
        };
        parts.extend(
            others.iter().filter(|other| !parts.iter().any(|part| std::ptr::eq(*part, **other))).collect::<Vec<_>>(),
        );
        Target::Parts(parts)
    }

    /// The error says that nobody knows what the references in this part refer to.
    pub(super) fn must_be_placed(&self, part: &'a Value) -> Result<(), String> {
        let Some(id) = self.misplaced.get(&std::ptr::from_ref(part)) else { return Ok(()) };
        let keyword = self.id_keyword();
        Err(format!(
            "the schema cannot be checked: its `{keyword}` {id:?} stands where no schema is expected, but a reference leads there; \
             move that part into `$defs`"
        ))
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
