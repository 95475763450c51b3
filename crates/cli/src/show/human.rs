//! Layout for people: times, columns, excerpts, and text that cannot control a terminal.

use std::fmt::Write as _;

use engine::{Resources, Timestamp};
use jiff::tz::TimeZone;
use protocol::show::NextRecovery;

use crate::cells::cells;
use crate::language;

pub(crate) use views::{count, excerpt, printable, printable_line, tokens};

/// The next attempt of a held session to continue by itself.
pub(crate) fn next_recovery(next: &NextRecovery, zone: &Zone) -> String {
    format!("tries again by itself at {} ({} of {})", zone.time(next.at), next.attempt, next.of)
}

/// The time zone for output.
#[derive(Debug, Clone)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// The zone of this machine.
    pub(crate) fn local() -> Self {
        Self(config::local_zone())
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

    /// The time of day to the minute, with the day if that is another one than `now`.
    pub(crate) fn short(&self, at: Timestamp, now: Timestamp) -> String {
        let day = |at| self.format(at, "%Y-%m-%d");
        self.format(at, if day(at) == day(now) { "%H:%M" } else { "%Y-%m-%d %H:%M" })
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

/// The time now.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// The name by which a command takes a session: its key, without the default agent.
pub(crate) fn session_name(key: &str) -> &str {
    key.strip_prefix("agent:main:").unwrap_or(key)
}

/// A time that has passed, in its two largest units.
pub(crate) fn duration(ms: u64) -> String {
    let s = ms / 1_000;
    match (s / 86_400, s / 3_600 % 24, s / 60 % 60, s % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, min, s) => format!("{min} min {s} s"),
        (0, h, min, _) => format!("{h} h {min} min"),
        (days, h, ..) => format!("{days} d {h} h"),
    }
}

/// Collects lines into a text.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Adds a line of this program, in the language of the process.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.line_as_it_is(language::lines(line.as_ref()));
    }

    /// Adds a line that holds foreign text, or that is translated already.
    pub(crate) fn line_as_it_is(&mut self, line: impl AsRef<str>) {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
    }

    /// Adds a foreign text, made printable, with each line indented by `by`, which may hold words of this program.
    pub(crate) fn indented(&mut self, by: &str, text: &str) {
        let words = by.trim();
        let by = if words.is_empty() { by.to_owned() } else { by.replace(words, &language::text(words)) };
        for line in printable(text).lines() {
            self.line_as_it_is(format!("{by}{line}").trim_end());
        }
    }

    /// The text of the page.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// A number with two digits or three: `812`, `5.7k`, `57k`, `1.2M`.
pub(crate) fn rounded(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Micro-dollars as a person reads a price: to the cent, or less than a cent with its first two digits.
pub(crate) fn price(micros: u64) -> String {
    let cents = (micros + 5_000) / 10_000;
    let small = format!("{micros:06}");
    match small.find(|digit| digit != '0') {
        _ if micros >= 10_000 => format!("${}.{:02}", cents / 100, cents % 100),
        Some(first) => format!("$0.{}", small[..(first + 2).min(6)].trim_end_matches('0')),
        None => "$0".to_owned(),
    }
}

/// Formats micro-dollars as dollars.
pub(crate) fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The words above the columns of a table, in the language of this process.
pub(crate) fn heading<const N: usize>(words: [&str; N]) -> [String; N] {
    words.map(language::word)
}

/// Lays rows out in aligned columns with two blanks between them, without trailing blanks. The cells are as they are printed.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| cells(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut lines = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell}{}  ", " ".repeat(width.saturating_sub(cells(cell))));
        }
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

/// What a session or a run has used, and its limits.
pub(crate) fn resources(resources: &Resources) -> String {
    let Resources { token_usage, token_limit, token_reserved, memory_usage, memory_limit, session_bytes, .. } =
        *resources;
    let kept = if token_reserved == 0 { String::new() } else { format!(" ({token_reserved} kept for recovery)") };
    let tokens = token_limit.map(|limit| format!(" of {limit}{kept}")).unwrap_or_default();
    let limit = memory_limit.map(|limit| format!(" of {} MiB", limit >> 20)).unwrap_or_default();
    let memory = memory_usage.filter(|_| memory_limit.is_some());
    let memory = memory.map(|bytes| format!("; memory: {} MiB{limit}", bytes >> 20)).unwrap_or_default();
    format!("tokens: {token_usage}{tokens}; journal: {session_bytes} bytes{memory}")
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
    fn numbers_and_prices_are_rounded_for_people() {
        let numbers = [(0, "0"), (812, "812"), (5_749, "5.7k"), (57_400, "57k"), (1_260_000, "1.2M")];
        assert!(numbers.iter().all(|(number, shown)| rounded(*number) == *shown));
        for (micros, shown) in [
            (0, "$0"),
            (1, "$0.000001"),
            (120, "$0.00012"),
            (4_567, "$0.0045"),
            (9_999, "$0.0099"),
            (10_000, "$0.01"),
            (214_999, "$0.21"),
            (12_345_678, "$12.35"),
        ] {
            assert_eq!(price(micros), shown, "{micros}");
        }
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [["a".to_owned(), "b".to_owned()], ["ccc".to_owned(), String::new()]];
        assert_eq!(columns(&rows), "a    b\nccc\n");
        let rows = [["会话", "b"], ["abcdef", "c"], ["é\u{301}", "d"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "会话    b\nabcdef  c\né\u{301}       d\n", "r61: by the cells of a terminal");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        let mut page = Page::default();
        page.indented("  ", "a\u{1b}]0;x\u{7}\n\nb");
        assert_eq!(page.text(), "  a\\u001b]0;x\\u0007\n\n  b\n");
    }
}
