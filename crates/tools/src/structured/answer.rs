//! The JSON value in the text of an answer.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The least length of a code fence.
const FENCE: usize = 3;

/// The text of the value that an answer is, and the value. An answer is a value alone, or has one code fence with a value in it.
pub(super) fn value_in(answer: &str) -> Result<(&str, Value), String> {
    let whole = answer.trim();
    let error = match parsed(whole) {
        Ok(value) => return Ok((whole, value)),
        Err(error) => error,
    };
    let mut found = fenced(whole).into_iter().filter_map(|text| Some((text, parsed(text).ok()?)));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err("it has more than one code block with JSON".to_owned()),
        (None, _) => Err(format!("it is not JSON ({error})")),
    }
}

/// A value of which two programs cannot read two: no key comes twice.
pub(super) fn parsed(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Unambiguous>(text)?;
    serde_json::from_str(text)
}

/// The insides of the code blocks that may be JSON, in order: fences of backticks or tildes, with the word `json` or none.
fn fenced(text: &str) -> Vec<&str> {
    let (mut found, mut open) = (vec![], None::<(&str, usize, bool)>);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if let Some((fence, from, is_json)) = open {
            // Models put the fence behind the last brace as well.
            if let Some(before) = line.trim_end().strip_suffix(fence) {
                let before = before.trim_end_matches(|c| fence.starts_with(c));
                found.extend(is_json.then(|| text[from..begin + before.len()].trim()));
                open = None;
            }
            continue;
        }
        let shown = line.trim();
        let Some(fence) = fence_of(shown) else { continue };
        let (is_json, rest) = without_word(&shown[fence.len()..]);
        if let Some(inside) = rest.strip_suffix(fence) {
            found.extend(is_json.then(|| inside.trim()));
        } else if !rest.contains(fence) {
            // What stands behind the word belongs to the inside.
            open = Some((fence, begin + offset_in(line, rest), is_json));
        }
    }
    found
}

/// Where a part of a line begins in it.
fn offset_in(line: &str, part: &str) -> usize {
    line.find(part).filter(|_| !part.is_empty()).unwrap_or(line.len())
}

/// The fence with which a line begins.
fn fence_of(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= FENCE).then(|| &line[..length])
}

/// Whether the block that begins so may be JSON, and what stands behind that word.
fn without_word(info: &str) -> (bool, &str) {
    let info = info.trim();
    match info.get(..4) {
        Some(word) if word.eq_ignore_ascii_case("json") && !info[4..].starts_with(|c: char| c.is_alphanumeric()) => {
            (true, info[4..].trim_start())
        }
        _ => (!info.starts_with(|c: char| c.is_alphanumeric()) || info.parse::<f64>().is_ok(), info),
    }
}

/// A JSON text without the white space between its parts. Each part stays as it is written.
pub(super) fn on_one_line(json: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_part = |c: &char| {
        let is_space = !is_string && c.is_ascii_whitespace();
        match c {
            '"' if !is_escaped => is_string = !is_string,
            _ => {}
        }
        is_escaped = is_string && *c == '\\' && !is_escaped;
        !is_space
    };
    json.chars().filter(is_part).collect()
}

/// Any JSON in which no object has a key twice.
struct Unambiguous;

struct AnyPart;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyPart)
    }
}

impl<'de> Visitor<'de> for AnyPart {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unambiguous, A::Error> {
        while items.next_element::<Unambiguous>()?.is_some() {}
        Ok(Unambiguous)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unambiguous, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("an object has {key:?} twice")));
            }
            keys.insert(key);
            members.next_value::<Unambiguous>()?;
        }
        Ok(Unambiguous)
    }
}
