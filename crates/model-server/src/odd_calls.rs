//! Invalid calls, as models and the servers before them send them; [`super::odd`] has the answers that are abnormal in
//! another way.
//!
//! Their ids are those of the calls in the next normal answer, so every kind also tests repeated ids.

use serde_json::{Value, json};

use super::answer::Asked;
use super::wire::{Frame, LAST_CHUNK, STREAM_HEAD, chunked, delta};

/// The text before odd calls, which marks their round in a history. This round is no step of the script.
pub const ODD_CALLS: &str = "odd calls";

/// The maximum number of calls in one answer.
const MOST: usize = 128;

/// What is wrong with the calls of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddCalls {
    /// The arguments are truncated JSON.
    Broken,
    /// The arguments are JSON, but not an object.
    NoObject,
    /// An argument has a wrong type.
    Schema,
    /// The named tool does not exist.
    Unknown,
    /// A call has no id.
    NoId,
    /// Two calls have the same id.
    SameId,
    /// Two calls have the same index.
    SameIndex,
    /// The pieces of two calls' arguments alternate.
    Interleaved,
    /// A call names no tool.
    Nameless,
    /// The finish reason is `tool_calls`, but there is no call.
    NoCall,
    /// There are more calls than one answer may have.
    TooMany,
}

/// The expected outcome of such calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// This many calls get a result that says what is wrong with them; none is executed.
    Denied(usize),
    /// This many calls are distinguished and executed.
    Done(usize),
    /// The answer is invalid and is requested again.
    AskedAgain,
}

impl OddCalls {
    /// The expected outcome of these calls.
    pub fn expected(self) -> Expected {
        match self {
            Self::Broken | Self::NoObject | Self::Schema | Self::Unknown => Expected::Denied(1),
            Self::NoId => Expected::Done(1),
            Self::SameId | Self::SameIndex | Self::Interleaved => Expected::Done(2),
            Self::Nameless | Self::NoCall | Self::TooMany => Expected::AskedAgain,
        }
    }

    /// The elements of `tool_calls`, in the order of the stream.
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

/// The bytes of the answer, head included. Without a call it has no text either, because that would be a valid answer.
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
