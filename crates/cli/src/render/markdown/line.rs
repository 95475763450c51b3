//! What a line of Markdown is, outside of code and tables.

use super::code::Fence;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Blank,
    /// The first line of a block of code.
    Fence(Fence),
    /// A heading: a block in one line.
    Whole {
        mark: String,
        text: &'a str,
    },
    /// A line that is shown as it is.
    Raw,
    /// A line of a quotation.
    Quote {
        mark: String,
        text: &'a str,
    },
    /// The first line of an item of a list; `indent` is where its text begins.
    Item {
        mark: String,
        text: &'a str,
        indent: usize,
    },
    /// What separates the head of a table from its rows, if there is a head.
    Delimiter,
    /// A line of a paragraph.
    Text,
}

/// `in_text` says whether the line before belongs to a paragraph, `item_indent` where the text of the last item begins.
pub(super) fn of(line: &str, in_text: bool, item_indent: usize) -> Line<'_> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    if text.trim().is_empty() {
        return Line::Blank;
    }
    if let Some(fence) = Fence::open(line) {
        return Line::Fence(fence);
    }
    if let Some(item) = item(text, indent) {
        return item;
    }
    if !in_text && indent >= item_indent + 4 || text.starts_with('\t') || is_rule(text) || is_definition(text) {
        // A line of dashes may be the head of a table of one column.
        return if in_text && is_delimiter(text) { Line::Delimiter } else { Line::Raw };
    }
    if let Some(text) = heading(text) {
        return Line::Whole { mark: line[..line.len() - text.len()].to_owned(), text: text.trim_end() };
    }
    if text.starts_with('>') {
        let quoted = text.trim_start_matches(['>', ' ']);
        return Line::Quote { mark: line[..line.len() - quoted.len()].to_owned(), text: quoted.trim_end() };
    }
    if is_delimiter(text) { Line::Delimiter } else { Line::Text }
}

fn heading(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim_start())
}

/// A line between sections, or below a heading.
fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    let first = text.chars().next().unwrap_or_default();
    let is_same = text.chars().all(|c| c == first || c == ' ');
    is_same && (matches!(first, '-' | '*' | '_') && text.matches(first).count() >= 3 || first == '=')
}

/// `[name]: address`
pub(super) fn is_definition(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('[') && text.contains("]:")
}

fn is_delimiter(text: &str) -> bool {
    text.contains('-') && text.contains('|') && text.trim_end().chars().all(|c| matches!(c, '-' | '|' | ':' | ' '))
}

fn item(text: &str, indent: usize) -> Option<Line<'_>> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_mark = match digits {
        0 => text.starts_with(['-', '*', '+']),
        1..=9 => text[digits..].starts_with(['.', ')']),
        _ => false,
    };
    let rest = is_mark.then(|| &text[digits + 1..])?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) || is_rule(text) {
        return None;
    }
    let inner = rest.trim_start();
    let mark = format!("{}{} ", " ".repeat(indent), &text[..=digits]);
    Some(Line::Item { indent: mark.len(), mark, text: inner.trim_end() })
}
