//! Who has access over HTTP besides the user: tokens that may do less, and devices.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::openclaw::{OpenClaw, SCOPES, device_id};
use crate::support::web::{Web, frame, put};
use crate::support::{Home, until};

/// Makes a token.
fn token(home: &Home, name: &str, scopes: &str) -> String {
    let made = home.run(&["gateway", "token", "create", name, "--scope", scopes]).expect_code(0);
    let token = made.out.trim_end().to_owned();
    assert!(token.len() == 64 && made.err.is_empty(), "the token alone: {made:?}");
    token
}

/// Connects by our own protocol.
fn connect(web: &Web, token: &str) -> tungstenite::WebSocket<std::net::TcpStream> {
    let mut socket = web.websocket(&[]).expect("a WebSocket");
    assert_eq!(frame(&mut socket).expect("a frame")["event"], "connect.challenge");
    let client = json!({ "id": "me", "version": "1", "platform": "linux", "mode": "cli" });
    let params = json!({ "minProtocol": 1, "maxProtocol": 1, "client": client, "auth": { "token": token } });
    put(&mut socket, &json!({ "type": "req", "id": "1", "method": "connect", "params": params }));
    assert_eq!(frame(&mut socket).expect("an answer")["ok"], true);
    socket
}

fn ask(socket: &mut tungstenite::WebSocket<std::net::TcpStream>, method: &str, params: &Value) -> Value {
    put(socket, &json!({ "type": "req", "id": "2", "method": method, "params": params }));
    loop {
        let answer = frame(socket).expect("an answer");
        if answer["id"] == "2" {
            return answer;
        }
    }
}

/// R60: what a token may do is decided for each method, by every way in.
#[test]
fn r60_a_token_may_do_what_it_was_made_for() {
    let home = Home::new();
    let web = Web::start(&home);
    let (reader, writer) = (token(&home, "reader", "read"), token(&home, "writer", "write"));
    let approver = token(&home, "approver", "approve");
    let message = json!({ "message": "Who are you?" });
    let chat = json!({ "model": "main", "messages": [{ "role": "user", "content": "Who are you?" }] });
    let delete = json!({ "sessionKey": "main" });
    for (request, body, allowed) in [
        ("GET /v1/runs", &Value::Null, [true, true, false]),
        ("GET /v1/models", &Value::Null, [true, true, false]),
        ("GET /metrics", &Value::Null, [true, true, false]),
        ("POST /v1/runs", &message, [false, true, false]),
        ("POST /v1/chat/completions", &chat, [false, true, false]),
        ("POST /v1/rpc/sessions.delete", &delete, [false, false, false]),
        ("GET /v1/approvals", &Value::Null, [true, true, true]),
    ] {
        for (token, allowed) in [&reader, &writer, &approver].into_iter().zip(allowed) {
            let answer = web.ask_as(token, request, body);
            let is_allowed = answer.status < 300;
            assert_eq!(is_allowed, allowed, "{request}: {answer:?}");
            if !allowed {
                assert_eq!((answer.status, &answer.json()["error"]["code"]), (403, &json!("forbidden")), "{answer:?}");
            }
        }
    }
    let mut socket = connect(&web, &reader);
    assert_eq!(ask(&mut socket, "runs.list", &json!({}))["ok"], true);
    let refused = ask(&mut socket, "agent", &json!({ "message": "x", "sessionKey": "main", "idempotencyKey": "k" }));
    assert_eq!(refused["error"]["code"], "FORBIDDEN", "{refused}");

    let more = json!({ "auth": { "token": reader }, "scopes": SCOPES });
    let Ok(mut client) = OpenClaw::try_connect(&web, &more) else { panic!("it is let in") };
    assert_eq!(client.hello["auth"]["scopes"], json!(["operator.read"]), "it asked for more");
    client.call("sessions.list", &json!({}));
    assert_eq!(client.refused("sessions.delete", &json!({ "key": "main" }))["details"]["code"], "MISSING_SCOPE");

    let more = json!({ "auth": { "token": approver }, "scopes": SCOPES });
    let mut client = OpenClaw::try_connect(&web, &more).unwrap();
    assert_eq!(client.hello["auth"]["scopes"], json!(["operator.approvals"]));
    assert_eq!(client.call("exec.approval.list", &json!({})), json!([]));
    client.refused("sessions.list", &json!({}));

    let listed = home.json(&["gateway", "token", "list"]);
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|token| token["name"].clone()).collect();
    assert_eq!(names, ["reader", "writer", "approver"]);
    let file = fs::read_to_string(home.path().join("gateway.access.json")).expect("a file");
    let shown = home.run(&["gateway", "token", "list"]).expect_code(0).out;
    for token in [&reader, &writer, &approver] {
        assert!(!file.contains(token.as_str()) && !shown.contains(token.as_str()));
    }
}

