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

/// The template of a text, and its values as they are stored. Every row passes through here, so it goes from word to word:
/// a value is a word, or begins with one.
fn parted(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut template, mut values, mut last_id) = (Vec::with_capacity(text.len()), Vec::with_capacity(64), None);
    // What lies between `copied` and `at` belongs to the template as it is.
    let (mut at, mut copied) = (0, 0);
    while let Some(byte) = text.get(at) {
        let (mark, length) = if is_word(*byte) {
            let word = word_length(&text[at..]);
            let Some(value) = value_of(&text[at..], word, &mut values, &mut last_id) else {
                at += word;
                continue;
            };
            value
        } else if (ID..=TEXT).contains(byte) {
            return None;
        } else {
            at += 1;
            let Some(length) = text_at(text, at) else { continue };
            put_number(&mut values, length as u64);
            values.extend_from_slice(&text[at..at + length]);
            (TEXT, length)
        };
        template.extend_from_slice(&text[copied..at]);
        template.push(mark);
        at += length;
        copied = at;
        if mark != TEXT {
            // Inside a word no value begins.
            at += word_length(&text[at..]);
        }
    }
    template.extend_from_slice(&text[copied..]);
    Some((template, values))
}

/// The value that begins with this word, if one does: adds it to the values, and returns its byte and its length.
fn value_of(text: &[u8], word: usize, values: &mut Vec<u8>, last_id: &mut Option<Uuid>) -> Option<(u8, usize)> {
    /// What an id has before its first hyphen.
    const ID_START: usize = 8;
    if !text[0].is_ascii_digit() && !(b'a'..=b'f').contains(&text[0]) {
        return None;
    }
    if word == ID_START
        && let Some(id) = id_of(text)
    {
        let is_same = last_id.replace(id) == Some(id);
        values.extend_from_slice(if is_same { &[] } else { id.as_bytes() });
        return Some((if is_same { SAME_ID } else { ID }, ID_CHARS));
    }
    if word >= HASH_CHARS && put_hash(values, text) {
        return Some((HASH, HASH_CHARS));
    }
    let number = number_of(&text[..word])?;
    put_number(values, number);
    Some((NUMBER, word))
}

fn word_length(text: &[u8]) -> usize {
    text.iter().position(|byte| !is_word(*byte)).unwrap_or(text.len())
}

fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let (mut is, mut byte) = ([false; 256], 0);
        while byte < 256 {
            is[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
            byte += 1;
        }
        is
    };
    WORD[usize::from(byte)]
}

/// The length of a text that counts as a value and begins here, behind another byte. An id is one by itself.
fn text_at(text: &[u8], at: usize) -> Option<usize> {
    if text[at - 1] != b'"'
        || at < 2
        || text[at - 2] != b':'
        || !BEFORE_TEXT.iter().any(|before| text[..at].ends_with(before))
    {
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

/// The number that this word is, if it is written as the decoder writes it.
fn number_of(word: &[u8]) -> Option<u64> {
    let is_plain = (1..=DIGITS).contains(&word.len()) && (word[0] != b'0' || word.len() == 1);
    let is_number = is_plain && word.iter().all(u8::is_ascii_digit);
    is_number.then(|| word.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
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
