//! Checks of JSON that the rules of several providers share.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The items of a list; none where there is no list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the value has this `type`.
pub(super) fn is(value: &Value, kind: &str) -> bool {
    value["type"] == kind
}

/// Letters, digits, `_` and `-`, from one to `most` of them.
pub(super) fn is_plain(text: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=most).contains(&text.len()) && text.chars().all(plain)
}

pub(super) fn are_unique<'a>(texts: impl IntoIterator<Item = &'a str>) -> bool {
    let mut seen = HashSet::new();
    texts.into_iter().all(|text| seen.insert(text))
}

/// Whether both contain the same texts, each the same number of times.
pub(super) fn are_the_same<'a>(one: impl Iterator<Item = &'a str>, other: impl Iterator<Item = &'a str>) -> bool {
    let (mut one, mut other): (Vec<_>, Vec<_>) = (one.collect(), other.collect());
    one.sort_unstable();
    other.sort_unstable();
    one == other
}

pub(super) fn is_base64(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && STANDARD.decode(text).is_ok())
}

/// Whether it is a `data:` address of one of these media types.
pub(super) fn is_data_url(value: &Value, media_types: &[&str]) -> bool {
    let parted = text(value).strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    parted.is_some_and(|(media_type, data)| media_types.contains(&media_type) && is_base64(&data.into()))
}

/// Whether it is the text of a JSON object.
pub(super) fn is_object_text(value: &Value) -> bool {
    serde_json::from_str::<Value>(text(value)).is_ok_and(|value| value.is_object())
}