/// R60: what is revoked opens nothing, and what it had opened is closed.
#[test]
fn r60_a_revoked_token_opens_nothing_and_what_it_opened_is_closed() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let reader = token(&home, "reader", "read");
    let other = token(&home, "other", "read");
    let (mut own, mut kept) = (connect(&web, &reader), connect(&web, &other));
    let more = json!({ "auth": { "token": reader }, "scopes": SCOPES });
    let Ok(mut client) = OpenClaw::try_connect(&web, &more) else { panic!("it is let in") };
    let mut events = web.events_as(&reader, "/v1/events", &[]);
    home.run(&["gateway", "token", "revoke", "reader"]).expect_code(0);
    assert_eq!(web.ask_as(&reader, "GET /v1/runs", &Value::Null).status, 401);
    assert_eq!(frame(&mut own), None, "it is closed before a tick is due");
    client.rest();
    assert_eq!(events.next(), None, "its events end");
    assert_eq!(ask(&mut kept, "runs.list", &json!({}))["ok"], true, "the other one is not");

    // The token of the user too.
    let mut of_user = connect(&web, &web.token);
    let new = home.run(&["gateway", "token", "rotate"]).expect_code(0).out;
    assert_eq!(frame(&mut of_user), None, "it is closed");
    assert_eq!(web.ask("GET /v1/runs", &Value::Null).status, 401);
    assert_eq!(web.ask_as(new.trim_end(), "GET /v1/runs", &Value::Null).status, 200);
    home.run(&["gateway", "token", "revoke", "reader"]).expect_code(4).expect_err("there is no token `reader`");
}

/// R60: an answer that is still being written ends with its token, and so does a wait for it.
#[test]
fn r60_what_a_revoked_token_waits_for_ends_with_it() {
    let home = Home::new().paced(3_000);
    let web = Web::start(&home);
    let writer = token(&home, "writer", "write");
    let chat = json!({ "model": "main", "stream": true, "messages": [{ "role": "user", "content": "tokens=200 Who are you?" }] });
    let whole = json!({ "model": "main", "messages": [{ "role": "user", "content": "tokens=200 Who are you?" }] });
    std::thread::scope(|scope| {
        let ask = |body: &Value| web.ask_as(&writer, "POST /v1/chat/completions", body);
        let (streamed, waiting) = (scope.spawn(move || ask(&chat)), scope.spawn(move || ask(&whole)));
        let runs = || home.json(&["runs", "list"]).as_array().map_or(0, Vec::len);
        until("both runs", || runs() == 2);
        home.run(&["gateway", "token", "revoke", "writer"]).expect_code(0);
        let streamed = streamed.join().expect("it ends");
        assert!(streamed.status == 200 && !streamed.data().contains(&"[DONE]"), "{streamed:?}");
        assert_eq!(waiting.join().expect("it ends").status, 401);
        let states = home.json(&["runs", "list"]);
        let is_unfinished = |run: &Value| run["outcome"].is_null();
        assert!(states.as_array().expect("a list").iter().all(is_unfinished), "the runs go on: {states}");
        for run in states.as_array().expect("a list") {
            home.run(&["runs", "abort", run["run"].as_str().expect("an id")]);
        }
    });
}

/// R24, R60: what may do little makes the service do little.
#[test]
fn r60_a_large_body_needs_a_scope_first() {
    let home = Home::new();
    let web = Web::start(&home);
    let (reader, writer) = (token(&home, "reader", "read"), token(&home, "writer", "write"));
    let many = json!({ "message": "x", "more": vec![json!([]); 300_000] });
    assert_eq!(web.ask_as(&reader, "POST /v1/runs", &many).status, 403);
    assert_eq!(web.ask_as(&reader, "POST /v1/rpc/runs.list", &many).status, 400);
    let large = json!({ "sessionKey": "x".repeat(2 << 20) });
    assert_eq!(web.ask_as(&reader, "POST /v1/rpc/runs.list", &large).status, 413);
    let refused = web.ask_as(&writer, "POST /v1/runs", &many);
    assert!(refused.status == 400 && refused.body.contains("values"), "{refused:?}");
    for more in [json!({ "workspace": "/etc" }), json!({ "root": "workspace" })] {
        let mut params = json!({ "message": "Who are you?", "sessionKey": "main", "idempotencyKey": "k" });
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        assert_eq!(web.ask_as(&writer, "POST /v1/runs", &params).status, 403, "{more}");
    }
}

