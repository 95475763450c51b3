//! JSON whose names and words are those of a template is stored as the number of the template and the values.
//!
//! A template is JSON with a byte for each value (`docs/internals/format.md`). Every value is written in one way only, so
//! that putting the values back gives the text bit for bit.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

use uuid::Uuid;

/// The bytes for values: an id, a hash, a number, the last id once more, a text. JSON contains none of them.
const ID: u8 = 4;
const HASH: u8 = 5;
const NUMBER: u8 = 6;
const SAME_ID: u8 = 7;
const TEXT: u8 = 8;

/// The most digits of a number that counts as a value: it fits into 64 bits.
const DIGITS: usize = 18;
const ID_CHARS: usize = 36;
const HASH_CHARS: usize = 64;
/// What stands before a text that counts as a value.
const BEFORE_TEXT: [&[u8]; 5] =
    [b"\"model\":\"", b"\"tool\":\"", b"\"provider_id\":\"", b"\"workspace\":\"", b"\"key\":\""];

/// The templates of this program; `crates/journal/dictionaries/README.md` says how they were made.
pub(super) const OWN: &[u8] = include_bytes!("../../dictionaries/3-json.templates");

static OWN_LINES: LazyLock<Vec<&'static [u8]>> = LazyLock::new(|| lines(OWN).collect());
static NUMBERS: LazyLock<HashMap<&'static [u8], u64>> = LazyLock::new(|| lines(OWN).zip(0..).collect());

fn lines(templates: &[u8]) -> impl Iterator<Item = &[u8]> {
    templates.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// A text as values of a template of this program, after `first`; `None` if there is none for it.
pub(super) fn pack(first: u8, text: &str) -> Option<Vec<u8>> {
    let (template, values) = parted(text.as_bytes())?;
    let mut packed = Vec::with_capacity(2 + values.len());
    packed.push(first);
    put_number(&mut packed, *NUMBERS.get(&template[..])?);
    packed.extend(values);
    Some(packed)
}

/// The text of [`pack`], without its first byte; `None` if these are not values of one of the templates. `others` are not
/// those of this program.
pub(super) fn unpack(others: Option<&[u8]>, packed: &[u8]) -> Option<Vec<u8>> {
    let mut values = Values(packed);
    let number = usize::try_from(values.number()?).ok()?;
    let mut template = match others {
        Some(templates) => lines(templates).nth(number)?,
        None => OWN_LINES.get(number)?,
    };
    let (mut text, mut id) = (Vec::with_capacity(template.len() + 2 * packed.len()), None);
    while let Some(at) = template.iter().position(|byte| (ID..=TEXT).contains(byte)) {
        text.extend_from_slice(&template[..at]);
        match template[at] {
            ID => {
                let mut chars = Uuid::encode_buffer();
                Uuid::from_slice(values.take(16)?).ok()?.hyphenated().encode_lower(&mut chars);
                text.extend_from_slice(&chars[..ID_CHARS]);
                id = <[u8; ID_CHARS]>::try_from(&chars[..ID_CHARS]).ok();
            }
            SAME_ID => text.extend_from_slice(&id?),
            HASH => values.take(HASH_CHARS / 2)?.iter().for_each(|byte| text.extend_from_slice(&hex(*byte))),
            NUMBER => write!(text, "{}", values.number()?).ok()?,
            _ => {
                let length = usize::try_from(values.number()?).ok()?;
                text.extend_from_slice(values.take(length)?);
            }
        }
        template = &template[at + 1..];
    }
    text.extend_from_slice(template);
    values.0.is_empty().then_some(text)
}

/// The template of a text, and its values as they are stored.
fn parted(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut template, mut values, mut last_id) = (Vec::with_capacity(text.len()), Vec::new(), None);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if (ID..=TEXT).contains(byte) {
            return None;
        }
        let rest = &text[at..];
        let length = if at > 0 && is_word(text[at - 1]) {
            None
        } else if let Some(id) = id_of(rest) {
            template.push(if last_id == Some(id) { SAME_ID } else { ID });
            values.extend(if last_id == Some(id) { &[][..] } else { &id.as_bytes()[..] });
            last_id = Some(id);
            Some(ID_CHARS)
        } else if put_hash(&mut values, rest) {
            template.push(HASH);
            Some(HASH_CHARS)
        } else if let Some((number, digits)) = number_of(rest) {
            template.push(NUMBER);
            put_number(&mut values, number);
            Some(digits)
        } else {
            None
        };
        if let Some(length) = length {
            at += length;
            continue;
        }
        if is_word(*byte) {
            // Inside a word no value begins.
            let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
            template.extend_from_slice(&rest[..length]);
            at += length;
            continue;
        }
        template.push(*byte);
        at += 1;
        if let Some(length) = text_at(text, at) {
            template.push(TEXT);
            put_number(&mut values, length as u64);
            values.extend(&text[at..at + length]);
            at += length;
        }
    }
    Some((template, values))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a text that counts as a value and begins here, behind another byte. An id is one by itself.
