//! OpenClaw's clients: its frames over the WebSocket.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::support::Home;
use crate::support::openclaw::{OpenClaw, SCOPES};
use crate::support::web::{Web, frame, put};

/// An idempotency key.
fn new_key() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("key-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

fn send(key: &str, text: &str) -> Value {
    json!({ "sessionKey": "agent:main:main", "message": text, "deliver": false, "idempotencyKey": key })
}

fn is_final(payload: &Value) -> bool {
    payload["state"] == "final"
}

fn text(payload: &Value) -> &str {
    payload["message"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// R60: the handshake says what there is and what the client may do; a refusal has a code.
#[test]
fn r60_a_client_of_openclaw_connects() {
    let home = Home::new();
    let web = Web::start(&home);
    let client = OpenClaw::connect(&web, &SCOPES, &[]);
    let hello = &client.hello;
    assert_eq!((&hello["type"], &hello["protocol"]), (&json!("hello-ok"), &json!(4)));
    assert_eq!(hello["auth"]["role"], "operator");
    let names = |list: &Value| -> BTreeSet<String> {
        list.as_array().expect("a list").iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    assert_eq!(names(&hello["auth"]["scopes"]), SCOPES.map(str::to_owned).into());
    assert_eq!(hello["snapshot"]["sessionDefaults"]["mainSessionKey"], "agent:main:main");
    assert_eq!(hello["snapshot"]["health"]["ok"], true);
    let methods = names(&hello["features"]["methods"]);
    for method in ["chat.send", "chat.history", "agent", "agent.wait", "sessions.list", "runs.list", "queue.clear"] {
        assert!(methods.contains(method), "{method}");
    }
    assert!(hello["policy"]["maxPayload"].as_u64() > Some(1 << 20) && hello["policy"]["tickIntervalMs"] == 30_000);

    let auth = |token: &str| json!({ "token": token });
    let older = json!({ "auth": auth(&web.token), "scopes": [], "minProtocol": 2, "maxProtocol": 3 });
    let Ok(older) = OpenClaw::try_connect(&web, &older) else { panic!("version 3 is spoken") };
    assert_eq!(older.hello["protocol"], 3);
    for (more, code) in [
        (json!({ "auth": auth("guess") }), "AUTH_TOKEN_MISMATCH"),
        (json!({}), "AUTH_TOKEN_MISSING"),
        (json!({ "auth": auth(&web.token), "minProtocol": 5, "maxProtocol": 9 }), "PROTOCOL_MISMATCH"),
        (
            json!({ "auth": auth(&web.token), "device": {
                "id": "00", "publicKey": "AAAA", "signature": "AA", "signedAt": 1, "nonce": "x",
            } }),
            "DEVICE_AUTH_PUBLIC_KEY_INVALID",
        ),
    ] {
        let refused = OpenClaw::try_connect(&web, &more).expect_err("it is refused");
        assert_eq!(refused["details"]["code"], code, "{refused}");
        assert!(!refused.to_string().contains(&web.token));
    }
    for more in [json!({ "auth": auth(&web.token), "role": "node" }), json!({ "auth": 7 }), json!({ "client": [] })] {
        assert_eq!(OpenClaw::try_connect(&web, &more).expect_err("refused")["code"], "INVALID_REQUEST");
    }
}

/// R43, R48, R60: a message of the chat is answered in events under the key of the message, for every client; the history has it.
#[test]
fn r43_r60_a_message_of_the_chat_is_answered_in_events() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &["tool-events"]);
    let mut other = OpenClaw::connect(&web, &["operator.read"], &[]);
    let key = new_key();
    let sent = client.call("chat.send", &send(&key, "tokens=4"));
    assert_eq!(sent, json!({ "runId": key, "status": "started" }));
    for client in [&mut client, &mut other] {
        let events = client.events_until("chat", is_final);
        let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
        assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{numbers:?}");
        let of_run: Vec<_> =
            events.iter().filter(|event| ["chat", "agent"].contains(&event["event"].as_str().unwrap())).collect();
        assert!(of_run.iter().all(|event| event["payload"]["runId"] == json!(key)), "{events:?}");
        let last = &events.last().expect("one")["payload"];
        assert_eq!((text(last), &last["sessionKey"]), ("word0 word1 word2 word3", &json!("agent:main:main")));
        let phases: Vec<_> = of_run.iter().filter_map(|event| event["payload"]["data"]["phase"].as_str()).collect();
        assert_eq!(phases, ["start", "end"]);
    }
    // The same message again is the same run.
    assert_eq!(client.call("chat.send", &send(&key, "tokens=4")), json!({ "runId": key, "status": "ok" }));
    let waited = other.refused("agent.wait", &json!({ "runId": key }));
    assert_eq!((&waited["code"], &waited["details"]["missingScope"]), (&json!("FORBIDDEN"), &json!("operator.write")));
    let waited = client.call("agent.wait", &json!({ "runId": key, "timeoutMs": 0 }));
    assert_eq!((&waited["status"], &waited["runId"]), (&json!("ok"), &json!(key)));
    let history = other.call("chat.history", &json!({ "sessionKey": "main", "limit": 50 }));
    let said: Vec<_> = history["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|message| {
            (message["role"].as_str().expect("a role"), message["content"][0]["text"].as_str().expect("a text"))
        })
        .collect();
    assert_eq!(said, [("user", "tokens=4"), ("assistant", "word0 word1 word2 word3")]);
    // A command has its answer at once.
    let key = new_key();
    client.call("chat.send", &send(&key, "/status"));
    let answer = client.event("chat", |payload| payload["runId"] == json!(key));
    assert!(is_final(&answer) && text(&answer).contains("agent:main:main is"), "{answer}");
    let stranger = client.call("chat.history", &json!({ "sessionKey": "agent:main:tui-1" }));
    assert_eq!(stranger["messages"], json!([]));
}

/// R43, R60: `agent` answers twice, and one key is one run, from whatever client.
#[test]
fn r43_r60_an_agent_answers_a_client_of_openclaw_twice() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &["operator.write"], &[]);
    let key = new_key();
    let params =
        json!({ "message": "tokens=2", "agentId": "main", "deliver": false, "timeout": 600, "idempotencyKey": key });
    let id = client.ask("agent", &params);
    let accepted = client.response(&id);
    assert_eq!((&accepted["payload"]["status"], &accepted["payload"]["runId"]), (&json!("accepted"), &json!(key)));
    let end = client.response(&id);
    assert_eq!((&end["ok"], &end["payload"]["status"]), (&json!(true), &json!("ok")));
    assert_eq!(end["payload"]["result"]["payloads"][0]["text"], "word0 word1");
    let ids: Vec<_> = (0..20).map(|_| client.ask("agent", &params)).collect();
    for id in ids {
        assert_eq!(client.response(&id)["payload"]["runId"], json!(key));
        assert_eq!(client.response(&id)["payload"]["status"], "ok");
    }
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
    for (params, why) in [
        (json!({ "message": "x" }), "idempotencyKey"),
        (json!({ "message": " ", "idempotencyKey": "k" }), "required"),
        (json!({ "message": "x", "idempotencyKey": "k", "deliver": true }), "routes"),
        (
            json!({ "message": "x", "idempotencyKey": "k", "agentId": "main", "sessionKey": "agent:x:y" }),
            "none of the agent",
        ),
        (json!({ "message": "x", "idempotencyKey": "k", "sessionKey": "a b" }), "session key"),
        (json!([1]), "an object"),
    ] {
        let refused = client.refused("agent", &params);
        assert_eq!(refused["code"], "INVALID_REQUEST");
        assert!(refused["message"].as_str().expect("why").contains(why), "{refused}");
    }
    assert!(client.refused("sessions.fly", &json!({}))["message"].as_str().expect("why").contains("unknown method"));
    assert_eq!(client.refused("sessions.reset", &json!({ "key": "main" }))["details"]["code"], "MISSING_SCOPE");
}