/// R60: bad names, scopes and files are refused with what to do, and nothing is let in by them.
#[test]
fn r60_what_makes_no_token_is_refused() {
    let home = Home::new();
    let web = Web::start(&home);
    for (words, code, part) in [
        (&["a b", "--scope", "read"][..], 2, "is no name of a token"),
        (&["a", "--scope", "everything"], 2, "read, write, approve, admin"),
        (&["a"], 2, "--scope"),
        (&["a", "--scope", "read", "--days", "0"], 2, "--days"),
    ] {
        home.run(&[&["gateway", "token", "create"], words].concat()).expect_code(code).expect_err(part);
    }
    let reader = token(&home, "reader", "read,read");
    home.run(&["gateway", "token", "create", "reader", "--scope", "read"]).expect_code(3).expect_err("already");
    let path = home.path().join("gateway.access.json");
    let whole = fs::read(&path).expect("the file");
    fs::write(&path, "{\"tokens\": 7}").expect("it is written");
    let refused = web.ask_as(&reader, "GET /v1/runs", &Value::Null);
    assert_eq!(refused.status, 500, "{refused:?}");
    assert!(refused.json()["error"]["hint"].as_str().expect("a hint").contains("correct it"), "{refused:?}");
    home.run(&["gateway", "token", "list"]).expect_code(74).expect_err("line 1, column");
    fs::write(&path, &whole).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
    assert_eq!(web.ask_as(&reader, "GET /v1/runs", &Value::Null).status, 500);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    assert_eq!(web.ask_as(&reader, "GET /v1/runs", &Value::Null).status, 200);
    // A command of an agent lets nobody in.
    let program = crate::support::PROGRAM;
    let at = home.path().display().to_string();
    let message = format!(
        "run `LIMULUS_HOME={at} {program} gateway token create mine --scope admin >> out 2>&1; echo $? >> out`"
    );
    home.run(&["agent", "--yes", "-m", &message]).expect_code(0);
    let out = home.text("out");
    assert!(out.contains("a process inside a tool call may not let others in") && out.ends_with("3\n"), "{out}");
    assert_eq!(home.json(&["gateway", "token", "list"]).as_array().map(Vec::len), Some(1));
}

