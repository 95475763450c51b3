//! Vocabulary of the projections: excerpts, counts, and texts that cannot repaint a terminal.

use engine::{ReceiptState, Usage};

use super::terminal_text::printable;

/// The beginning of a text, on one line.
pub fn excerpt(text: &str, most_chars: usize) -> String {
    let mut words = text.split_whitespace();
    let mut line = String::new();
    let mut length = 0;
    for word in &mut words {
        let space = usize::from(length > 0);
        let left = most_chars.saturating_sub(length + space);
        if word.chars().count() > left {
            line.extend([' '].iter().take(space).copied().chain(word.chars().take(left.saturating_sub(1))));
            line.push('…');
            break;
        }
        line.extend([' '].iter().take(space));
        line.push_str(word);
        length += space + word.chars().count();
    }
    printable(&line).into_owned()
}

/// A number with its noun in singular or plural.
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Why no run will answer a message in this state; `None` if one may.
pub fn never_began(state: ReceiptState) -> Option<String> {
    let became = match state {
        ReceiptState::Dropped => "dropped from the full queue",
        ReceiptState::Cancelled => "cancelled",
        ReceiptState::Refused => "refused",
        ReceiptState::Queued
        | ReceiptState::Started
        | ReceiptState::Steered
        | ReceiptState::Delivered
        | ReceiptState::Merged
        | ReceiptState::Ended => return None,
    };
    Some(format!("the message was {became} before its run began"))
}

/// Tokens in and out.
pub fn tokens(usage: &Usage) -> String {
    format!("{} tokens in, {} out", usage.prompt(), usage.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_line_that_cannot_repaint() {
        assert_eq!(excerpt("  a b\n\nc ", 10), "a b c");
        assert_eq!(excerpt("one two three", 9), "one two …");
        assert_eq!(excerpt("abcdefghij", 5), "abcd…");
        assert_eq!(excerpt("列出这个文件夹里的东西", 5), "列出这个…");
        assert_eq!(excerpt("a\u{1b}[2Jb", 10), r"a\u001b[2Jb");
        assert_eq!(excerpt("", 10), "");
    }
}
