//! The frames of an answer: chat-completion chunks as server-sent events, and HTTP around them.

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
/// Bytes of a piece: a few tokens.
const PIECE_BYTES: usize = 16;

/// One frame, as one HTTP chunk.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) data: Vec<u8>,
    /// Whether it carries a word of text: what a cut counts, and what a delay stands before.
    pub(super) is_word: bool,
    /// Whether it belongs to the end: that nothing more comes, the usage, the end mark.
    pub(super) is_end: bool,
}

/// The frames of an answer in order, the end mark included.
pub(super) fn frames(asked: &Asked) -> Vec<Frame> {
    let Reply { text, call } = &asked.reply;
    let chunk = |said: &Value, finish: Option<&str>| delta(asked, said, finish);
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

/// A frame that says this.
pub(super) fn said(asked: &Asked, text: &str) -> Frame {
    delta(asked, &json!({ "content": text }), None)
}

/// A frame that adds this, and says why nothing follows where that is so.
pub(super) fn delta(asked: &Asked, delta: &Value, finish: Option<&str>) -> Frame {
    let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
    frame(&with_head(asked, "choices", choices))
}

/// A whole answer with this status: a refusal, in the provider's own shape, or with this body.
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

/// Arguments as they are streamed: in two halves, long ones in pieces of a few bytes as models write them.
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

/// A frame of this.
pub(super) fn chunked(data: &[u8]) -> Frame {
    Frame { data: data.to_vec(), is_word: false, is_end: false }
}

impl Frame {
    /// As one HTTP chunk.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{:x}\r\n", self.data.len()).into_bytes();
        bytes.extend_from_slice(&self.data);
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}