/// R43, R60: however short a run is, its client knows that its message is accepted before it is shown anything of it.
#[test]
fn r43_r60_a_run_is_shown_after_its_message_is_accepted() {
    let home = Home::new();
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    for at in 0..40 {
        let key = new_key();
        let (method, params) = match at % 3 {
            0 => ("chat.send", send(&key, "hello")),
            1 => ("chat.send", send(&key, "/status")),
            _ => ("agent", json!({ "message": "hello", "idempotencyKey": key })),
        };
        let id = client.ask(method, &params);
        let accepted = client.response(&id);
        assert_eq!((&accepted["ok"], &accepted["payload"]["runId"]), (&json!(true), &json!(key)), "{accepted}");
        assert!(!client.has_seen(&key), "{method} {params}");
        client.event("chat", |payload| payload["runId"] == json!(key) && is_final(payload));
    }
}

/// R17, R60: an abort ends the run, keeps what was said, and every client sees it.
#[test]
fn r17_r60_a_run_of_the_chat_is_aborted() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    assert_eq!(
        client.call("chat.abort", &json!({ "sessionKey": "main" })),
        json!({ "ok": true, "aborted": false, "runIds": [] })
    );
    let key = new_key();
    client.call("chat.send", &send(&key, "stall=3x1 tokens=9"));
    client.event("chat", |payload| payload["state"] == "delta" && text(payload).contains("word1"));
    let mut late = OpenClaw::connect(&web, &["operator.read"], &[]);
    let aborted = client.call("chat.abort", &json!({ "sessionKey": "agent:main:main", "preserveSideRuns": true }));
    assert_eq!(aborted, json!({ "ok": true, "aborted": true, "runIds": [key] }));
    for client in [&mut client, &mut late] {
        let last = client.event("chat", |payload| payload["state"] == "aborted");
        assert_eq!((&last["runId"], &last["stopReason"]), (&json!(key), &json!("rpc")));
        assert!(text(&last).starts_with("word0 word1"), "{last}");
    }
    let by_name = new_key();
    client.call("chat.send", &send(&by_name, "stall=4x1 tokens=9"));
    let aborted = client.call("chat.abort", &json!({ "sessionKey": "main", "runId": by_name }));
    assert_eq!(aborted, json!({ "ok": true, "aborted": true, "runIds": [by_name] }));
    let unknown = client.call("chat.abort", &json!({ "sessionKey": "main", "runId": "nothing" }));
    assert_eq!(unknown["aborted"], false);
}

