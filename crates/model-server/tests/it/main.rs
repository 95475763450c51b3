//! The model server, used over a socket as any client would.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod faults;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use model_server::{ModelServer, Odd};
use serde_json::{Value, json};

/// One connection. A read that hangs fails the test instead of blocking it.
struct Client(TcpStream);

impl Client {
    fn of(server: &ModelServer) -> Self {
        let address = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    fn send(&mut self, messages: &Value) {
        let body = json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true }, "messages": messages,
        });
        let body = body.to_string();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.write_all(format!("{head}{body}").as_bytes()).unwrap();
    }

    /// Reads until the text ends with `end`, or the server closes.
    fn read_to(&mut self, end: &str) -> String {
        let (bytes, broken) = self.bytes_to(end);
        assert!(broken.is_none(), "{broken:?}");
        String::from_utf8(bytes).unwrap()
    }

    /// The same as bytes, and the error if the connection broke.
    fn bytes_to(&mut self, end: &str) -> (Vec<u8>, Option<ErrorKind>) {
        let mut bytes = vec![];
        let mut piece = [0; 1024];
        while !bytes.ends_with(end.as_bytes()) {
            match self.0.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&piece[..read]),
                Err(error) => return (bytes, Some(error.kind())),
            }
        }
        (bytes, None)
    }

    fn ask(&mut self, messages: &Value) -> String {
        self.send(messages);
        self.read_to("0\r\n\r\n")
    }
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// The JSON of each frame.
fn chunks(answer: &str) -> Vec<Value> {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn text(answer: &str) -> String {
    chunks(answer).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[test]
fn a_call_then_the_answer_on_one_connection() {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    let asked = client.ask(&json!([user("exec:echo hi\ntokens=3")]));
    let chunks = chunks(&asked);
    let calls: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]).collect();
    let id = calls.iter().find_map(|call| call["id"].as_str()).unwrap();
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"command":"echo hi"}"#);
    assert!(chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "tool_calls"));
    assert!(chunks.iter().any(|chunk| chunk["usage"]["prompt_tokens"].is_u64()));

    let function = json!({ "name": "exec", "arguments": arguments });
    let call = json!({ "role": "assistant", "tool_calls": [{ "id": id, "type": "function", "function": function }] });
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "hi" });
    let answer = client.ask(&json!([user("exec:echo hi\ntokens=3"), call, result]));
    assert_eq!(text(&answer), "word0 word1 word2");
    assert!(answer.contains("data: [DONE]"));
    assert_eq!(server.seen().iter().map(|seen| seen.results).collect::<Vec<_>>(), [0, 1]);
    assert!(server.violations().is_empty());
}

#[test]
fn unpaired_calls_and_results_are_refused_and_counted() {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    client.send(&json!([user("tokens=1"), { "role": "tool", "tool_call_id": "x", "content": "" }]));
    assert!(client.read_to("}").starts_with("HTTP/1.1 400"));
    assert_eq!(server.violations().len(), 1);
}

#[test]
fn a_fault_occurs_as_often_as_the_script_says() {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    for _ in 0..2 {
        client.send(&json!([user("fail=429x2 retry_after=0 tokens=1")]));
        let refusal = client.read_to("}}");
        assert!(refusal.starts_with("HTTP/1.1 429") && refusal.contains("retry-after: 0\r\n"), "{refusal}");
    }
    assert_eq!(text(&client.ask(&json!([user("fail=429x2 retry_after=0 tokens=1")]))), "word0");
    assert_eq!(server.seen().iter().map(|seen| seen.status).collect::<Vec<_>>(), [429, 429, 200]);
}

#[test]
fn r24_odd_calls_are_no_step_of_the_script_and_their_ids_are_reused() {
    for (name, _) in Odd::ALL.iter().filter(|(_, odd)| matches!(odd, Odd::Calls(_))) {
        let server = ModelServer::start().unwrap();
        let user = user(&format!("odd={name}x1 rounds=1 tokens=1"));
        let odd = Client::of(&server).ask(&json!([user]));
        assert!(odd.contains("\"finish_reason\":\"tool_calls\"") && odd.contains("[DONE]"), "{name}: {odd}");
        let again = json!({ "role": "assistant", "content": "odd calls", "tool_calls": [{ "id": "call_0_0" }] });
        let result = json!({ "role": "tool", "tool_call_id": "call_0_0", "content": "x" });
        let next = Client::of(&server).ask(&json!([user, again, result]));
        let ids: Vec<String> = chunks(&next)
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["id"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(ids, ["call_0_0"], "{name}: the first step of the script");
    }
}

#[test]
fn a_cut_answer_ends_without_its_end_mark() {
    let server = ModelServer::start().unwrap();
    let script = json!([user("cut=2x1 tokens=5")]);
    let cut = Client::of(&server).ask(&script);
    assert_eq!(text(&cut), "word0 word1");
    assert!(!cut.contains("[DONE]") && !cut.contains("finish_reason\":\"stop"));
    assert!(Client::of(&server).ask(&script).contains("[DONE]"));
}

#[test]
fn an_answer_that_stalls_has_this_many_words_and_no_end() {
    let server = ModelServer::start().unwrap();
    let script = json!([user("stall=2x1 tokens=5")]);
    let mut stalled = Client::of(&server);
    stalled.send(&script);
    let mut streamed = String::new();
    while !streamed.contains("word1") {
        streamed += &stalled.read_to("\n\n\r\n");
    }
    assert_eq!(text(&streamed), "word0 word1");
    stalled.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stalled.0.read(&mut [0; 16]).is_err(), "nothing more comes");
    assert!(Client::of(&server).ask(&script).contains("[DONE]"));
}

#[test]
fn a_hanging_request_does_not_block_others() {
    let server = ModelServer::start().unwrap();
    let script = json!([user("hang=1 tokens=1")]);
    let mut hanging = Client::of(&server);
    hanging.send(&script);
    while server.seen().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(text(&Client::of(&server).ask(&script)), "word0");
}
