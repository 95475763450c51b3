//! Text from outside (a model, a tool, a page, a provider, a file name, an argument) for a terminal. What a terminal would
//! obey, and what changes or hides how a text reads, becomes its escape in JSON's notation: `\u001b`. So the escape of a
//! string in a JSON document means the same string.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What no terminal gets as it is, beside control characters: ranges with both ends. Characters that reorder text, that
/// are invisible, or that end a line for some programs.
const UNSAFE: [(u32, u32); 20] = [
    (0x00AD, 0x00AD),   // soft hyphen
    (0x034F, 0x034F),   // combining grapheme joiner
    (0x061C, 0x061C),   // Arabic letter mark: direction
    (0x115F, 0x1160),   // fillers that look like blanks
    (0x17B4, 0x17B5),   // invisible vowels
    (0x180B, 0x180F),   // Mongolian separators
    (0x200B, 0x200F),   // zero width, and direction
    (0x2028, 0x202E),   // separators of lines, and direction
    (0x2060, 0x206F),   // invisible operators, and direction
    (0x3164, 0x3164),   // a filler
    (0xFE00, 0xFE0F),   // variation selectors
    (0xFEFF, 0xFEFF),   // byte order mark
    (0xFFA0, 0xFFA0),   // a filler
    (0xFFF0, 0xFFFB),   // annotations
    (0x110BD, 0x110BD), // format characters of scripts and notations
    (0x110CD, 0x110CD),
    (0x13430, 0x1345F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF), // tags and variation selectors: a hidden alphabet
];

/// Joins emoji into one, such as a family.
const JOINER: char = '\u{200D}';
/// Asks for a text or an emoji of the character before it.
const SELECTORS: [char; 2] = ['\u{FE0E}', '\u{FE0F}'];

/// Whether a terminal must not get this character as it is. A newline and a tab are safe.
pub fn is_unsafe(c: char) -> bool {
    // Most text is decided here.
    if (' '..='~').contains(&c) || c == '\n' || c == '\t' {
        return false;
    }
    let code = c as u32;
    c.is_control() || UNSAFE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Adds the escape of a character.
fn escape(c: char, to: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(to, "\\u{unit:04x}");
    }
}

/// A text without anything that a terminal would obey or that hides how it reads. Newlines and tabs stay; the two characters
/// of a line end from elsewhere are a newline.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            c if is_unsafe(c) => escape(c, &mut shown),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The same on one line: newlines and tabs are escaped too.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\t', '\r']) {
        return printable(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            c if is_unsafe(c) => escape(c, &mut shown),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// An answer on its way to a terminal, in parts that may end anywhere. Joined emoji stay as they are, because nothing else
/// can be hidden between two of them.
#[derive(Debug, Default)]
pub struct AnswerText {
    /// The character before the one that is held.
    before: Option<char>,
    /// A character whose successor decides what becomes of it.
    held: Option<char>,
}

/// A part of an answer that a terminal may get as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintableAnswer(String);

impl PrintableAnswer {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AnswerText {
    /// Adds a part; returns what can be shown by now.
    pub fn push(&mut self, part: &str) -> PrintableAnswer {
        let mut shown = String::with_capacity(part.len() + 8);
        for c in part.chars() {
            self.settle(Some(c), &mut shown);
            if c == '\r' || c == JOINER {
                self.held = Some(c);
                continue;
            }
            let is_selector = SELECTORS.contains(&c) && self.before.is_some_and(takes_selector);
            if is_unsafe(c) && !is_selector {
                escape(c, &mut shown);
                self.before = None;
            } else {
                shown.push(c);
                self.before = Some(c);
            }
        }
        PrintableAnswer(shown)
    }

    /// The answer ends, or is interrupted: returns what was held.
    pub fn finish(&mut self) -> PrintableAnswer {
        let mut shown = String::new();
        self.settle(None, &mut shown);
        self.before = None;
        PrintableAnswer(shown)
    }

    /// Shows the held character before its successor.
    fn settle(&mut self, next: Option<char>, shown: &mut String) {
        match (self.held.take(), next) {
            (None, _) | (Some('\r'), Some('\n')) => {}
            (Some(JOINER), Some(next)) if self.before.is_some_and(joins) && is_emoji(next) => shown.push(JOINER),
            (Some(held), _) => {
                escape(held, shown);
                self.before = None;
            }
        }
    }
}

/// Characters of which most are emoji and none is a letter of a script.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{2600}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}'
        | '\u{1F000}'..='\u{1FAFF}')
}

fn joins(c: char) -> bool {
    is_emoji(c) || SELECTORS.contains(&c)
}

/// What an emoji can be made of.
fn takes_selector(c: char) -> bool {
    is_emoji(c) || matches!(c, '#' | '*' | '0'..='9' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_what_a_terminal_obeys_is_escaped() {
        let check = |text: &str, shown: &str| assert_eq!(printable(text), shown, "{text:?}");
        check("plain ü好 🦀\n\tx", "plain ü好 🦀\n\tx");
        check("\u{1b}]52;c;aGk=\u{7}", r"\u001b]52;c;aGk=\u0007");
        check("\u{9b}2J\u{9d}0;x\u{9c}\u{7f}\u{0}", r"\u009b2J\u009d0;x\u009c\u007f\u0000");
        check("a\r\nb\rc\u{8}", "a\nb\\u000dc\\u0008");
        check("\u{202e}gpj\u{2066}\u{200b}\u{feff}\u{ad}\u{61c}", r"\u202egpj\u2066\u200b\ufeff\u00ad\u061c");
        check("\u{2028}\u{2029}\u{85}", r"\u2028\u2029\u0085");
        check("a\u{e0041}\u{e0100}", r"a\udb40\udc41\udb40\udd00");
        assert_eq!(printable_line("a\nb\tc\r\n\u{1b}"), r"a\nb\tc\r\n\u001b");
    }

    #[test]
    fn r09_an_escape_in_json_means_the_same_string() {
        let text = "\u{9b}x\u{7f}\u{202e}\u{e0041}\u{200d}\n";
        let json = serde_json::to_string(text).unwrap();
        let shown = printable(&json);
        assert!(shown.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn r09_an_answer_keeps_its_emoji_however_it_is_cut() {
        let check = |text: &str, shown: &str| {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            for cut in ends {
                let mut answer = AnswerText::default();
                let parts = [&text[..cut], &text[cut..]].map(|part| answer.push(part).0);
                assert_eq!(parts.concat() + answer.finish().as_str(), shown, "{text:?} cut at {cut}");
            }
        };
        check(
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
        );
        check("a\u{200d}b\u{200d}", r"a\u200db\u200d");
        check("👩\u{200d}b \u{200d}👩", r"👩\u200db \u200d👩");
        check("x\u{fe0f}👩\u{fe0f}\u{fe0f}", "x\\ufe0f👩\u{fe0f}\\ufe0f");
        check("a\r\nb\r", "a\nb\\u000d");
        check("\u{1b}[2J\u{9b}1A", r"\u001b[2J\u009b1A");
    }
}
