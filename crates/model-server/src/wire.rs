//! The frames of an answer, which are chat-completion chunks as server-sent events, and the HTTP around them.

use serde_json::{Value, json};

use super::answer::{Asked, Reply};
use super::fault::RetryAfter;

/// The head of a streamed answer.
pub(super) const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Arguments longer than this many bytes are streamed in pieces of [`PIECE_BYTES`].
const LONG_ARGUMENTS: usize = 4 << 10;
/// Bytes of such a piece, which are a few tokens.
const PIECE_BYTES: usize = 16;

/// One frame, sent as one HTTP chunk.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) data: Vec<u8>,
    /// Whether it carries a word of text. Faults count these words, and a delay precedes each.
    pub(super) is_word: bool,
    /// Whether it belongs to the end: the finish reason, the usage or the end mark.
    pub(super) is_end: bool,
}

/// The frames of a normal answer, end mark included.
pub(super) fn frames(asked: &Asked) -> Vec<Frame> {
    let Reply { text, call } = &asked.reply;
    let chunk = |change: &Value, finish: Option<&str>| delta(asked, change, finish);
    let mut frames = vec![chunk(&json!({ "role": "assistant", "content": "" }), None)];
    for word in text {
        frames.push(Frame { is_word: true, ..chunk(&json!({ "content": word }), None) });
    }
    if let Some((id, call)) = call {
        let opened =
            json!({ "index": 0, "id": id, "type": "function", "function": { "name": call.tool, "arguments": "" } });
        frames.push(chunk(&json!({ "tool_calls": [opened] }), None));
        for piece in pieces(&call.arguments) {
            let added = json!({ "index": 0, "function": { "arguments": piece } });
            frames.push(chunk(&json!({ "tool_calls": [added] }), None));
        }
    }
    let end = chunk(&json!({}), Some(if call.is_some() { "tool_calls" } else { "stop" }));
    frames.push(Frame { is_end: true, ..end });
    if asked.usage {
        let (read, wrote) = (10 * asked.messages, text.len() + 5 * usize::from(call.is_some()));
        let usage = json!({ "prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote });
        let mut last = with_head(asked, "choices", json!([]));
        last["usage"] = usage;
        frames.push(Frame { is_end: true, ..frame(&last) });
    }
    frames.push(Frame { is_end: true, ..chunked(b"data: [DONE]\n\n") });
    frames
}

/// A frame with this text.
pub(super) fn text_frame(asked: &Asked, text: &str) -> Frame {
    delta(asked, &json!({ "content": text }), None)
}

/// A frame with this delta, and with the finish reason if there is one.
pub(super) fn delta(asked: &Asked, delta: &Value, finish: Option<&str>) -> Frame {
    let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
    frame(&with_head(asked, "choices", choices))
}

/// A complete HTTP response with this status and this body; without a body, an error in the provider's format.
pub(super) fn refusal(status: u16, message: &str, body: Option<&str>, retry_after: Option<&RetryAfter>) -> Vec<u8> {
    let kind = match status {
        429 => "rate_limit_exceeded",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    let own = || json!({ "error": { "message": message, "type": kind, "param": null, "code": null } }).to_string();
    let body = body.map_or_else(own, str::to_owned);
    let retry_after = retry_after.map(RetryAfter::line).unwrap_or_default();
    format!(
        "HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n{retry_after}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The list of models.
pub(super) fn models() -> Vec<u8> {
    let body = json!({ "object": "list", "data": [{ "id": "scripted", "object": "model" }] }).to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// The pieces in which arguments are streamed: two halves, or pieces of a few bytes if they are long, as from models.
fn pieces(arguments: &str) -> Vec<&str> {
    let length = if arguments.len() > LONG_ARGUMENTS { PIECE_BYTES } else { arguments.len().div_ceil(2) };
    let mut pieces = vec![];
    let mut rest = arguments;
    while rest.len() > length {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(length));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

fn with_head(asked: &Asked, field: &str, value: Value) -> Value {
    let mut chunk = json!({
        "id": format!("chatcmpl-{}", asked.messages),
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": asked.model,
    });
    chunk[field] = value;
    chunk
}

fn frame(chunk: &Value) -> Frame {
    chunked(format!("data: {chunk}\n\n").as_bytes())
}

/// A frame with these bytes, which is neither a word nor part of the end.
pub(super) fn chunked(data: &[u8]) -> Frame {
    Frame { data: data.to_vec(), is_word: false, is_end: false }
}

impl Frame {
    /// The frame as an HTTP chunk.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{:x}\r\n", self.data.len()).into_bytes();
        bytes.extend_from_slice(&self.data);
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}
