//! A client of OpenClaw's protocol that is no part of the product.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tungstenite::WebSocket;

use super::web::{Web, frame, put};

/// All scopes of an operator.
pub(crate) const SCOPES: [&str; 4] = ["operator.admin", "operator.read", "operator.write", "operator.approvals"];

/// The id of the device with this key.
pub(crate) fn device_id(key: u8) -> String {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[key; 32]).expect("a key");
    let id = digest(&SHA256, pair.public_key().as_ref());
    id.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// What a client shows of its device.
fn signed(key: u8, (token, challenge): (&str, &str), scopes: &[&str]) -> Value {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[key; 32]).expect("a key");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    let (id, at, scopes) = (device_id(key), since.as_millis(), scopes.join(","));
    let text = format!("v3|{id}|cli|cli|operator|{scopes}|{at}|{token}|{challenge}|linux|");
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    json!({
        "id": id, "publicKey": encode(pair.public_key().as_ref()), "signedAt": at as u64, "nonce": challenge,
        "signature": encode(pair.sign(text.as_bytes()).as_ref()),
    })
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct OpenClaw {
    socket: WebSocket<TcpStream>,
    /// What it was shown first.
    pub(crate) hello: Value,
    /// Events that came while it waited for something else.
    events: VecDeque<Value>,
    /// And responses.
    responses: VecDeque<Value>,
    next: u32,
}

impl OpenClaw {
    /// Connects with these scopes and capabilities.
    pub(crate) fn connect(web: &Web, scopes: &[&str], caps: &[&str]) -> Self {
        let more = json!({ "auth": { "token": web.token }, "scopes": scopes, "caps": caps });
        Self::try_connect(web, &more).expect("it is let in")
    }

    /// The same with these parameters besides the usual ones; else the error.
    pub(crate) fn try_connect(web: &Web, more: &Value) -> Result<Self, Value> {
        Self::connect_with(web, |_| more.clone())
    }

    /// The same for a device with this key, that shows a token and asks for these scopes.
    pub(crate) fn connect_device(web: &Web, key: u8, token: &str, scopes: &[&str]) -> Result<Self, Value> {
        Self::connect_with(web, |challenge| {
            let device = signed(key, (token, challenge), scopes);
            json!({ "auth": { "token": token }, "scopes": scopes, "device": device })
        })
    }

    fn connect_with(web: &Web, more: impl Fn(&str) -> Value) -> Result<Self, Value> {
        let mut socket = web.websocket(&[]).expect("a WebSocket");
        let challenge = frame(&mut socket).expect("a challenge");
        assert_eq!(challenge["event"], "connect.challenge");
        let more = more(challenge["payload"]["nonce"].as_str().expect("a nonce"));
        let client = json!({ "id": "cli", "version": "2026.9.6", "platform": "linux", "mode": "cli" });
        let mut params = json!({ "minProtocol": 4, "maxProtocol": 4, "client": client, "role": "operator" });
        let object = params.as_object_mut().expect("an object");
        object.extend(more.as_object().expect("an object").clone());
        put(&mut socket, &json!({ "type": "req", "id": "hello", "method": "connect", "params": params }));
        let answer = frame(&mut socket).expect("an answer");
        if answer["ok"] == false {
            assert_eq!(frame(&mut socket), None, "it is closed");
            return Err(answer["error"].clone());
        }
        Ok(Self {
            socket,
            hello: answer["payload"].clone(),
            events: VecDeque::new(),
            responses: VecDeque::new(),
            next: 0,
        })
    }

    /// Sends a request. Returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> String {
        self.next += 1;
        let id = format!("r{}", self.next);
        put(&mut self.socket, &json!({ "type": "req", "id": id, "method": method, "params": params }));
        id
    }

    /// The next response to this request.
    pub(crate) fn response(&mut self, id: &str) -> Value {
        if let Some(at) = self.responses.iter().position(|response| response["id"] == id) {
            return self.responses.remove(at).expect("it is there");
        }
        loop {
            let next = frame(&mut self.socket).expect("a frame");
            if next["type"] == "event" {
                self.events.push_back(next);
            } else if next["id"] == id {
                return next;
            } else {
                self.responses.push_back(next);
            }
        }
    }

    /// Whether an event of this run has come already.
    pub(crate) fn has_seen(&self, run: &str) -> bool {
        self.events.iter().any(|event| event["payload"]["runId"] == run)
    }

    /// The result of a request.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let response = self.response(&id);
        assert_eq!(response["ok"], true, "{method}: {response}");
        response["payload"].clone()
    }

    /// The error of a request.
    pub(crate) fn refused(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let response = self.response(&id);
        assert_eq!(response["ok"], false, "{method}: {response}");
        response["error"].clone()
    }

    /// The next event of this name whose payload is so.
    pub(crate) fn event(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let next = match self.events.pop_front() {
                Some(event) => event,
                None => frame(&mut self.socket).expect("a frame"),
            };
            if next["event"] == name && is_it(&next["payload"]) {
                return next["payload"].clone();
            }
        }
    }

    /// All events up to one of this name whose payload is so.
    pub(crate) fn events_until(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = vec![];
        loop {
            let next = match self.events.pop_front() {
                Some(event) => event,
                None => frame(&mut self.socket).expect("a frame"),
            };
            if next["type"] == "event" {
                let is_last = next["event"] == name && is_it(&next["payload"]);
                events.push(next);
                if is_last {
                    return events;
                }
            }
        }
    }

    /// What comes when the service is gone: the last events, until it closes.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let mut rest: Vec<Value> = self.events.drain(..).collect();
        rest.extend(std::iter::from_fn(|| frame(&mut self.socket)));
        rest
    }
}
