//! The line that is typed during a run: the keys of a terminal, and what they make of the line. It does no I/O.

use unicode_width::UnicodeWidthChar as _;
use vte::{Params, Parser, Perform};

/// Bytes of one message that is typed or pasted. What is longer belongs into a file.
const MOST_BYTES: usize = 64 << 10;

/// What stands between the parts of an emoji.
const JOINER: char = '\u{200D}';

/// The line that is typed.
#[derive(Default)]
pub(crate) struct Line {
    parser: Parser,
    edited: Edited,
    /// Whether the last byte was Escape: the key, or the beginning of a sequence whose rest comes at once.
    has_escape: bool,
}

/// The state of the line.
#[derive(Debug, Default)]
struct Edited {
    before: String,
    after: String,
    /// Whether what comes is pasted: a newline in it is a part of the text.
    is_pasting: bool,
    /// Whether some of it had no space.
    is_cut: bool,
    /// The lines that were ended with Enter.
    entered: Vec<Entered>,
}

/// A line that was ended with Enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    Line(String),
    /// It is longer than a message that is typed may be, and its end is lost.
    TooLong,
}

impl Line {
    /// Takes in what the terminal gave; returns the lines that were ended with Enter.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Entered> {
        if std::mem::take(&mut self.has_escape) {
            self.parser.advance(&mut self.edited, b"\x1b");
        }
        let bytes = bytes.strip_suffix(b"\x1b").inspect(|_| self.has_escape = true).unwrap_or(bytes);
        // Alt with one of these keys: to the parser they begin a text for the terminal, which would take all keys.
        let is_alt = |bytes: &[u8]| matches!(bytes, [.., 0x1b, b']' | b'P' | b'X' | b'^' | b'_']);
        let bytes = if is_alt(bytes) { &bytes[..bytes.len() - 2] } else { bytes };
        // The arrows of another mode.
        let mut rest = bytes;
        while let Some(at) = rest.windows(2).position(|two| two == b"\x1bO") {
            self.parser.advance(&mut self.edited, &rest[..at]);
            self.parser.advance(&mut self.edited, b"\x1b[");
            rest = &rest[at + 2..];
        }
        self.parser.advance(&mut self.edited, rest);
        std::mem::take(&mut self.edited.entered)
    }

    /// Whether a paste is under way.
    pub(crate) fn is_pasting(&self) -> bool {
        self.edited.is_pasting
    }

    /// Others get what is typed next: a key or a paste that has begun is not continued.
    pub(crate) fn pause(&mut self) {
        (self.parser, self.has_escape, self.edited.is_pasting) = (Parser::new(), false, false);
    }

    /// Whether it is not known yet if the last byte was the key Escape.
    pub(crate) fn has_escape(&self) -> bool {
        self.has_escape
    }

    /// It was the key, which clears the line: nothing followed.
    pub(crate) fn escape(&mut self) {
        if self.has_escape && !self.edited.is_pasting {
            *self = Self::default();
        }
    }

    /// The text before and after the cursor.
    pub(crate) fn text(&self) -> (&str, &str) {
        (&self.edited.before, &self.edited.after)
    }

    /// Whether it holds no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.edited.before.is_empty() && self.edited.after.is_empty()
    }

    /// Its text; it is empty afterwards.
    pub(crate) fn take(&mut self) -> String {
        let Edited { before, after, .. } = std::mem::take(&mut self.edited);
        before + &after
    }
}

impl Edited {
    fn insert(&mut self, c: char) {
        if self.before.len() + self.after.len() + c.len_utf8() <= MOST_BYTES {
            self.before.push(c);
        } else {
            self.is_cut = true;
        }
    }

    fn enter(&mut self) {
        if self.is_pasting {
            return self.insert('\n');
        }
        let line = std::mem::take(&mut self.before) + &std::mem::take(&mut self.after);
        if std::mem::take(&mut self.is_cut) {
            self.entered.push(Entered::TooLong);
        } else if !line.trim().is_empty() {
            self.entered.push(Entered::Line(line));
        }
    }

    /// Moves what a person sees as one character from before the cursor; returns it.
    fn pop_before(&mut self) -> String {
        let mut popped = vec![];
        while let Some(c) = self.before.pop() {
            popped.push(c);
            let is_part = is_part(c) || self.before.ends_with(JOINER);
            if !is_part {
                break;
            }
        }
        popped.iter().rev().collect()
    }

    /// The bytes of what a person sees as one character after the cursor.
    fn next_after(&self) -> usize {
        let mut was_joiner = false;
        for (at, c) in self.after.char_indices() {
            if at > 0 && !is_part(c) && !was_joiner {
                return at;
            }
            was_joiner = c == JOINER;
        }
        self.after.len()
    }

    fn left(&mut self) {
        let moved = self.pop_before();
        self.after.insert_str(0, &moved);
    }

    fn right(&mut self) {
        let moved: String = self.after.drain(..self.next_after()).collect();
        self.before += &moved;
    }

    fn home(&mut self) {
        self.after = std::mem::take(&mut self.before) + &self.after;
    }

    fn end(&mut self) {
        self.before += &std::mem::take(&mut self.after);
    }

    fn delete_word(&mut self) {
        let kept = self.before.trim_end();
        let kept =
            kept.rfind(char::is_whitespace).map_or(0, |at| at + kept[at..].chars().next().map_or(0, char::len_utf8));
        self.before.truncate(kept);
    }
}