/// R60, R62: sessions are listed, described, set, begun anew and deleted.
#[test]
fn r60_r62_the_sessions_of_a_client_of_openclaw() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    assert_eq!(client.call("sessions.subscribe", &json!({})), json!({ "subscribed": true }));
    let created = client.call("sessions.create", &json!({ "key": "tui-1", "agentId": "main", "succeedsParent": true }));
    let key = created["key"].as_str().expect("a key").to_owned();
    assert_eq!(key, "agent:main:tui-1");
    let message = json!({ "sessionKey": key, "message": "tokens=1", "idempotencyKey": new_key() });
    client.call("chat.send", &message);
    client.event("chat", is_final);
    client.event("sessions.changed", |payload| payload["phase"] == "end");
    let patched = client.call("sessions.patch", &json!({ "key": key, "label": "A title", "thinkingLevel": "low" }));
    assert_eq!((&patched["ok"], &patched["key"]), (&json!(true), &json!(key)));
    client.event("sessions.changed", |payload| payload["reason"] == "patch");
    let listed = client.call("sessions.list", &json!({ "limit": 5, "agentId": "main", "activeMinutes": 60 }));
    let row = &listed["sessions"][0];
    assert_eq!((&listed["count"], &row["key"], &row["displayName"]), (&json!(1), &json!(key), &json!("A title")));
    assert_eq!((&row["hasActiveRun"], &row["status"]), (&json!(false), &json!("done")));
    assert_eq!(client.call("sessions.describe", &json!({ "key": key }))["session"]["key"], json!(key));
    assert_eq!(client.call("sessions.describe", &json!({ "key": "nowhere" }))["session"], Value::Null);
    let by_id = client.call("sessions.resolve", &json!({ "sessionId": row["sessionId"] }));
    assert_eq!(by_id, json!({ "ok": true, "key": key }));
    assert_eq!(client.call("sessions.resolve", &json!({ "label": "A title" }))["key"], json!(key));
    assert_eq!(client.call("sessions.resolve", &json!({ "key": "x", "allowMissing": true })), json!({ "ok": false }));
    client.refused("sessions.resolve", &json!({ "key": "x" }));
    let preview = client.call("sessions.preview", &json!({ "keys": [key, "nowhere"], "maxChars": 5 }));
    let statuses: Vec<_> = preview["previews"].as_array().expect("a list").iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["ok", "missing"]);
    assert_eq!(preview["previews"][0]["items"][0], json!({ "role": "user", "text": "token" }));
    for (params, why) in [
        (json!({ "key": key, "model": "nobody/nothing" }), "nobody"),
        (json!({ "key": key, "model": "a b" }), "one word"),
        (json!({ "key": key, "elevatedLevel": "on" }), "no setting"),
        (json!({ "key": key, "label": 7 }), "a text"),
    ] {
        let refused = client.refused("sessions.patch", &params);
        assert!(refused["message"].as_str().expect("why").contains(why), "{refused}");
    }
    let before = client.call("sessions.describe", &json!({ "key": key }))["session"]["sessionId"].clone();
    assert_eq!(client.call("sessions.reset", &json!({ "key": key, "reason": "new" }))["ok"], true);
    client.event("sessions.changed", |payload| payload["reason"] == "new");
    let history = client.call("chat.history", &json!({ "sessionKey": key }));
    assert_eq!(history["messages"], json!([]), "{before}");
    assert_eq!(client.call("sessions.delete", &json!({ "key": key }))["deleted"], true);
    client.refused("sessions.delete", &json!({ "key": "main" }));
}