/// R60: on this machine a device that has shown a token is approved without a word, and has a token of its own from then on.
#[test]
fn r60_a_device_on_this_machine_is_approved_by_its_token() {
    let home = Home::new();
    let web = Web::start(&home);
    let scopes = ["operator.read", "operator.write"];
    let refused = OpenClaw::connect_device(&web, 7, "guess", &scopes).expect_err("it is refused");
    assert_eq!(refused["details"]["code"], "AUTH_TOKEN_MISMATCH");
    assert_eq!(home.json(&["gateway", "devices", "list"]), json!([]));
    let client = OpenClaw::connect_device(&web, 7, &web.token, &scopes).unwrap();
    let own = client.hello["auth"]["deviceToken"].as_str().expect("a token").to_owned();
    assert!(own != web.token && client.hello["auth"]["issuedAtMs"].as_i64() > Some(0), "{}", client.hello);
    let again = OpenClaw::connect_device(&web, 7, &web.token, &scopes).unwrap();
    assert_eq!(again.hello["auth"]["deviceToken"], own.as_str(), "it is the same one");
    let mut client = OpenClaw::connect_device(&web, 7, &own, &scopes).unwrap();
    client.call("sessions.list", &json!({}));

    // It is for that device alone, and for no more than it was approved for.
    let other = OpenClaw::connect_device(&web, 8, &own, &scopes).expect_err("it is refused");
    assert_eq!(other["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH", "{other}");
    let more = json!({ "auth": { "token": own }, "scopes": scopes });
    assert_eq!(OpenClaw::try_connect(&web, &more).expect_err("it is refused")["code"], "NOT_PAIRED");
    assert_eq!(web.ask_as(&own, "GET /v1/runs", &Value::Null).status, 401);
    let asks = OpenClaw::connect_device(&web, 7, &own, &SCOPES).expect_err("it asks");
    assert_eq!((&asks["code"], &asks["details"]["reason"]), (&json!("NOT_PAIRED"), &json!("scope-upgrade")), "{asks}");
    let mut admin = OpenClaw::connect(&web, &SCOPES, &[]);
    let listed = admin.call("device.pair.list", &json!({}));
    assert_eq!(listed["pending"][0]["requestId"], asks["details"]["requestId"]);
    admin.call("device.pair.approve", &json!({ "requestId": asks["details"]["requestId"] }));
    assert!(OpenClaw::connect_device(&web, 7, &own, &SCOPES).is_ok());

    let shown = home.run(&["gateway", "devices", "list"]).expect_code(0).out;
    assert!(shown.contains(&device_id(7)[..12]) && shown.contains("read, write, approve, admin"), "{shown}");
    // A connection that has shown the token of the user is one of the device all the same.
    let mut by_user = OpenClaw::connect_device(&web, 7, &web.token, &scopes).unwrap();
    by_user.call("sessions.list", &json!({}));
    home.run(&["gateway", "devices", "revoke", &device_id(7)[..12]]).expect_code(0);
    client.rest();
    by_user.rest();
    let gone = OpenClaw::connect_device(&web, 7, &own, &scopes).expect_err("it is refused");
    assert_eq!(gone["details"]["code"], "AUTH_TOKEN_MISMATCH");
    assert!(admin.call("device.pair.list", &json!({}))["paired"] == json!([]));
}

/// R60: what a token has approved ends with that token.
#[test]
fn r60_a_device_that_a_token_has_approved_ends_with_it() {
    let home = Home::new();
    let web = Web::start(&home);
    let writer = token(&home, "writer", "write");
    let scopes = ["operator.read", "operator.write", "operator.admin"];
    let mut client = OpenClaw::connect_device(&web, 7, &writer, &scopes).unwrap();
    let own = client.hello["auth"]["deviceToken"].as_str().expect("a token").to_owned();
    assert_eq!(
        client.hello["auth"]["scopes"],
        json!(["operator.read", "operator.write"]),
        "it has no more than its token"
    );
    OpenClaw::connect_device(&web, 7, &own, &scopes[..2]).unwrap();
    home.run(&["gateway", "token", "revoke", "writer"]).expect_code(0);
    client.rest();
    assert!(OpenClaw::connect_device(&web, 7, &own, &scopes[..2]).is_err());
    let mut of_user = OpenClaw::connect_device(&web, 8, &web.token, &scopes).unwrap();
    let own = of_user.hello["auth"]["deviceToken"].as_str().expect("a token").to_owned();
    let mut by_own = OpenClaw::connect_device(&web, 8, &own, &scopes).unwrap();
    home.run(&["gateway", "token", "rotate"]).expect_code(0);
    of_user.rest();
    by_own.rest();
    assert!(OpenClaw::connect_device(&web, 8, &own, &scopes).is_err());
}

/// R60: elsewhere, as behind a proxy, a device waits for its approval, also with the token.
#[test]
fn r60_a_device_elsewhere_waits_for_its_approval() {
    let home = Home::new().with("LIMULUS_GATEWAY__BEHIND_PROXY", "true");
    let web = Web::start(&home);
    let scopes = ["operator.read"];
    let asks = OpenClaw::connect_device(&web, 7, &web.token, &scopes).expect_err("it asks");
    assert_eq!((&asks["code"], &asks["details"]["reason"]), (&json!("NOT_PAIRED"), &json!("not-paired")), "{asks}");
    let id = device_id(7)[..12].to_owned();
    let request = asks["details"]["requestId"].as_str().expect("an id").to_owned();
    assert!(asks["message"].as_str().expect("a message").contains(&format!("devices approve {request}")), "{asks}");
    let listed = home.json(&["gateway", "devices", "list"]);
    assert_eq!((&listed[0]["request"]["scopes"], &listed[0]["scopes"]), (&json!(["read"]), &json!([])), "{listed}");
    home.run(&["gateway", "devices", "approve", "ffff"]).expect_code(4).expect_err("there is no device `ffff`");
    // It asks for more meanwhile: what the user has seen is another request.
    let more = OpenClaw::connect_device(&web, 7, &web.token, &SCOPES).expect_err("it asks");
    home.run(&["gateway", "devices", "approve", &request]).expect_code(4);
    home.run(&["gateway", "devices", "approve", &id]).expect_code(4).expect_err("there is no request");
    home.run(&["gateway", "devices", "revoke", more["details"]["requestId"].as_str().expect("an id")]).expect_code(0);
    let asks = OpenClaw::connect_device(&web, 7, &web.token, &scopes).expect_err("it asks");
    let approved = home.json(&["gateway", "devices", "approve", asks["details"]["requestId"].as_str().expect("an id")]);
    assert_eq!(approved["scopes"], json!(["read"]));
    until("it is let in", || OpenClaw::connect_device(&web, 7, &web.token, &scopes).is_ok());
    let more = OpenClaw::connect_device(&web, 7, &web.token, &["operator.admin"]).expect_err("it asks");
    assert_eq!(more["details"]["reason"], "scope-upgrade");
    // Only what it asked for is refused.
    home.run(&["gateway", "devices", "revoke", more["details"]["requestId"].as_str().expect("an id")]).expect_code(0);
    assert!(OpenClaw::connect_device(&web, 7, &web.token, &scopes).is_ok());
    let less = home.json(&["gateway", "devices", "approve", &id, "--scope", "write,read"]);
    assert_eq!(less["scopes"], json!(["read", "write"]));
    let less = home.json(&["gateway", "devices", "approve", &id, "--scope", "read"]);
    assert_eq!(less["scopes"], json!(["read"]), "it may do less now");
    home.run(&["gateway", "devices", "revoke", &id]).expect_code(0);
    assert_eq!(OpenClaw::connect_device(&web, 7, &web.token, &scopes).expect_err("asks")["code"], "NOT_PAIRED");
}