/// Whether a character belongs to the one before it.
fn is_part(c: char) -> bool {
    c == JOINER || c.width() == Some(0) || ('\u{1F3FB}'..='\u{1F3FF}').contains(&c)
}

impl Perform for Edited {
    fn print(&mut self, c: char) {
        match c {
            '\x7f' => drop(self.pop_before()),
            c => self.insert(c),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' => self.enter(),
            b'\t' => self.insert(if self.is_pasting { '\t' } else { ' ' }),
            _ if self.is_pasting => {}
            // Ctrl with A, B, D, E, F, H, K, U, W, as in a shell.
            0x01 => self.home(),
            0x02 => self.left(),
            0x04 => drop(self.after.drain(..self.next_after())),
            0x05 => self.end(),
            0x06 => self.right(),
            0x08 => drop(self.pop_before()),
            0x0b => self.after.clear(),
            0x15 => self.before.clear(),
            0x17 => self.delete_word(),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        let first = params.iter().next().and_then(|param| param.first().copied()).unwrap_or_default();
        match (action, first) {
            ('~', 200) => self.is_pasting = true,
            ('~', 201) => self.is_pasting = false,
            ('C', _) => self.right(),
            ('D', _) => self.left(),
            ('H', _) | ('~', 1 | 7) => self.home(),
            ('F', _) | ('~', 4 | 8) => self.end(),
            ('~', 3) => drop(self.after.drain(..self.next_after())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that these keys enter, and what is typed then, with `|` for the cursor.
    fn typed(keys: &[&str]) -> (Vec<Entered>, String) {
        let mut line = Line::default();
        let mut feed = |keys: &&str| match *keys {
            "escape" => {
                line.escape();
                vec![]
            }
            keys => line.feed(keys.as_bytes()),
        };
        let entered = keys.iter().flat_map(&mut feed).collect();
        let (before, after) = line.text();
        (entered, format!("{before}|{after}"))
    }

    #[test]
    fn r15_keys_edit_the_line() {
        for (keys, expected) in [
            (&["abc"][..], "abc|"),
            (&["abc\x7f"], "ab|"),
            (&["abc", "\x1b[D", "\x1b[D", "x"], "ax|bc"),
            (&["abc", "\x1b[D\x1b[3~"], "ab|"),
            (&["abc\x01x\x05y"], "xabcy|"),
            (&["abc", "\x1b[H", "\x1b[C", "\x0b"], "a|"),
            (&["one two  \x17"], "one |"),
            (&["一 二三\x17四"], "一 四|"),
            (&["one two\x1b[D\x15"], "|o"),
            (&["half\x1b", "escape"], "|"),
            (&["half", "\x1b", "escape", "[D is text"], "[D is text|"),
            (&["half", "\x1b", "[D", "escape"], "hal|f"),
            // What a person sees as one character: an accent of its own, a family, a skin.
            (&["ae\u{301}\x7f"], "a|"),
            (&["a\u{1F468}\u{200D}\u{1F467}\x7f"], "a|"),
            (&["a\u{1F44D}\u{1F3FD}", "\x1b[D"], "a|\u{1F44D}\u{1F3FD}"),
            (&["e\u{301}b", "\x01", "\x1b[C"], "e\u{301}|b"),
            // Nothing is before the first, and nothing behind the last.
            (&["\x7f\x1b[D\x1b[C\x1b[3~\x04a"], "a|"),
            // Keys that are none of the line.
            (&["a", "\x1b[A\x1b[B\x1b[5~\x1bOP\x1bOAb\x1bODc", "\x1b]0;title\x07d"], "acd|b"),
            (&["a\x1b]", "b\x1bP", "c\x1b_", "d"], "abcd|"),
        ] {
            assert_eq!(typed(keys), (vec![], expected.to_owned()), "{keys:?}");
        }
    }

    #[test]
    fn r15_enter_ends_a_line_and_a_pasted_newline_does_not() {
        let line = |text: &str| Entered::Line(text.to_owned());
        assert_eq!(typed(&["one\rtwo\n", " \r\r", "th"]), (vec![line("one"), line("two")], "th|".to_owned()));
        let pasted = typed(&["\x1b[200~a\rb\x03\x15\tc\x1b[201~", "!", "\r"]);
        assert_eq!(pasted, (vec![line("a\nb\tc!")], "|".to_owned()));
        // A piece of a terminal ends anywhere, also within a character or a sequence.
        let mut keys = Line::default();
        for byte in "é\x1b[200~好\n\x1b[201~".bytes() {
            assert!(keys.feed(&[byte]).is_empty());
        }
        assert_eq!(keys.feed(b"\r"), [line("é好\n")]);
        // A question came in the middle of a paste.
        keys.feed(b"\x1b[200~half");
        assert!(keys.is_pasting());
        keys.pause();
        assert_eq!(keys.feed(b"!\r"), [line("half!")]);
    }

    #[test]
    fn r24_a_line_has_a_bound() {
        let mut line = Line::default();
        for _ in 0..100 {
            assert!(line.feed("é".repeat(1_000).as_bytes()).is_empty());
        }
        assert_eq!(line.feed(b"\r"), [Entered::TooLong], "a part of it is not sent");
        assert!(line.is_empty());
        line.feed(&b"x".repeat(MOST_BYTES + 9));
        let text = line.take();
        assert!(text.len() <= MOST_BYTES && text.len() > MOST_BYTES - 4);
        assert!(line.is_empty());
    }
}