/// R60: what it asks at its start is answered, also where limulus has nothing; our own methods are there under their names.
#[test]
fn r60_what_a_client_of_openclaw_asks_at_its_start() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    let methods: Vec<String> = client.hello["features"]["methods"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    for method in &methods {
        let id = client.ask(method, &json!({}));
        let response = client.response(&id);
        let error = response["error"]["message"].as_str().unwrap_or_default();
        assert!(!error.contains("unknown method") && !error.contains("bug"), "{method}: {response}");
    }
    assert_eq!(client.call("models.list", &json!({}))["models"][0]["available"], true);
    assert_eq!(client.call("agents.list", &json!({}))["agents"][0]["id"], "main");
    assert_eq!(client.call("node.list", &json!({}))["nodes"], json!([]));
    assert_eq!(client.call("config.get", &json!({}))["valid"], true);
    let commands = client.call("commands.list", &json!({}));
    let aliases: Vec<_> =
        commands["commands"].as_array().expect("a list").iter().map(|one| &one["textAliases"][0]).collect();
    assert!(aliases.contains(&&json!("/new")) && !aliases.contains(&&json!("/reset")), "{aliases:?}");
    assert_eq!(client.call("runs.list", &json!({}))["runs"], json!([]));
    // Our own lines have cursors.
    let subscribed = client.call("events.subscribe", &json!({ "session": "main", "whole": true }));
    client.call("chat.send", &send(&new_key(), "tokens=1"));
    let is_of_it = |payload: &Value| payload["subscription"] == subscribed["subscription"];
    let line = client.event("events.line", |payload| is_of_it(payload) && payload["line"]["type"] == "end");
    assert!(line["line"]["cursor"].is_string());
}

/// R43, R60: an approval request is answered, by one of the two kinds that its clients know, and a command of a call answers none.
#[test]
fn r60_a_client_of_openclaw_answers_approval_requests() {
    for (caps, kind) in [(&[][..], "exec"), (&["plugin-approvals"][..], "plugin")] {
        for (decision, ends) in [("allow-once", "ran\n"), ("deny", "")] {
            let home = Home::new();
            let folder = home.file("").display().to_string();
            let home = home.with("LIMULUS_AGENTS__MAIN__WORKSPACE", &folder);
            let web = Web::start(&home);
            let mut client = OpenClaw::connect(&web, &SCOPES, caps);
            client.call("chat.send", &send(&new_key(), "run `echo ran >> ledger`"));
            let asked = client.event(&format!("{kind}.approval.requested"), |_| true);
            assert_eq!(asked["request"]["sessionKey"], "agent:main:main");
            assert!(asked["expiresAtMs"].as_i64() > asked["createdAtMs"].as_i64());
            let listed = client.call(&format!("{kind}.approval.list"), &json!({}));
            assert_eq!(listed[0]["id"], asked["id"]);
            let answer = json!({ "id": asked["id"], "decision": decision });
            let mut reader = OpenClaw::connect(&web, &["operator.write"], caps);
            reader.refused(&format!("{kind}.approval.resolve"), &answer);
            client.refused(&format!("{kind}.approval.resolve"), &json!({ "id": asked["id"], "decision": "maybe" }));
            client.call(&format!("{kind}.approval.resolve"), &answer);
            let resolved = client.event(&format!("{kind}.approval.resolved"), |_| true);
            assert_eq!((&resolved["id"], &resolved["decision"]), (&asked["id"], &json!(decision)));
            let last = client.event("chat", |payload| payload["state"] != "delta");
            assert!(is_final(&last), "{last}");
            client.refused(&format!("{kind}.approval.resolve"), &answer);
            assert_eq!(home.text("ledger"), ends, "{last}");
        }
    }
}

