//! Calls that are not in order, as models and the servers before them ask for them. What may not live here: how a whole
//! answer is odd ([`super::odd`]).
//!
//! The ids are those that the next answer in order gives its own calls: so each kind is also one whose ids come again.

use serde_json::{Value, json};

use super::answer::Asked;
use super::wire::{Frame, LAST_CHUNK, STREAM_HEAD, chunked, delta};

/// What is said before odd calls: by it their round is known in a history. It is no step of the script.
pub const ODD_CALLS: &str = "odd calls";

/// Calls that one answer may ask for; one more is too many.
const MOST: usize = 128;

/// What is not in order about the calls of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddCalls {
    /// The arguments end in the middle.
    Broken,
    /// The arguments are JSON and no object.
    NoObject,
    /// An argument is of another type than the tool takes.
    Schema,
    /// There is no such tool.
    Unknown,
    /// A call has no id.
    NoId,
    /// Two calls have one id.
    SameId,
    /// Two calls have one index.
    SameIndex,
    /// The arguments of two calls come in turns.
    Interleaved,
    /// A call has no tool.
    Nameless,
    /// It says that it asks for calls, and there is none.
    NoCall,
    /// There are more calls than a message may have.
    TooMany,
}

/// What is to become of such calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// So many calls are answered with what is wrong about them; none runs.
    Denied(usize),
    /// So many calls can be told apart, and run.
    Done(usize),
    /// The answer is none, and is asked for again.
    AskedAgain,
}

impl OddCalls {
    /// What is to become of them.
    pub fn meant(self) -> Meant {
        match self {
            Self::Broken | Self::NoObject | Self::Schema | Self::Unknown => Meant::Denied(1),
            Self::NoId => Meant::Done(1),
            Self::SameId | Self::SameIndex | Self::Interleaved => Meant::Done(2),
            Self::Nameless | Self::NoCall | Self::TooMany => Meant::AskedAgain,
        }
    }

    /// The pieces of calls, in order, as they stand in `tool_calls`.
    fn pieces(self, id: &str) -> Vec<Value> {
        let here = r#"{"path":"."}"#;
        let other = format!("{id}b");
        let call = |index: usize, id: &str, tool: &str, arguments: &str| json!({ "index": index, "id": id, "type": "function", "function": { "name": tool, "arguments": arguments } });
        let more = |index: usize| json!({ "index": index, "function": { "arguments": &here[4..] } });
        match self {
            Self::Broken => vec![call(0, id, "ls", r#"{"path":"#)],
            Self::NoObject => vec![call(0, id, "ls", r#"["."]"#)],
            Self::Schema => vec![call(0, id, "ls", r#"{"path":{"to":7}}"#)],
            Self::Unknown => vec![call(0, id, "no_such_tool", here)],
            Self::NoId => vec![json!({ "index": 0, "function": { "name": "ls", "arguments": here } })],
            Self::SameId => vec![call(0, id, "ls", here), call(1, id, "ls", here)],
            Self::SameIndex => vec![call(0, id, "ls", here), call(0, &other, "ls", here)],
            Self::Interleaved => {
                vec![call(0, id, "ls", &here[..4]), call(1, &other, "ls", &here[..4]), more(0), more(1)]
            }
            Self::Nameless => vec![json!({ "index": 0, "id": id, "function": { "arguments": here } })],
            Self::NoCall => vec![],
            Self::TooMany => (0..=MOST).map(|at| call(at, &format!("{id}_{at}"), "ls", here)).collect(),
        }
    }
}

/// The bytes that go out, from the head on. Where no call is asked for, no text is said that could stand for an answer.
pub(super) fn answer(asked: &Asked, odd: OddCalls) -> Vec<u8> {
    let mut frames: Vec<Frame> = vec![];
    if odd != OddCalls::NoCall {
        frames.push(delta(asked, &json!({ "role": "assistant", "content": ODD_CALLS }), None));
    }
    let pieces = odd.pieces(&asked.call_id);
    frames.extend(pieces.into_iter().map(|piece| delta(asked, &json!({ "tool_calls": [piece] }), None)));
    frames.push(delta(asked, &json!({}), Some("tool_calls")));
    frames.push(chunked(b"data: [DONE]\n\n"));
    let frames = frames.iter().flat_map(Frame::bytes);
    STREAM_HEAD.iter().copied().chain(frames).chain(LAST_CHUNK.iter().copied()).collect()
}
