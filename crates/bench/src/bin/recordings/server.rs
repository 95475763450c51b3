//! A model whose answers are given: the n-th request of a conversation gets the n-th.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

/// Maximum bytes of a request: far more than this task needs.
const REQUEST_BYTES: u64 = 16 << 20;
/// Characters of a piece of text.
const PIECE: usize = 6;

/// One answer: a text and calls of tools with their arguments.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: &'static str,
    pub(super) calls: Vec<(&'static str, String)>,
}

/// A server on loopback; its thread ends with the program.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
}

impl Server {
    /// Starts it.
    pub(super) fn start(answers: Vec<Answer>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = exchange(&stream, &answers) {
                    eprintln!("recordings: the model server: {error}");
                }
            }
        });
        Ok(Self { address })
    }

    /// The `base_url` that makes it a provider.
    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Reads one request and answers it.
fn exchange(stream: &TcpStream, answers: &[Answer]) -> io::Result<()> {
    let mut reader = BufReader::new(stream).take(REQUEST_BYTES);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 && !line.trim().is_empty() {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        line.clear();
    }
    let mut body = vec![];
    reader.take(length).read_to_end(&mut body)?;
    let request: Value = serde_json::from_slice(&body)?;
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let answer = answers.get(turn).ok_or_else(|| io::Error::other("more requests than answers"))?;
    let mut writer = stream;
    writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    writer.write_all(stream_of(answer, turn).as_bytes())
}

/// The events of an answer.
fn stream_of(answer: &Answer, turn: usize) -> String {
    let characters: Vec<char> = answer.text.chars().collect();
    let pieces = characters.chunks(PIECE).map(|piece| json!({ "content": piece.iter().collect::<String>() }));
    let calls = answer.calls.iter().enumerate().map(|(index, (name, arguments))| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "tool_calls": [{ "index": index, "id": format!("c{turn}{index}"), "type": "function", "function": function }] })
    });
    let finish = if answer.calls.is_empty() { "stop" } else { "tool_calls" };
    let deltas = pieces.chain(calls).map(|delta| (delta, None)).chain([(json!({}), Some(finish))]);
    let chunks =
        deltas.map(|(delta, finish)| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }));
    let read = 1_400 + 300 * turn;
    let usage = json!({
        "prompt_tokens": read, "completion_tokens": 60, "total_tokens": read + 60,
        "prompt_tokens_details": { "cached_tokens": 1_200 },
    });
    let chunks = chunks.chain([json!({ "choices": [], "usage": usage })]);
    chunks.map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}