fn text_at(text: &[u8], at: usize) -> Option<usize> {
    if text[at - 1] != b'"' || !BEFORE_TEXT.iter().any(|before| text[..at].ends_with(before)) {
        return None;
    }
    let rest = &text[at..];
    let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let is_id = length == ID_CHARS && id_of(rest).is_some();
    (rest[length] == b'"' && !is_id).then_some(length)
}

fn id_of(text: &[u8]) -> Option<Uuid> {
    let chars = text.get(..ID_CHARS).filter(|chars| chars[8] == b'-' && chars[13] == b'-')?;
    let id = Uuid::try_parse_ascii(chars).ok()?;
    (*id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes() == *chars).then_some(id)
}

/// Adds the hash that begins here, if one does.
fn put_hash(values: &mut Vec<u8>, text: &[u8]) -> bool {
    let digit = |char: u8| match char {
        b'0'..=b'9' => Some(char - b'0'),
        b'a'..=b'f' => Some(char - b'a' + 10),
        _ => None,
    };
    let Some(chars) = text.get(..HASH_CHARS).filter(|chars| chars.iter().all(|char| digit(*char).is_some())) else {
        return false;
    };
    values.extend(chars.chunks_exact(2).filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)));
    true
}

/// A number and how many digits it has, if it is written as the decoder writes it.
fn number_of(text: &[u8]) -> Option<(u64, usize)> {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let is_plain = (1..=DIGITS).contains(&digits) && (text[0] != b'0' || digits == 1);
    let is_alone = text.get(digits).is_none_or(|byte| !is_word(*byte));
    let value = || text[..digits].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    (is_plain && is_alone).then(|| (value(), digits))
}

fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Seven bits a byte, the low ones first; all but the last byte have the high bit.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Stored values that are not read yet.
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u8 = 11;

    /// A text like the template `number`, with values that vary by `by`.
    fn text_of(template: &[u8], by: u64) -> String {
        let (mut text, mut ids) = (String::new(), 0);
        for byte in template {
            match *byte {
                ID | SAME_ID => {
                    ids += u128::from(*byte == ID);
                    text += &Uuid::from_u128(u128::from(by) << 70 | ids).to_string();
                }
                HASH => text += &"0123456789abcdef".repeat(4).replace('7', &(by % 10).to_string()),
                NUMBER => text += &(by * by * 9973).to_string(),
                TEXT => text += ["", "acme/large", "钥匙 🦀", "a\u{1}b", "12"][by as usize % 5],
                byte => text.push(char::from(byte)),
            }
        }
        text
    }

    #[test]
    fn r10_every_template_gives_its_text_back() {
        for (number, template) in lines(OWN).enumerate() {
            for by in [0, 1, 2, 3, 4, 5, 99, 900_719] {
                let text = text_of(template, by);
                let packed = pack(FIRST, &text).unwrap_or_else(|| panic!("template {number} has no text {text}"));
                assert_eq!(packed[0], FIRST);
                assert_eq!(unpack(None, &packed[1..]).as_deref(), Some(text.as_bytes()), "{number}");
                assert!(
                    packed.len() * 2 < text.len() || text.len() < 16,
                    "{number}: {} of {}",
                    packed.len(),
                    text.len()
                );
            }
        }
    }

    #[test]
    fn r10_what_is_written_in_another_way_is_no_value() {
        let id = Uuid::from_u128(u128::MAX).to_string();
        let text = |id: &str| format!(r#"{{"messages":["{id}"]}}"#);
        assert!(pack(FIRST, &text(&id)).is_some());
        let mut others =
            vec![id.to_uppercase(), format!("{{{id}}}"), id.replace('-', ""), format!("a{id}"), "\u{4}".into()];
        others.extend([&id[1..], &format!("{id} "), ""].map(str::to_owned));
        for other in others {
            assert_eq!(pack(FIRST, &text(&other)), None, "{other}");
        }
        let text = |number: &str| format!(r#"{{"epoch":{number}}}"#);
        assert!(pack(FIRST, &text("0")).is_some() && pack(FIRST, &text("999999999999999999")).is_some());
        for other in
            ["00", "07", "-1", "1.5", "1e3", "9999999999999999999", "18446744073709551616", "null", "\"1\"", ""]
        {
            assert_eq!(pack(FIRST, &text(other)), None, "{other}");
        }
    }

    #[test]
    fn r18_bytes_that_are_no_values_are_refused() {
        let text = r#"{"epoch":300}"#;
        let packed = pack(FIRST, text).unwrap();
        let [_, number, ..] = packed[..] else { panic!() };
        for wrong in [
            &[][..],
            &[number],
            &[number, 0x80],
            &[number, 1, 1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x7f, 1],
        ] {
            assert_eq!(unpack(None, wrong), None, "{wrong:x?}");
        }
        assert_eq!(unpack(Some(b""), &packed[1..]), None);
        // A template of somebody else that repeats an id before there is one.
        assert_eq!(unpack(Some(b"{\"a\":\x07}\n"), &[0]), None);
    }
}
