//! Generates the published schema from the types. A frame validates against it; `methods` and `events` describe the
//! content of frames.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::deprecated::{Deprecated, Surface};
use crate::frame::Frame;
use crate::method::METHODS;
use crate::notice::EVENTS;
use crate::{PROTOCOL, limits};

/// The schema of the whole protocol (JSON Schema 2020-12).
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let frame = generator.subschema_for::<Frame>();
    let mut methods = Map::new();
    for method in METHODS {
        let (params, result) = ((method.params)(&mut generator), (method.result)(&mut generator));
        let about = method.about.trim();
        let row = json!({ "about": about, "scope": method.scope.name(), "params": params, "result": result });
        methods.insert(method.name.to_owned(), row);
    }
    for row in Deprecated::of(Surface::Method) {
        let mut method = methods[row.new].clone();
        method["about"] = json!(row.to_string());
        method["deprecated"] = json!(true);
        methods.insert(row.old.to_owned(), method);
    }
    let mut events = Map::new();
    for event in EVENTS {
        let payload = (event.payload)(&mut generator);
        events.insert(event.name.to_owned(), json!({ "about": event.about, "payload": payload }));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("limulus protocol {PROTOCOL}"),
        "description": "A frame of the protocol; the parameters and results of each method, and the payload of each event. \
                        Generated from the types of limulus; docs/protocol.md explains it.",
        "allOf": [frame],
        "version": PROTOCOL,
        "limits": {
            "firstFrameBytes": limits::FIRST_FRAME_BYTES,
            "frameBytes": limits::FRAME_BYTES,
            "bufferedBytes": limits::BUFFERED_BYTES,
            "handshakeMs": limits::HANDSHAKE_MS,
            "tickMs": limits::TICK_MS,
            "connections": limits::CONNECTIONS,
            "requests": limits::REQUESTS,
        },
        "methods": methods,
        "events": events,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use super::*;
    use crate::{Frame, Request};

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    /// `UPDATE=1` writes the file.
    #[test]
    fn r60_the_published_schema_is_made_from_the_types() {
        let (file, made) =
            (docs().join("protocol.schema.json"), serde_json::to_string_pretty(&schema()).unwrap() + "\n");
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, &made).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), made, "UPDATE=1 regenerates it");
    }

    /// `UPDATE=1` writes the tables.
    #[test]
    fn r60_the_page_lists_every_method_and_every_event() {
        let mut methods = "| method | scope | what it does |\n|---|---|---|\n".to_owned();
        for method in METHODS {
            let _ = writeln!(methods, "| `{}` | {} | {} |", method.name, method.scope, method.about.trim());
        }
        let mut events = "| event | when it comes |\n|---|---|\n".to_owned();
        for event in EVENTS {
            let _ = writeln!(events, "| `{}` | {} |", event.name, event.about);
        }
        let file = docs().join("protocol.md");
        let page = fs::read_to_string(&file).unwrap();
        let made = put_between(&put_between(&page, "methods", &methods), "events", &events);
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, &made).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), made, "UPDATE=1 regenerates it");
    }

    /// Puts a table between its two marks.
    fn put_between(page: &str, mark: &str, table: &str) -> String {
        let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->\n"));
        let (before, rest) = page.split_once(&begin).expect("the beginning of the table");
        let (_, after) = rest.split_once(&end).expect("its end");
        format!("{before}{begin}{table}{end}{after}")
    }

    /// The violations of the schema in this value.
    fn wrong((schemas, index): &Validator, value: &Value) -> Vec<String> {
        schemas.validate(value, *index).err().map(|error| format!("{error}")).into_iter().collect()
    }

    type Validator = (boon::Schemas, boon::SchemaIndex);

    fn validator_for(schema: &Value) -> Validator {
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("protocol.json", schema.clone()).unwrap();
        let index = compiler.compile("protocol.json", &mut schemas).unwrap();
        (schemas, index)
    }

    #[test]
    fn r60_every_example_of_the_page_is_a_frame_and_keeps_to_its_method() {
        let schema = schema();
        let frames = validator_for(&schema);
        let part = |path: &[&str]| {
            let part = path.iter().fold(&schema, |part, key| &part[*key]);
            validator_for(&json!({ "$defs": schema["$defs"], "allOf": [part] }))
        };
        let page = fs::read_to_string(docs().join("protocol.md")).unwrap();
        let blocks = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect();
        assert!(lines.len() > 8, "{}", lines.len());
        let mut asked = std::collections::BTreeMap::new();
        for line in lines {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(wrong(&frames, &value), [""; 0], "{line}");
            match serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}: {line}")) {
                Frame::Request(Request { id, method, params }) => {
                    assert_eq!(wrong(&part(&["methods", &method, "params"]), &params), [""; 0], "{line}");
                    asked.insert(id, method);
                }
                Frame::Response(response) if response.ok => {
                    let method = &asked[&response.id];
                    assert_eq!(wrong(&part(&["methods", method, "result"]), &response.payload), [""; 0], "{line}");
                }
                Frame::Response(_) => {}
                Frame::Event(event) => {
                    let payload = part(&["events", &event.event, "payload"]);
                    assert_eq!(wrong(&payload, &event.payload), [""; 0], "{line}");
                }
            }
        }
    }

    #[test]
    fn r60_an_invalid_line_does_not_validate() {
        let schema = schema();
        let lines = json!({ "$defs": schema["$defs"], "allOf": [schema["events"]["agent"]["payload"]] });
        let lines = validator_for(&lines);
        let line = |key: &str, value: Value| {
            let mut line = json!({
                "cursor": "1.4#", "session": "agent:main:main", "run": null, "at": 1, "stream": "lifecycle",
                "type": "opened", "epoch": 1,
            });
            line[key] = value;
            line
        };
        assert_eq!(wrong(&lines, &line("epoch", json!(2))), [""; 0]);
        for (key, value) in [
            ("cursor", Value::Null),
            ("at", json!("noon")),
            ("stream", json!("dream")),
            ("type", json!("dreamt")),
            ("epoch", json!("first")),
        ] {
            assert_ne!(wrong(&lines, &line(key, value)), [""; 0], "{key}");
        }
    }

    #[test]
    fn r60_an_invalid_frame_does_not_validate() {
        let frames = validator_for(&schema());
        for value in [
            json!({}),
            json!({ "type": "dream", "id": "1" }),
            json!({ "type": "req", "id": "1" }),
            json!({ "type": "req", "id": "", "method": "health" }),
            json!({ "type": "req", "id": "1", "method": "health", "more": 1 }),
            json!({ "type": "res", "id": "1", "ok": false, "error": { "code": "NEVER", "message": "" } }),
        ] {
            assert_ne!(wrong(&frames, &value), [""; 0], "{value}");
        }
    }
}
