//! A faulty client harms only itself, whatever it sends or does not send.

use std::sync::Arc;
use std::time::Duration;

use gateway::Service;
use gateway::socket::{self, Listener, RESERVED};
use proptest::prelude::*;
use protocol::limits::{CONNECTIONS, FIRST_FRAME_BYTES, FRAME_BYTES, HANDSHAKE_MS};
use protocol::method::{HealthGet, NoParams};
use protocol::{Client, ClientError, ErrorCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::support::{CONNECT, Home, Raw, hello};

impl Home {
    /// Another client is served as if nothing had happened.
    async fn assert_well(&self) {
        let (client, _events) = self.client().await;
        assert!(client.call::<HealthGet>(NoParams {}).await.unwrap().ok);
    }

    /// A client that has completed the handshake.
    async fn greeted(&self) -> Raw {
        let mut raw = self.raw().await;
        raw.say(CONNECT).await;
        assert_eq!(raw.observe().await.unwrap()["payload"]["type"], "hello-ok");
        raw
    }
}

fn is_invalid(error: &Value, says: &str) -> bool {
    error["code"] == "INVALID_REQUEST" && error["message"].as_str().is_some_and(|message| message.contains(says))
}

/// R60: before the handshake a client receives the reason why it is closed, and nothing else.
#[tokio::test]
async fn r60_a_connection_without_a_handshake_is_closed() {
    let home = Home::new();
    let long = "a".repeat(FIRST_FRAME_BYTES + 1);
    for (first, says) in [
        ("GET / HTTP/1.1", "not a frame"),
        ("{}", "not a frame"),
        (r#"{"type":"event","event":"tick"}"#, "must be a request"),
        (&long, "bytes"),
    ] {
        let mut raw = home.raw().await;
        raw.say(first).await;
        let frames = raw.rest().await;
        assert_eq!((frames.len(), &frames[0]["event"]), (1, &json!("closed")), "{first:.20}: {frames:?}");
        assert!(is_invalid(&frames[0]["payload"], says), "{says}: {frames:?}");
    }
    home.assert_well().await;
    home.leave().await;
}

#[tokio::test]
async fn r60_a_handshake_in_another_version_or_with_more_in_it_is_refused_by_name() {
    let home = Home::new();
    for (from, to, says) in [
        (r#""minProtocol":1,"maxProtocol":1"#, r#""minProtocol":2,"maxProtocol":9"#, "version 1"),
        (r#""minProtocol":1"#, r#""minProtocol":1,"token":"x""#, "unknown field `token`"),
        (r#""mode":"test""#, r#""mood":"test""#, "mood"),
        (r#""method":"connect""#, r#""method":"health""#, "must be `connect`"),
    ] {
        let mut raw = home.raw().await;
        raw.say(&CONNECT.replace(from, to)).await;
        let frames = raw.rest().await;
        assert_eq!((frames.len(), &frames[0]["id"], &frames[0]["ok"]), (1, &json!("c"), &json!(false)), "{frames:?}");
        assert!(is_invalid(&frames[0]["error"], says), "{says}: {frames:?}");
    }
    home.leave().await;
}

/// R60: an invalid request gets an error response, and its client continues.
#[tokio::test]
async fn r60_an_invalid_request_is_refused_and_the_next_one_runs() {
    let home = Home::new();
    let mut raw = home.greeted().await;
    let deep = format!(r#"{}"deep"{}"#, "[".repeat(100), "]".repeat(100));
    for (method, params, says) in [
        ("dream", "{}", "unknown method `dream`"),
        ("connect", "{}", "unknown method `connect`"),
        ("agent", "{}", "missing field"),
        ("agent", "[]", "invalid parameters of `agent`"),
        ("agent", r#"{"message":"a","sessionKey":"a b","idempotencyKey":"k"}"#, "not a session key"),
        ("agent", r#"{"message":"a","sessionKey":"main","idempotencyKey":"k","lane":"x"}"#, "unknown field `lane`"),
        ("agent.wait", r#"{"runId":"x"}"#, "invalid parameters"),
        ("runs.abort", "{}", "name either a run or a session"),
        ("events.subscribe", r#"{"session":"main","from":"rubbish"}"#, "not a cursor"),
        ("events.subscribe", r#"{"session":"main","run":"x"}"#, "a session and a run"),
        ("health", &deep, "invalid parameters"),
    ] {
        raw.say(&format!(r#"{{"type":"req","id":"1","method":"{method}","params":{params}}}"#)).await;
        let frame = raw.observe().await.unwrap();
        assert!(frame["id"] == "1" && is_invalid(&frame["error"], says), "{method} {params}: {frame}");
        assert!(frame["error"]["details"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{frame}");
    }
    raw.say(r#"{"type":"req","id":"2","method":"health"}"#).await;
    assert_eq!(raw.observe().await.unwrap()["ok"], true);
    assert!(home.service.runtime().journal().sessions().unwrap().is_empty());
    home.leave().await;
}

/// R60: after bytes that are not a frame, no later frame can be found: the client receives the reason and is closed.
#[tokio::test]
async fn r60_an_invalid_frame_closes_only_its_own_connection() {
    let home = Home::new();
    let deep = format!(r#"{{"type":"req","id":"1","method":"health","params":{}"#, "[".repeat(200_000));
    let long = "a".repeat(FRAME_BYTES + 1);
    for (line, says) in [
        ("hello", "not a frame"),
        ("", "not a frame"),
        (r#"{"type":"req","id":"","method":"health"}"#, "needs an id"),
        (r#"{"type":"req","id":"1","method":"health","more":1}"#, "unknown field `more`"),
        (r#"{"type":"res","id":"1","ok":true}"#, "requests only"),
        (&deep, "recursion limit"),
        (&long, "bytes"),
    ] {
        let mut raw = home.greeted().await;
        raw.say(line).await;
        let frames = raw.rest().await;
        assert_eq!((frames.len(), &frames[0]["event"]), (1, &json!("closed")), "{line:.20}: {frames:?}");
        assert!(is_invalid(&frames[0]["payload"], says), "{says}: {frames:?}");
    }
    home.assert_well().await;
    home.leave().await;
}

/// R60: a frame that is cut off by the end of the connection is not a request; earlier requests get their responses.
#[tokio::test]
async fn r60_a_half_closed_client_still_receives_its_responses() {
    let home = Home::new();
    let mut raw = home.greeted().await;
    let params = r#"{"message":"Who are you?","sessionKey":"main","idempotencyKey":"k"}"#;
    raw.say(&format!(r#"{{"type":"req","id":"1","method":"agent","params":{params}}}"#)).await;
    raw.write.write_all(br#"{"type":"req","id":"2","meth"#).await.unwrap();
    raw.write.shutdown().await.unwrap();
    let frames = raw.rest().await;
    assert_eq!(frames.iter().map(|frame| frame["payload"]["status"].clone()).collect::<Vec<_>>(), ["accepted", "ok"]);
    home.leave().await;
}

/// R60: the number of clients is bounded, and a slot is free again when one leaves.
#[tokio::test]
async fn r60_one_client_too_many_is_closed_and_the_others_are_not() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind(folder.path()).unwrap().at_most(2);
    let service = Arc::clone(&home.service);
    let listening = listener.spawn(service);
    let greeted = async || {
        let mut raw = Raw::connect(folder.path()).await;
        raw.say(CONNECT).await;
        raw.observe().await.filter(|frame| frame["ok"] == true).map(|_| raw)
    };
    let (first, second) = (greeted().await.unwrap(), greeted().await.unwrap());
    // Those who act find a place: a run can be aborted although all places are taken.
    let mut reserved = vec![];
    while reserved.len() < RESERVED {
        reserved.push(greeted().await.unwrap());
    }
    let mut third = Raw::connect(folder.path()).await;
    let frames = third.rest().await;
    assert_eq!((frames.len(), &frames[0]["event"]), (1, &json!("closed")), "the third is above the limit: {frames:?}");
    assert_eq!(frames[0]["payload"]["message"].as_str().map(|says| &says[..9]), Some("2 clients"));
    drop((first, reserved));
    while greeted().await.is_none() {
        tokio::task::yield_now().await;
    }
    drop(second);
    listening.abort();
    let _ = listening.await;
    home.leave().await;
}

/// KiB of this process that are in memory.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Raises the limit of open files of this process as far as it may.
fn open_files(files: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum.map_or(files, |most| most.min(files)).max(limit.current.unwrap_or(files));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).unwrap();
    current
}

/// R60: as many clients at once as there are connections for, over the real socket, each served. A surplus client
/// receives the reason, the others are served on, and a slot is free when one leaves. Their cost is bounded.
#[tokio::test]
async fn r60_a_thousand_clients_are_served_and_a_surplus_client_is_refused() {
    // Both ends are in this process.
    let files = open_files(4_096);
    assert!(files >= 3_000, "this test opens 2,048 connections: raise `ulimit -Hn` from {files}");
    let home = Home::new();
    let mut clients = vec![home.client().await];
    let before = resident_kib();
    while clients.len() < CONNECTIONS {
        clients.push(home.client().await);
    }
    let each = resident_kib().saturating_sub(before) / CONNECTIONS;
    // Includes its own half and what other tests use at that time.
    assert!(each < 512, "{each} KiB for each client");
    let asked: Vec<_> = clients.iter().map(|(client, _)| client.ask::<HealthGet>(NoParams {}).unwrap()).collect();
    for mut answers in asked {
        assert_eq!(answers.next().await.unwrap().connections as usize, CONNECTIONS);
    }
    let mut reserved = vec![];
    while reserved.len() < RESERVED {
        let (client, ..) = Client::connect(socket::connect(&home.path()).await.unwrap(), hello(vec![])).await.unwrap();
        assert!(client.call::<HealthGet>(NoParams {}).await.unwrap().ok);
        reserved.push(client);
    }
    let refused = Client::connect(socket::connect(&home.path()).await.unwrap(), hello(vec![])).await;
    let Err(ClientError::Answered(error)) = refused else { panic!("{refused:?}") };
    assert_eq!((error.code, error.retryable), (ErrorCode::Unavailable, Some(true)));
    assert!(error.message.contains("1024 clients are connected"), "{error}");
    for (client, _) in [&clients[0], &clients[CONNECTIONS - 1]] {
        assert!(client.call::<HealthGet>(NoParams {}).await.unwrap().ok);
    }
    clients.truncate(CONNECTIONS / 2);
    while Client::connect(socket::connect(&home.path()).await.unwrap(), hello(vec![])).await.is_err() {
        tokio::task::yield_now().await;
    }
    drop(clients);
    home.leave().await;
}

/// R60: a client that sends nothing, or half a frame, is closed after ten seconds and receives the reason.
#[tokio::test(start_paused = true)]
async fn r60_a_client_without_a_handshake_within_ten_seconds_is_closed() {
    let home = Home::new();
    for says in ["", &CONNECT[..40]] {
        let began = Instant::now();
        let mut silent = Raw::connect(&home.path()).await;
        silent.write.write_all(says.as_bytes()).await.unwrap();
        let frames = silent.rest().await;
        assert_eq!((frames.len(), &frames[0]["event"]), (1, &json!("closed")), "{frames:?}");
        assert!(is_invalid(&frames[0]["payload"], "no handshake within 10 s"), "{frames:?}");
        let took = began.elapsed().as_millis() as u64;
        assert!((HANDSHAKE_MS..HANDSHAKE_MS + 1_000).contains(&took), "{took} ms");
    }
    // A client that completed the handshake in time has no further limit.
    let mut greeted = home.greeted().await;
    // waits: on the paused clock, which advances by itself; no time passes.
    tokio::time::sleep(Duration::from_millis(HANDSHAKE_MS * 2)).await;
    greeted.say(r#"{"type":"req","id":"1","method":"health"}"#).await;
    assert_eq!(greeted.observe().await.unwrap()["ok"], true);
    home.leave().await;
}

/// Pieces of what clients send, valid and invalid.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::sample::select(vec![
        CONNECT.to_owned(),
        r#"{"type":"req","id":"1","method":"health"}"#.to_owned(),
        r#"{"type":"req","id":"2","method":"events.subscribe","params":{"whole":false}}"#.to_owned(),
        r#"{"type":"req","id":"3","method":"events.subscribe","params":{"session":"main","from":"1.2:x#y"}}"#
            .to_owned(),
        r#"{"type":"req","id":"4","method":"approvals.resolve","params":{"call":"x","fingerprint":"y","allow":true}}"#
            .to_owned(),
        r#"{"type":"req","id":"5","method":"runs.abort","params":{"session":"main"}}"#.to_owned(),
        r#"{"type":"req","id":"6","method":"sessions.resume","params":{"sessionKey":"é"}}"#.to_owned(),
    ]);
    let line = whole.prop_map(|line| (line + "\n").into_bytes());
    let cut = (line.clone(), any::<prop::sample::Index>()).prop_map(|(mut line, at)| {
        line.truncate(at.index(line.len()));
        line
    });
    let flipped = (line.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut line, at, byte)| {
        let at = at.index(line.len());
        line[at] = byte;
        line
    });
    let piece = prop_oneof![4 => line, 1 => cut, 2 => flipped, 1 => prop::collection::vec(any::<u8>(), 0..60)];
    let begins = prop_oneof![3 => Just(format!("{CONNECT}\n").into_bytes()), 1 => Just(vec![])];
    (begins, prop::collection::vec(piece, 0..12)).prop_map(|(begins, pieces)| [vec![begins], pieces].concat().concat())
}

/// Sends all bytes and returns what came back.
async fn exchange(service: Arc<Service>, bytes: &[u8]) -> Vec<u8> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let (mut observes, mut says) = tokio::io::split(ours);
    let talking = async {
        let _ = says.write_all(bytes).await;
        let _ = says.shutdown().await;
        let mut received = vec![];
        observes.read_to_end(&mut received).await.unwrap();
        received
    };
    // In this task, so that a panic while serving fails this test.
    tokio::join!(service.serve(read, write), talking).1
}

/// R60: any bytes are answered by frames and an end.
#[test]
fn r60_any_bytes_are_answered_by_frames_and_an_end() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tokio.block_on(async { Home::new() });
    proptest!(|(bytes in said())| {
        let received = tokio.block_on(exchange(Arc::clone(&home.service), &bytes));
        for line in received.split_inclusive(|byte| *byte == b'\n') {
            prop_assert!(serde_json::from_slice::<protocol::Frame>(line).is_ok(), "{}", String::from_utf8_lossy(line));
        }
    });
    tokio.block_on(async {
        home.assert_well().await;
        home.leave().await;
    });
}