/// R15, R60: a request that its run takes with it is closed for the client too; params are large only with attachments.
#[test]
fn r15_r60_a_request_ends_with_its_run() {
    let home = Home::new();
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &["plugin-approvals"]);
    client.call("chat.send", &send(&new_key(), "run `echo ran >> ledger`"));
    let asked = client.event("plugin.approval.requested", |_| true);
    client.call("chat.abort", &json!({ "sessionKey": "main" }));
    let closed = client.event("plugin.approval.resolved", |_| true);
    assert_eq!((&closed["id"], &closed["decision"]), (&asked["id"], &json!("deny")));
    assert_eq!(client.call("plugin.approval.list", &json!({})), json!([]));
    let large = client.refused("health", &json!({ "x": vec![json!([]); 500_000] }));
    assert!(large["message"].as_str().expect("why").contains("attachments"), "{large}");
    assert_eq!(client.call("health", &json!({}))["ok"], true);
}

/// R43, R60: a client that reads the response and the events at once would deal with the events first: it shows that it has read the
/// response, by a pong, before anything of the run is sent.
#[test]
fn r43_r60_a_client_has_read_the_response_before_it_is_shown_the_run() {
    let home = Home::new();
    let web = Web::start(&home);
    let mut socket = web.websocket(&[]).expect("a WebSocket");
    frame(&mut socket).expect("a challenge");
    let client = json!({ "id": "cli", "version": "1", "platform": "linux", "mode": "cli" });
    let params = json!({ "minProtocol": 4, "maxProtocol": 4, "client": client, "role": "operator", "scopes": SCOPES,
        "auth": { "token": web.token } });
    put(&mut socket, &json!({ "type": "req", "id": "hello", "method": "connect", "params": params }));
    assert_eq!(frame(&mut socket).expect("an answer")["ok"], true);
    put(&mut socket, &json!({ "type": "req", "id": "1", "method": "chat.send", "params": send("k", "Who are you?") }));
    let mut order = vec![];
    while order.last() != Some(&"shown") {
        match socket.read().expect("a message") {
            Message::Ping(number) if number.len() == 8 => order.push("asked"),
            Message::Text(text) => {
                let frame: Value = serde_json::from_str(&text).expect("a frame");
                order.extend((frame["id"] == "1").then_some("answered"));
                order.extend((frame["payload"]["runId"] == "k" && frame["type"] == "event").then_some("shown"));
            }
            _ => {}
        }
    }
    assert_eq!(order, ["answered", "asked", "shown"]);
}

/// R10, R60: who stops the service is announced to its clients, and after a kill they find their runs by the same names.
#[test]
fn r10_r60_a_run_has_its_name_after_a_kill() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    let key = new_key();
    client.call("chat.send", &send(&key, "stall=3x1 tokens=6"));
    client.event("chat", |payload| text(payload).contains("word1"));
    web.service.kill();
    client.rest();
    let web = Web::start(&home);
    let mut client = OpenClaw::connect(&web, &SCOPES, &[]);
    let waited = client.call("agent.wait", &json!({ "runId": key }));
    assert_eq!((&waited["runId"], &waited["status"]), (&json!(key), &json!("ok")));
    let again = client.call("chat.send", &send(&key, "stall=3x1 tokens=6"));
    assert_eq!(again, json!({ "runId": key, "status": "ok" }));
    let history = client.call("chat.history", &json!({ "sessionKey": "main" }));
    let last = history["messages"].as_array().and_then(|messages| messages.last()).expect("an answer");
    assert_eq!(last["content"][0]["text"], "word0 word1 word2 word3 word4 word5");
    web.service.signal(Signal::TERM);
    let rest = client.rest();
    assert!(rest.iter().any(|frame| frame["event"] == "shutdown"), "{rest:?}");
    web.service.finish().expect_code(0);
}
