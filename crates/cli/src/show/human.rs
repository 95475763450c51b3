//! How things are laid out for people: times, columns, excerpts, texts that cannot repaint a terminal. What may not live
//! here: what is said.

use std::fmt::Write as _;

use engine::{Timestamp, Usage};
use jiff::tz::TimeZone;

/// The zone that times are shown in.
#[derive(Debug, Clone)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// This machine's.
    pub(crate) fn local() -> Self {
        Self(TimeZone::system())
    }

    /// UTC, for tests.
    #[cfg(test)]
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Day and time to the second.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S")
    }

    /// Day and time to the millisecond.
    pub(crate) fn time_ms(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S%.3f")
    }

    /// The time of day to the millisecond.
    pub(crate) fn clock(&self, at: Timestamp) -> String {
        self.format(at, "%H:%M:%S%.3f")
    }

    fn format(&self, at: Timestamp, format: &str) -> String {
        let time = jiff::Timestamp::from_millisecond(at.0).map(|time| time.to_zoned(self.0.clone()));
        time.map_or_else(|_| format!("{at} ms"), |time| time.strftime(format).to_string())
    }
}

/// The text without anything that a terminal would obey. Newlines and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// The beginning of a text, on one line.
pub(crate) fn excerpt(text: &str, most_chars: usize) -> String {
    let mut words = text.split_whitespace();
    let mut line = String::new();
    let mut length = 0;
    for word in &mut words {
        let space = usize::from(length > 0);
        let room = most_chars.saturating_sub(length + space);
        if word.chars().count() > room {
            line.extend([' '].iter().take(space).copied().chain(word.chars().take(room.saturating_sub(1))));
            line.push('…');
            break;
        }
        line.extend([' '].iter().take(space));
        line.push_str(word);
        length += space + word.chars().count();
    }
    printable(&line)
}

/// Lines that are gathered into a text.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
    }

    /// Adds a text of others, each of its lines moved in.
    pub(crate) fn indented(&mut self, by: &str, text: &str) {
        for line in printable(text).lines() {
            self.line(format!("{by}{line}").trim_end());
        }
    }

    /// All of it.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// Rows as columns of equal width, two blanks between; without blanks at the ends of lines.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut lines = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

/// One or several.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Tokens in and out.
pub(crate) fn tokens(usage: &Usage) -> String {
    format!("{} tokens in, {} out", usage.input + usage.cached + usage.cache_written, usage.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_their_zone() {
        assert_eq!(Zone::utc().time(Timestamp(1_763_694_250_123)), "2025-11-21 03:04:10");
        assert_eq!(Zone::utc().clock(Timestamp(1_763_694_250_123)), "03:04:10.123");
    }

    #[test]
    fn an_excerpt_is_one_short_line_that_cannot_repaint() {
        assert_eq!(excerpt("  a b\n\nc ", 10), "a b c");
        assert_eq!(excerpt("one two three", 9), "one two …");
        assert_eq!(excerpt("abcdefghij", 5), "abcd…");
        assert_eq!(excerpt("列出这个文件夹里的东西", 5), "列出这个…");
        assert_eq!(excerpt("a\u{1b}[2Jb", 10), "a\u{fffd}[2Jb");
        assert_eq!(excerpt("", 10), "");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [["a".to_owned(), "b".to_owned()], ["ccc".to_owned(), String::new()]];
        assert_eq!(columns(&rows), "a    b\nccc\n");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        let mut page = Page::default();
        page.indented("  ", "a\u{1b}]0;x\u{7}\n\nb");
        assert_eq!(page.text(), "  a\u{fffd}]0;x\u{fffd}\n\n  b\n");
    }
}
