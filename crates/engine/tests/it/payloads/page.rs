//! Compares docs/internals/format.md, from which others write readers, with the events: kinds, durability, fields,
//! nullability, objects, words.

use std::collections::BTreeMap;

use engine::{
    BranchId, CallId, Created, Durability, EffectId, Event, Hash, STATE_VERSION, Session, SessionId, Timestamp,
    UnreadableEvent, VERSION,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::samples;

const PAGE: &str = include_str!("../../../../../docs/internals/format.md");

/// A field as the page has it.
struct Field<'a> {
    name: &'a str,
    form: &'a str,
    is_list: bool,
    may_be_null: bool,
    /// It is left out if it is empty.
    may_be_absent: bool,
}

/// The cells of the rows of the table under this heading of its first column.
fn table(first_column: &str) -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(&format!("| {first_column} |")));
    let rows: Vec<_> = lines.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "the page has a table of {first_column}s");
    rows
}

fn fields(cell: &str) -> Vec<Field<'_>> {
    if cell == "none" {
        return vec![];
    }
    let field = |text| {
        let (name, form): (&str, &str) = str::split_once(text, ": ").unwrap_or_else(|| panic!("{text}: no form"));
        let (form, may_be_absent) = form.strip_suffix('*').map_or((form, false), |form| (form, true));
        let bare = form.trim_end_matches('?');
        let form_alone = bare.trim_start_matches('[').trim_end_matches(']');
        Field { name, form: form_alone, is_list: bare != form_alone, may_be_null: form.ends_with('?'), may_be_absent }
    };
    cell.trim_matches('`').split(", ").map(field).collect()
}

fn objects() -> BTreeMap<&'static str, Vec<Field<'static>>> {
    table("object").into_iter().map(|row| (row[0], fields(row[1]))).collect()
}

fn words() -> BTreeMap<&'static str, Vec<&'static str>> {
    let quoted = |cell: &'static str| cell.split_whitespace().map(|word| word.trim_matches('`')).collect();
    table("word").into_iter().map(|row| (row[0], quoted(row[1]))).collect()
}

/// One event whose payload is compared with the page.
struct Check<'a> {
    event: &'a Event,
    payload: Value,
    objects: &'a BTreeMap<&'static str, Vec<Field<'static>>>,
    words: &'a BTreeMap<&'static str, Vec<&'static str>>,
}

impl Check<'_> {
    /// The result of decoding the event with this value at this place.
    fn with(&self, place: &str, value: Value) -> Result<Event, UnreadableEvent> {
        let mut payload = self.payload.clone();
        *payload.pointer_mut(place).expect("a place that was just read") = value;
        Event::decode(self.event.kind(), VERSION, payload.to_string().as_bytes())
    }

    /// The result of decoding the event without the field at this place.
    fn without(&self, place: &str) -> Result<Event, UnreadableEvent> {
        let mut payload = self.payload.clone();
        let (object, name) = place.rsplit_once('/').expect("a place in an object");
        payload.pointer_mut(object).and_then(Value::as_object_mut).expect("an object").remove(name);
        Event::decode(self.event.kind(), VERSION, payload.to_string().as_bytes())
    }

    fn object(&self, place: &str, fields: &[Field<'_>]) {
        let object = self.payload.pointer(place).and_then(Value::as_object).expect("an object");
        let mut expected: Vec<&str> = fields.iter().map(|field| field.name).collect();
        expected.sort_unstable();
        assert_eq!(names(object), expected, "fields of {}{place}", self.event.kind());
        for field in fields {
            self.field(&format!("{place}/{}", field.name), field);
        }
    }

    fn field(&self, place: &str, field: &Field<'_>) {
        let what = format!("{}{place}", self.event.kind());
        let is_nullable = self.with(place, Value::Null).is_ok();
        assert_eq!(is_nullable, field.may_be_null, "whether {what} may be null");
        assert!(!field.may_be_absent || self.without(place).is_ok(), "{what} may be left out");
        match self.payload.pointer(place).expect("every field is set in the samples") {
            Value::Array(values) => {
                assert!(field.is_list && !values.is_empty(), "{what}");
                self.value(&format!("{place}/0"), field.form);
            }
            _ => self.value(place, field.form),
        }
    }

    fn value(&self, place: &str, form: &str) {
        let what = format!("{}{place}: {form}", self.event.kind());
        let value = self.payload.pointer(place).expect("a value");
        let text = value.as_str().unwrap_or_default();
        let is_so = match form {
            "text" => value.is_string() && self.with(place, "any text at all".into()).is_ok(),
            "id" => text.parse::<Uuid>().is_ok(),
            "call" => text.parse::<CallId>().is_ok(),
            "effect" => text.parse::<EffectId>().is_ok(),
            "hash" => text.parse::<Hash>().is_ok(),
            "item" => serde_json::from_value::<engine::Item>(value.clone()).is_ok(),
            "json" => value.is_object() && self.with(place, serde_json::json!({ "any": [1] })).is_ok(),
            "bool" => value.is_boolean(),
            "number" => value.is_u64() && self.with(place, (-1).into()).is_err(),
            "time" => self.with(place, (-1).into()).is_ok() && self.with(place, "1".into()).is_err(),
            _ => match (self.objects.get(form), self.words.get(form)) {
                (Some(fields), None) => {
                    self.object(place, fields);
                    true
                }
                (None, Some(words)) => self.words_at(place) == *words,
                _ => panic!("{what}: the page does not say what this is"),
            },
        };
        assert!(is_so, "{what} is {value}");
    }

    /// The words that are valid at a place, as the error for another word lists them.
    fn words_at(&self, place: &str) -> Vec<String> {
        let Err(UnreadableEvent::Payload { error, .. }) = self.with(place, "no_such_word".into()) else {
            return vec![];
        };
        let listed = error.split_once("expected ").map_or("", |(_, listed)| listed);
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }
}

fn names(object: &Map<String, Value>) -> Vec<&str> {
    let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn bodies_in(value: &Value) -> usize {
    match value {
        Value::Object(object) if names(object) == ["bytes", "hash", "kind", "tokens"] => 1,
        Value::Object(object) => object.values().map(bodies_in).sum(),
        Value::Array(values) => values.iter().map(bodies_in).sum(),
        _ => 0,
    }
}

#[test]
fn r10_r18_the_page_lists_every_event_with_its_fields() {
    let (rows, objects, words) = (table("kind"), objects(), words());
    let listed: Vec<&str> = rows.iter().map(|row| row[0].trim_matches(['*', '`'])).collect();
    assert_eq!(listed, Event::KINDS);
    for (event, row) in samples().iter().zip(&rows) {
        let payload = serde_json::from_slice(&event.payload()).expect("JSON");
        let check = Check { event, payload, objects: &objects, words: &words };
        check.object("", &fields(row[2]));
        let kept = match (event.progress(), event.durability()) {
            (Some(_), _) => "progress",
            (None, Durability::Synced) => "synced",
            (None, Durability::Written) => "written",
        };
        assert_eq!(row[1], kept, "{}", event.kind());
    }
}

