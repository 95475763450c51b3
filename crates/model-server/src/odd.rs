//! Abnormal answers, as providers and the proxies before them send them.

use serde_json::json;

use super::answer::Asked;
use super::fault::Odd;
use super::odd_calls;
use super::wire::{Frame, LAST_CHUNK, STREAM_HEAD, chunked, frames, text_frame};

/// The path prefix that a redirect leads to: a client that requests it followed one.
pub(super) const ELSEWHERE: &str = "/elsewhere/";

/// Bytes of a line that is longer than any client accepts.
const GIANT_BYTES: usize = 13 << 20;

/// What happens to the connection after all bytes of an answer were sent.
pub(super) enum Then {
    Close,
    Reset,
    /// It stays open for the next request.
    Keep,
    /// It stays open, and nothing more is sent.
    Wait,
    /// This is sent again and again.
    Repeat(Vec<u8>),
}

/// The bytes of the answer, head included, and what happens then.
pub(super) fn answer(asked: &Asked, odd: Odd) -> (Vec<u8>, Then) {
    let ping = || Then::Repeat(chunked(b": ping\n\n").bytes());
    let then = match odd {
        Odd::Reset => Then::Reset,
        Odd::Twice | Odd::Redirect => Then::Keep,
        Odd::Head => Then::Wait,
        Odd::Pings | Odd::WordPings => ping(),
        Odd::Trickle => Then::Repeat(chunked(b"x").bytes()),
        _ => Then::Close,
    };
    (bytes(asked, odd), then)
}

fn bytes(asked: &Asked, odd: Odd) -> Vec<u8> {
    let page = "<!doctype html><title>Sign in</title><p>Sign in to use this network.";
    match odd {
        Odd::Html => whole("text/html", page),
        Odd::Json => {
            let choices = json!([{ "index": 0, "message": { "role": "assistant", "content": "not a stream" } }]);
            whole("application/json", &json!({ "choices": choices }).to_string())
        }
        Odd::Redirect => {
            format!("HTTP/1.1 302 Found\r\nlocation: {ELSEWHERE}chat/completions\r\ncontent-length: 0\r\n\r\n")
                .into_bytes()
        }
        Odd::Twice => [in_order(asked), in_order(asked)].concat(),
        Odd::Late => in_order(asked),
        Odd::Headers | Odd::Head | Odd::Pings => STREAM_HEAD.to_vec(),
        Odd::Trickle => streamed(&[chunked(b"data: ")]),
        Odd::WordPings | Odd::Reset => streamed(&[text_frame(asked, "word0")]),
        Odd::CutFrame => {
            let mut bytes = streamed(&[text_frame(asked, "word0"), text_frame(asked, " word1")]);
            bytes.truncate(bytes.len() - text_frame(asked, " word1").data.len() / 2);
            bytes
        }
        Odd::ErrorEvent => {
            let error = json!({ "error": { "message": "the server had an error", "type": "server_error" } });
            begun(asked, format!("data: {error}\n\n").as_bytes())
        }
        Odd::BrokenFrame => begun(asked, b"data: {\"choices\":[{\"index\":0,\"del\n\n"),
        Odd::BadUtf8 => begun(asked, b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n"),
        Odd::GiantLine => begun(asked, &[b"data: ".as_slice(), &vec![b'x'; GIANT_BYTES]].concat()),
        Odd::GzipCut => gzip_cut(asked),
        Odd::NoEnd => streamed(&frames(asked).into_iter().take_while(|frame| !frame.is_end).collect::<Vec<_>>()),
        Odd::NoBlank => no_blank(asked),
        Odd::SplitUtf8 => {
            let data: Vec<u8> = frames(asked).into_iter().flat_map(|frame| frame.data).collect();
            ended(&data.iter().map(|byte| chunked(&[*byte])).collect::<Vec<_>>())
        }
        Odd::CrEnds => {
            let cr = |frame: Frame| chunked(&frame.data.into_iter().map(with_cr).collect::<Vec<_>>());
            ended(&frames(asked).into_iter().map(cr).collect::<Vec<_>>())
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

/// The head and these frames, without the end of the body.
fn streamed(frames: &[Frame]) -> Vec<u8> {
    STREAM_HEAD.iter().copied().chain(frames.iter().flat_map(Frame::bytes)).collect()
}

/// The head and these frames, with the end of the body.
fn ended(frames: &[Frame]) -> Vec<u8> {
    [streamed(frames), LAST_CHUNK.to_vec()].concat()
}

fn in_order(asked: &Asked) -> Vec<u8> {
    ended(&frames(asked))
}

/// A piece of text, then these bytes.
fn begun(asked: &Asked, then: &[u8]) -> Vec<u8> {
    streamed(&[text_frame(asked, "word0"), chunked(then)])
}

fn with_cr(byte: u8) -> u8 {
    if byte == b'\n' { b'\r' } else { byte }
}

/// The answer in gzip's format, as one stored block, without its last bytes and its checksum.
fn gzip_cut(asked: &Asked) -> Vec<u8> {
    let mut data: Vec<u8> = frames(asked).into_iter().flat_map(|frame| frame.data).collect();
    // The maximum length of a stored block.
    data.truncate(usize::from(u16::MAX));
    let length = data.len() as u16;
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
            .to_vec();
    bytes.extend_from_slice(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x01");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(!length).to_le_bytes());
    bytes.extend_from_slice(&data[..data.len() / 2]);
    bytes
}

/// The answer up to its finish reason, whose frame ends with one newline instead of two.
fn no_blank(asked: &Asked) -> Vec<u8> {
    let mut frames = frames(asked);
    let last = frames.iter().position(|frame| frame.is_end).map_or(0, |at| at + 1);
    frames.truncate(last);
    if let Some(end) = frames.last_mut() {
        end.data.pop();
    }
    ended(&frames)
}

/// The whole answer among everything that the standard allows around its events.
fn noise(asked: &Asked) -> Vec<u8> {
    let mut around = vec![chunked(b"\xef\xbb\xbf: a comment\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n")];
    for frame in frames(asked) {
        around.push(chunked(b": still here\r\n\r\n"));
        around.push(frame);
    }
    around.push(text_frame(asked, " and more"));
    ended(&around)
}
