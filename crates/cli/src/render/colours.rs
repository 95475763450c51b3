//! The output of a command without its colours: here it is dim or plain, and as escapes they would hide what it says.

use std::borrow::Cow;

/// How a sequence begins that styles what follows, and how it ends.
const BEGIN: &str = "\u{1b}[";
const END: char = 'm';

/// A line without sequences that only style text. All else that a terminal would obey stays, to be escaped.
pub(super) fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains(BEGIN) {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(BEGIN) {
        let (before, sequence) = (&rest[..at], &rest[at + BEGIN.len()..]);
        let figures = sequence.len() - sequence.trim_start_matches(|c| matches!(c, '0'..='9' | ';' | ':')).len();
        plain.push_str(before);
        if sequence[figures..].starts_with(END) {
            rest = &sequence[figures + END.len_utf8()..];
        } else {
            plain.push_str(BEGIN);
            rest = sequence;
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::for_terminal;

    #[test]
    fn r09_only_sequences_of_colours_are_left_out() {
        for (line, plain) in [
            ("plain 好", "plain 好"),
            ("\u{1b}[1;31mred\u{1b}[0m and \u{1b}[38:5:9mbright\u{1b}[m", "red and bright"),
            ("\u{1b}[2J\u{1b}[1A\u{1b}[?25l", "\u{1b}[2J\u{1b}[1A\u{1b}[?25l"),
            ("\u{1b}[3", "\u{1b}[3"),
            ("\u{1b}[\u{1b}[0mm", "\u{1b}[m"),
            ("\u{1b}\u{1b}[0m[2J", "\u{1b}[2J"),
            ("\u{1b}[> 1m\u{1b}]0;t\u{7}", "\u{1b}[> 1m\u{1b}]0;t\u{7}"),
        ] {
            assert_eq!(without_colours(line), plain, "{line:?}");
        }
    }

    /// Whatever is left out, nothing that is left is obeyed.
    #[test]
    fn r44_what_is_left_is_escaped_all_the_same() {
        const PARTS: [&str; 7] = ["\u{1b}", "[", "m", "0", ";", "2J", "\u{9b}"];
        for number in 0..PARTS.len().pow(6) {
            let part = |at: u32| PARTS[number / PARTS.len().pow(at) % PARTS.len()];
            let line: String = (0..6).map(part).collect();
            let shown = for_terminal(&without_colours(&line)).into_owned();
            assert!(!shown.contains(['\u{1b}', '\u{9b}']), "{line:?}: {shown:?}");
        }
    }
}
