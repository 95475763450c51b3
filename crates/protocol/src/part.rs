//! Texts that make a frame longer than it may be: escaped, a text has up to six times its bytes. They travel in pieces
//! before the frame, which then has a mark in their place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::limits::{JOINED_BYTES, PART_BYTES};
use crate::notice::Part;

/// Takes the long texts out of a payload. Returns their pieces in order.
pub fn split(payload: &mut Value) -> Vec<Part> {
    let mut parts = vec![];
    take(payload, &mut String::new(), &mut parts);
    parts
}

fn take(value: &mut Value, at: &mut String, parts: &mut Vec<Part>) {
    let before = at.len();
    match value {
        Value::String(text) if text.len() > PART_BYTES => {
            let mark = format!("[{} bytes, in the parts before this frame]", text.len());
            let text = std::mem::replace(text, mark);
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
                parts.push(Part { at: at.clone(), text: piece.to_owned() });
                rest = behind;
            }
        }
        Value::Array(values) => {
            for (nth, value) in values.iter_mut().enumerate() {
                // Writing to a String cannot fail.
                let _ = write!(at, "/{nth}");
                take(value, at, parts);
                at.truncate(before);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                take(value, at, parts);
                at.truncate(before);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gathers the pieces that have come since the last whole frame.
#[derive(Debug, Default)]
pub struct Parts {
    /// The texts, by their places.
    texts: BTreeMap<String, String>,
    bytes: usize,
}

/// The texts before one frame have more than [`JOINED_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuch;

impl Parts {
    /// Adds a piece.
    pub fn add(&mut self, part: Part) -> Result<(), TooMuch> {
        self.bytes += part.at.len() + part.text.len();
        if self.bytes > JOINED_BYTES {
            return Err(TooMuch);
        }
        self.texts.entry(part.at).or_default().push_str(&part.text);
        Ok(())
    }

    /// Puts the texts into the payload of the frame that they came before.
    pub fn join(&mut self, payload: &mut Value) {
        self.bytes = 0;
        for (at, text) in std::mem::take(&mut self.texts) {
            if let Some(place) = payload.pointer_mut(&at) {
                *place = Value::String(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// R43: whatever a payload looks like, it comes out as it went in, and no piece of it is longer than a frame.
    #[test]
    fn r43_a_payload_in_parts_is_joined_as_it_was() {
        for unit in ["\u{1}", "\"\n", "x", "好", "a\u{10ffff}"] {
            let (long, short) = (unit.repeat(3 * PART_BYTES / unit.len() + 1), unit.repeat(9));
            let whole = json!({
                "text": long, "short": short, "/~": { "a/b": [short, { "~1": long }] }, "list": [long, null, 1, true],
            });
            let mut payload = whole.clone();
            let parts = split(&mut payload);
            assert_eq!(parts.len(), 3 * 4, "{unit:?}");
            assert!(parts.iter().all(|part| part.text.len() <= PART_BYTES));
            assert!(
                payload["text"].as_str().is_some_and(|mark| mark.contains("in the parts")) && payload["short"] == short
            );
            let mut joining = Parts::default();
            for part in parts {
                joining.add(part).unwrap();
            }
            joining.join(&mut payload);
            assert_eq!(payload, whole, "{unit:?}");
            joining.join(&mut payload);
            assert_eq!(payload, whole, "nothing is left for the next frame");
        }
    }

    #[test]
    fn r43_parts_of_more_than_any_answer_are_refused() {
        let mut parts = Parts::default();
        let text = "x".repeat(JOINED_BYTES / 4);
        let part = || Part { at: "/text".to_owned(), text: text.clone() };
        let added: Vec<bool> = (0..5).map(|_| parts.add(part()).is_ok()).collect();
        assert_eq!(added, [true, true, true, false, false]);
    }
}
