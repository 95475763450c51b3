//! The forms in which a secret is recognised. Whoever wants to hide one can always invent another: these are the forms
//! that programs and models write without meaning harm, and the simplest ways around a mask.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::limits::SECRET_FORM_BYTES;

/// The value itself and its other forms: reversed, in base64 (at each of the three offsets), in hex, encoded as a part of
/// an address, and inside a JSON string. A short value has none: they would garble ordinary text.
pub(super) fn of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    if value.len() >= SECRET_FORM_BYTES {
        forms.push(value.chars().rev().collect());
        forms.extend((0..3).flat_map(|offset| base64(value, offset)));
        let hex: String = value.bytes().flat_map(digits).collect();
        forms.extend([hex.to_uppercase(), hex]);
        forms.extend(in_address(value));
        forms.extend(in_json(value));
        forms.retain(|form| form.len() >= SECRET_FORM_BYTES);
    }
    forms
}

/// The characters of base64 that depend on the value alone, if it begins `offset` bytes after a group of three.
fn base64(value: &str, offset: usize) -> [String; 2] {
    let bytes = [&[0; 2][..offset], value.as_bytes()].concat();
    // A character holds 6 bits; the first and the last may also hold bits of the bytes around the value.
    let whole = (offset * 8).div_ceil(6)..bytes.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)].map(|text| text[whole.clone()].to_owned())
}

/// The two hexadecimal digits of a byte.
fn digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default())
}

/// Percent-encoded, with either case of the digits.
fn in_address(value: &str) -> [String; 2] {
    let mut encoded = [String::new(), String::new()];
    for byte in value.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let escaped = digits(byte);
        for (text, escaped) in encoded.iter_mut().zip([escaped, escaped.map(|digit| digit.to_ascii_uppercase())]) {
            if is_plain { text.push(char::from(byte)) } else { text.extend(['%', escaped[0], escaped[1]]) }
        }
    }
    encoded
}

/// As the content of a JSON string, with and without an escaped slash.
fn in_json(value: &str) -> [String; 2] {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let content = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned();
    [content.replace('/', "\\/"), content]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one of the forms of the value is in the text.
    fn is_found(value: &str, text: &str) -> bool {
        of(value).iter().any(|form| text.contains(form.as_str()))
    }

    #[test]
    fn r50_a_secret_is_found_in_each_of_its_forms_wherever_it_stands() {
        let key = "sk-Ab/9+\"tide";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let whole = format!("{before}{key}{after}");
                let hex: String = whole.bytes().flat_map(digits).collect();
                for (what, text) in [
                    ("itself", whole.clone()),
                    ("reversed", whole.chars().rev().collect()),
                    ("base64", STANDARD_NO_PAD.encode(&whole)),
                    ("base64 for addresses", URL_SAFE_NO_PAD.encode(&whole)),
                    ("hex", hex.clone()),
                    ("HEX", hex.to_uppercase()),
                    ("JSON", serde_json::to_string(&whole).unwrap()),
                    ("JSON with slashes", serde_json::to_string(&whole).unwrap().replace('/', "\\/")),
                    ("an address", whole.replace('/', "%2F").replace('+', "%2B").replace('"', "%22")),
                    ("an address in lower case", whole.replace('/', "%2f").replace('+', "%2b").replace('"', "%22")),
                ] {
                    assert!(is_found(key, &text), "{what}: {text}");
                }
            }
        }
        assert!(!is_found(key, "sk-Ab/9+ tide") && !is_found(key, "c2st"));
    }

    #[test]
    fn r50_a_short_secret_has_no_other_form() {
        assert_eq!(of("secret"), ["secret"]);
        assert!(of("secret-8").contains(&"8-terces".to_owned()));
    }
}
