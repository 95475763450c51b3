//! Every method, by every kind of client that can send it: what was answered is the table of docs/gateway.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

use crate::support::openclaw::{OpenClaw, SCOPES};
use crate::support::web::{Web, frame, put};
use crate::support::{Home, RawClient, until};

/// What is asked, in this order. A word with `$` is the value of an answer before it.
const ASKED: &[(&str, &str)] = &[
    ("health", "{}"),
    ("status", "{}"),
    ("agents.list", "{}"),
    ("agent", r#"{"message":"Who are you?","sessionKey":"main","idempotencyKey":"one"}"#),
    ("agent.wait", r#"{"runId":"$RUN","timeoutMs":60000}"#),
    ("events.subscribe", r#"{"session":"main"}"#),
    ("events.unsubscribe", r#"{"subscription":1}"#),
    ("runs.list", "{}"),
    ("runs.show", r#"{"session":"main"}"#),
    ("runs.explain", r#"{"session":"asks"}"#),
    ("runs.trace", r#"{"session":"main"}"#),
    ("runs.diff", r#"{"sessionKey":"main"}"#),
    ("runs.record", "{}"),
    ("receipts.get", r#"{"key":"one"}"#),
    ("sessions.list", "{}"),
    ("sessions.show", r#"{"sessionKey":"main"}"#),
    ("sessions.context", r#"{"sessionKey":"main"}"#),
    ("sessions.audit", r#"{"sessionKey":"main"}"#),
    ("sessions.state", r#"{"sessionKey":"main","at":"3"}"#),
    ("usage", "{}"),
    ("budget.show", r#"{"sessionKey":"main"}"#),
    ("budget.set", r#"{"sessionKey":"main","tokens":1000000}"#),
    ("profiles.list", "{}"),
    ("profiles.use", r#"{"provider":"offline"}"#),
    ("profiles.clear", "{}"),
    ("queue.mode", r#"{"sessionKey":"main","mode":"collect"}"#),
    ("queue.clear", r#"{"sessionKey":"main"}"#),
    ("queue.cancel", r#"{"message":"$MESSAGE"}"#),
    ("approvals.list", "{}"),
    ("approvals.show", r#"{"id":"$CALL"}"#),
    (
        "approvals.resolve",
        r#"{"call":"$CALL","fingerprint":"$FINGERPRINT","allow":true,"always":{"scope":"session","patterns":["echo *"]}}"#,
    ),
    ("approvals.grants", "{}"),
    ("approvals.revoke", r#"{"id":"$GRANT"}"#),
    ("questions.list", "{}"),
    ("questions.show", r#"{"id":"$CALL"}"#),
    ("questions.answer", r#"{"call":"$CALL","fingerprint":"$FINGERPRINT","text":"yes"}"#),
    ("runs.break", r#"{"session":"more","beforeTool":"exec"}"#),
    ("runs.pause", r#"{"session":"more"}"#),
    ("runs.resume", r#"{"session":"more"}"#),
    ("runs.abort", r#"{"session":"more"}"#),
    ("runs.undo", r#"{"sessionKey":"main","dryRun":true}"#),
    ("sessions.label", r#"{"sessionKey":"main","title":"A pond"}"#),
    ("sessions.compact", r#"{"sessionKey":"main"}"#),
    ("sessions.uncompact", r#"{"sessionKey":"main"}"#),
    ("sessions.resume", r#"{"sessionKey":"main"}"#),
    ("sessions.cleanup", r#"{"days":100}"#),
    ("sessions.end", r#"{"sessionKey":"more"}"#),
    ("sessions.delete", r#"{"sessionKey":"main"}"#),
];

/// A kind of client: the result of a request, or its code.
type Ask<'a> = Box<dyn FnMut(&str, &Value) -> Result<Value, String> + 'a>;

/// A home with a run that waits for an approval, one behind it, and another session of the same kind.
fn prepared() -> (Home, Web) {
    let home = Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let web = Web::start(&home);
    for session in ["asks", "more"] {
        home.run(&["send", "--session", session, "run `echo ran`"]).expect_code(0);
    }
    until("both approval requests", || home.json(&["approvals", "list"]).as_array().is_some_and(|all| all.len() == 2));
    (home, web)
}

/// What each method was answered.
fn answers(home: &Home, mut ask: Ask<'_>) -> BTreeMap<&'static str, String> {
    let waiting = home.json(&["send", "--session", "asks", "--mode", "followup", "Who are you?"]);
    let mut known = BTreeMap::from([("$MESSAGE", waiting["message"].as_str().expect("an id").to_owned())]);
    let mut answers = BTreeMap::new();
    for (method, params) in ASKED {
        let params = known.iter().fold((*params).to_owned(), |text, (name, value)| text.replace(name, value));
        let params: Value = serde_json::from_str(&params).expect("JSON");
        let answer = ask(method, &params);
        let found = answer.as_ref().ok();
        let mut note = |name, value: Option<&Value>| {
            if let Some(value) = value.and_then(Value::as_str) {
                known.insert(name, value.to_owned());
            }
        };
        match *method {
            "agent" => note("$RUN", found.map(|answer| &answer["runId"])),
            "approvals.list" => {
                let first = found.and_then(|answer| answer["approvals"].as_array()).and_then(|all| {
                    all.iter().find(|approval| approval["session"].as_str().is_some_and(|key| key.ends_with("asks")))
                });
                note("$CALL", first.map(|approval| &approval["call"]));
                note("$FINGERPRINT", first.map(|approval| &approval["fingerprint"]));
            }
            "approvals.grants" => note("$GRANT", found.map(|answer| &answer["grants"][0]["id"])),
            _ => {}
        }
        answers.insert(*method, answer.map_or_else(|code| format!("`{code}`"), |_| "yes".to_owned()));
    }
    answers
}

fn by_socket(home: &Home) -> Ask<'_> {
    let mut client = RawClient::to(home);
    Box::new(move |method, params| {
        client.say(method, params);
        let answer = client.until(|frame| frame["type"] == "res" && frame["id"] == method);
        if answer["ok"] == true { Ok(answer["payload"].clone()) } else { Err(code(&answer["error"])) }
    })
}

fn by_websocket(web: &Web) -> Ask<'_> {
    let mut socket = web.websocket(&[]).expect("a WebSocket");
    let client = json!({ "id": "me", "version": "1", "platform": "linux", "mode": "cli" });
    let params = json!({ "minProtocol": 1, "maxProtocol": 1, "client": client, "auth": { "token": web.token } });
    put(&mut socket, &json!({ "type": "req", "id": "connect", "method": "connect", "params": params }));
    Box::new(move |method, params| {
        put(&mut socket, &json!({ "type": "req", "id": method, "method": method, "params": params }));
        loop {
            let answer = frame(&mut socket).expect("an answer");
            if answer["type"] == "res" && answer["id"] == method {
                return if answer["ok"] == true { Ok(answer["payload"].clone()) } else { Err(code(&answer["error"])) };
            }
        }
    })
}

fn by_http(web: &Web) -> Ask<'_> {
    Box::new(move |method, params| {
        let answer = web.ask(&format!("POST /v1/rpc/{method}"), params);
        if answer.status < 300 { Ok(answer.json()) } else { Err(code(&answer.json()["error"])) }
    })
}

fn by_openclaw(web: &Web) -> Ask<'_> {
    let mut client = OpenClaw::connect(web, &SCOPES, &[]);
    Box::new(move |method, params| {
        let id = client.ask(method, params);
        let answer = client.response(&id);
        if answer["ok"] == true { Ok(answer["payload"].clone()) } else { Err(code(&answer["error"])) }
    })
}

fn code(error: &Value) -> String {
    error["code"].as_str().expect("a code").to_lowercase()
}

/// R40, R60: each method does the same by each client. `UPDATE=1` writes the table.
#[test]
fn r60_every_method_is_answered_by_every_client() {
    type Of = for<'a> fn(&'a Home, &'a Web) -> Ask<'a>;
    let clients: [(&str, Of); 4] = [
        ("socket", |home, _| by_socket(home)),
        ("WebSocket", |_, web| by_websocket(web)),
        ("`POST /v1/rpc/METHOD`", |_, web| by_http(web)),
        ("frames of OpenClaw", |_, web| by_openclaw(web)),
    ];
    let columns = clients.map(|(_, client)| {
        let (home, web) = prepared();
        answers(&home, client(&home, &web))
    });
    let names = clients.map(|(name, _)| name).join(" | ");
    let mut table = format!("| method | {names} |\n|---|---|---|---|---|\n");
    for method in columns[0].keys() {
        let cells: Vec<_> = columns.iter().map(|column| column[method].as_str()).collect();
        let _ = writeln!(table, "| `{method}` | {} |", cells.join(" | "));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway.md");
    let text = fs::read_to_string(&page).expect("the page");
    let (begin, end) = ("<!-- methods by client -->\n", "<!-- end of methods by client -->\n");
    let (before, rest) = text.split_once(begin).expect("the beginning of the table");
    let (_, after) = rest.split_once(end).expect("its end");
    let made = format!("{before}{begin}{table}{end}{after}");
    if env::var_os("UPDATE").is_some() {
        fs::write(&page, &made).expect("it is written");
    }
    assert_eq!(fs::read_to_string(&page).expect("the page"), made, "UPDATE=1 regenerates it");
}