/// A reader that follows the page accepts snapshots of the version that the engine writes.
#[test]
fn r17_r18_the_page_names_the_version_of_snapshots() {
    assert!(PAGE.contains(&format!("{{\"version\":{STATE_VERSION},\"session\"")));
}

/// The page says that content is named by objects `body`, wherever they stand, and by the settings of `run_started`.
#[test]
fn r10_the_bodies_that_an_event_names_are_found_as_the_page_says() {
    for event in samples() {
        let payload: Value = serde_json::from_slice(&event.payload()).expect("JSON");
        assert_eq!(bodies_in(&payload), event.bodies().len(), "{}", event.kind());
        let others = event.references().len() - event.bodies().len();
        assert_eq!(others, usize::from(event.kind() == "run_started"), "{}", event.kind());
    }
}

#[test]
fn r17_the_page_lists_the_fields_of_a_session() {
    let created = Created {
        session: SessionId(Uuid::from_u128(1)),
        key: "agent:main:main".into(),
        agent: "main".into(),
        branch: BranchId(Uuid::from_u128(2)),
    };
    let session = serde_json::to_value(Session::created(&created, Timestamp(1))).expect("JSON");
    assert_eq!(names(session.as_object().expect("an object")), ["account", "conversation"]);
    for half in ["account", "conversation"] {
        let cells = table(&format!("of `{half}`"));
        let mut listed: Vec<&str> =
            cells.iter().flat_map(|row| row[0].split(", ")).map(|name| name.trim_matches('`')).collect();
        listed.sort_unstable();
        assert_eq!(names(session[half].as_object().expect("an object")), listed, "{half}");
    }
    assert_eq!(
        names(session["conversation"]["transcript"].as_object().expect("an object")),
        ["counted", "flush", "items", "resets", "sent", "sent_tokens", "seqs", "tokens"]
    );
}
