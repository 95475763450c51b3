//! Checks the published schema against the frames of a real owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Home;

/// A client that checks every received frame.
struct Strict {
    schema: Value,
    read: BufReader<UnixStream>,
    write: UnixStream,
    /// What each request asked for.
    asked: BTreeMap<String, String>,
    /// The received methods and events.
    observed: BTreeSet<String>,
    /// Parts of the schema that were needed before.
    known: BTreeMap<String, tools::SchemaValidator>,
}

impl Strict {
    fn to(home: &Home) -> Self {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.schema.json");
        let schema = serde_json::from_str(&fs::read_to_string(page).expect("the schema")).expect("JSON");
        let write = UnixStream::connect(home.path().join("limulus.sock")).expect("somebody listens");
        let read = BufReader::new(write.try_clone().expect("a second handle"));
        let empty = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { schema, read, write, asked: empty.0, observed: empty.1, known: empty.2 }
    }

    /// Checks a value against a part of the schema; no path is the whole: a frame.
    fn check(&mut self, path: &[&str], value: &Value) {
        let schema = &self.schema;
        let validator = self.known.entry(path.join("/")).or_insert_with(|| {
            let part = path.iter().fold(schema, |part, key| &part[*key]);
            let part = if path.is_empty() { &schema["allOf"][0] } else { part };
            assert!(!part.is_null(), "{path:?} is not in the schema");
            tools::SchemaValidator::new(&json!({ "$defs": schema["$defs"], "allOf": [part] })).expect("a schema")
        });
        let wrong: Vec<String> = validator.violations(value).into_iter().map(|found| found.message).collect();
        assert_eq!(wrong, [""; 0], "{path:?}: {value}");
    }

    fn ask(&mut self, id: &str, method: &str, params: &Value) {
        self.check(&["methods", method, "params"], params);
        self.asked.insert(id.to_owned(), method.to_owned());
        let request = json!({ "type": "req", "id": id, "method": method, "params": params });
        self.check(&[], &request);
        writeln!(self.write, "{request}").expect("it is read");
    }

    /// The next frame.
    fn observe(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("it can be read");
        let frame: Value = serde_json::from_str(&line).expect("a frame");
        self.check(&[], &frame);
        if let Some(event) = frame["event"].as_str() {
            self.check(&["events", event, "payload"], &frame["payload"]);
            self.observed.insert(event.to_owned());
            let payload = &frame["payload"];
            if let (Some(stream), Some(kind)) = (payload["stream"].as_str(), payload["type"].as_str()) {
                self.observed.insert(format!("{stream}/{kind}"));
            }
        } else if frame["ok"] == true {
            let method = self.asked[frame["id"].as_str().expect("an id")].clone();
            self.check(&["methods", &method, "result"], &frame["payload"]);
            self.observed.insert(method);
        }
        frame
    }

    /// Listens until a frame is like this.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.observe();
            if is_it(&frame) {
                return frame;
            }
        }
    }

    /// Asks and waits for the answer.
    fn get(&mut self, method: &str, params: &Value) -> Value {
        let id = format!("{method} {}", self.asked.len());
        self.ask(&id, method, params);
        self.until(|frame| frame["id"] == id.as_str())
    }
}

/// A run with a call that is asked for, and its end.
fn talk(client: &mut Strict) -> String {
    let message = "run `echo hi > a` and then read a";
    client.ask("agent", "agent", &json!({ "message": message, "sessionKey": "main", "idempotencyKey": "k1" }));
    let ask = client.until(|frame| frame["event"] == "ask");
    let (call, fingerprint) = (&ask["payload"]["call"], &ask["payload"]["fingerprint"]);
    client.get("status", &json!({}));
    client.get("sessions.show", &json!({ "limit": 9 }));
    client.get("approvals.resolve", &json!({ "call": call, "fingerprint": fingerprint, "allow": true }));
    let ended = client.until(|frame| frame["id"] == "agent" && frame["payload"]["status"] != "accepted");
    assert_eq!(ended["payload"]["status"], "ok", "{ended}");
    ended["payload"]["runId"].as_str().expect("a run").to_owned()
}

#[test]
fn r60_every_frame_of_an_owner_matches_the_published_schema() {
    let home = Home::new();
    let service = home.start(&["serve", "--json"]);
    service.until_line("ready", |line| line["type"] == "ready");
    let mut client = Strict::to(&home);
    let who = json!({ "id": "test", "version": "0", "platform": "linux", "mode": "test" });
    let hello = client.get("connect", &json!({ "minProtocol": 1, "maxProtocol": 1, "client": who, "caps": ["asks"] }));
    let named = |list: &Value| {
        let names = list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        names.collect::<BTreeSet<_>>()
    };
    let keys = |part: &Value| part.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    let (methods, events): (BTreeSet<String>, BTreeSet<String>) =
        (keys(&client.schema["methods"]), keys(&client.schema["events"]));
    assert_eq!(named(&hello["payload"]["features"]["methods"]), methods);
    assert_eq!(named(&hello["payload"]["features"]["events"]), events);
    client.get("events.subscribe", &json!({ "session": "main", "whole": true }));
    client.get("events.subscribe", &json!({ "session": "main", "chat": true }));
    let run = talk(&mut client);
    for (method, params) in [
        ("health", json!({})),
        ("agent.wait", json!({ "runId": run, "timeoutMs": 0 })),
        ("receipts.get", json!({ "key": "k1" })),
        ("runs.list", json!({})),
        ("runs.show", json!({ "run": run })),
        ("runs.trace", json!({})),
        ("runs.explain", json!({ "run": run })),
        ("queue.mode", json!({ "sessionKey": "main", "mode": "collect" })),
        ("agent", json!({ "message": "/status", "sessionKey": "main", "idempotencyKey": "k9" })),
        ("sessions.list", json!({})),
        ("sessions.show", json!({ "sessionKey": "main" })),
        ("sessions.context", json!({ "sessionKey": "main" })),
        ("sessions.compact", json!({ "sessionKey": "main" })),
        ("sessions.audit", json!({ "verify": true })),
        ("sessions.state", json!({ "at": "9" })),
        ("sessions.resume", json!({})),
        ("events.unsubscribe", json!({ "subscription": 1 })),
    ] {
        let answer = client.get(method, &params);
        assert_eq!(answer["ok"], true, "{answer}");
    }
    for (method, params, code) in [
        ("runs.show", json!({ "run": "ffff" }), "NOT_FOUND"),
        ("runs.abort", json!({ "run": run }), "NOT_FOUND"),
        ("runs.pause", json!({ "run": run }), "NOT_FOUND"),
        ("runs.resume", json!({ "run": run }), "NOT_FOUND"),
        ("runs.break", json!({ "run": run, "beforeTool": "ls" }), "NOT_FOUND"),
        ("runs.break", json!({ "run": run, "beforeTool": "ls", "onState": "error" }), "INVALID_REQUEST"),
        ("receipts.get", json!({}), "INVALID_REQUEST"),
        ("owner.handover", json!({}), "REFUSED"),
        ("sessions.uncompact", json!({ "sessionKey": "other" }), "NOT_FOUND"),
    ] {
        assert_eq!(client.get(method, &params)["error"]["code"], code, "{method}");
    }
    let lines = ["lifecycle/start", "lifecycle/end", "assistant/delta", "queue/accepted"];
    for expected in ["ask", "answered", "agent", "chat"].into_iter().chain(lines) {
        assert!(client.observed.contains(expected), "{expected} was not received: {:?}", client.observed);
    }
}
