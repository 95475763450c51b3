//! Answers that are not in order, as providers and what stands before them send them. Each ends with its connection.

use serde_json::json;

use super::answer::Asked;
use super::odd_calls;
use super::script::Odd;
use super::wire::{Frame, STREAM_HEAD, chunked, frames, said};

/// The bytes that go out, from the head on.
pub(super) fn answer(asked: &Asked, odd: Odd) -> Vec<u8> {
    let page = "<!doctype html><title>Sign in</title><p>Sign in to use this network.";
    match odd {
        Odd::Html => whole("text/html", page),
        Odd::Json => {
            let choices = json!([{ "index": 0, "message": { "role": "assistant", "content": "not a stream" } }]);
            whole("application/json", &json!({ "choices": choices }).to_string())
        }
        Odd::Headers => STREAM_HEAD.to_vec(),
        Odd::ErrorEvent => {
            let error = json!({ "error": { "message": "the server had an error", "type": "server_error" } });
            begun(asked, format!("data: {error}\n\n").as_bytes())
        }
        Odd::BrokenFrame => begun(asked, b"data: {\"choices\":[{\"index\":0,\"del\n\n"),
        Odd::BadUtf8 => begun(asked, b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n"),
        Odd::NoEnd => {
            let words = frames(asked).into_iter().take_while(|frame| !frame.is_end);
            [STREAM_HEAD.to_vec(), bytes(words)].concat()
        }
        Odd::Noise => noise(asked),
        Odd::Calls(calls) => odd_calls::answer(asked, calls),
    }
}

fn whole(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// A piece of text, then this.
fn begun(asked: &Asked, then: &[u8]) -> Vec<u8> {
    [STREAM_HEAD, &said(asked, "word0").bytes, &chunked(then).bytes].concat()
}

/// The answer in order, in all that the standard lets stand around it.
fn noise(asked: &Asked) -> Vec<u8> {
    let mut bytes =
        [STREAM_HEAD, &chunked(b"\xef\xbb\xbf: a comment\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n").bytes].concat();
    for frame in frames(asked) {
        bytes.extend(chunked(b": still here\r\n\r\n").bytes);
        bytes.extend(frame.bytes);
    }
    bytes.extend(said(asked, " and more").bytes);
    [bytes, super::wire::LAST_CHUNK.to_vec()].concat()
}

fn bytes(frames: impl Iterator<Item = Frame>) -> Vec<u8> {
    frames.flat_map(|frame| frame.bytes).collect()
}
