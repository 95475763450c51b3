//! Lays out the audit log of a session for people.

use std::fmt::Write as _;

use protocol::show::AuditLine;

use super::human::{Zone, excerpt, printable};
use crate::cells::cells;
use crate::language::word;

/// Lays out an entry.
pub(crate) fn lay_out(line: &AuditLine, zone: &Zone) -> String {
    let change = match (line.from, line.to) {
        (Some(from), Some(to)) if from == to => String::new(),
        (Some(from), Some(to)) => format!("{from} → {to}"),
        _ => "?".to_owned(),
    };
    let moved = match (line.lifecycle_from, line.lifecycle_to) {
        (Some(from), Some(to)) if from != to => format!("{from} → {to}"),
        _ => String::new(),
    };
    let detail = word(excerpt(line.detail.as_deref().unwrap_or_default(), 100));
    let mut text = format!(
        "{:>5} {:>8}  {}  {:17}  {change:24}  {moved:16}  {detail}",
        line.seq.0,
        line.position.0,
        zone.time_ms(line.at),
        excerpt(&line.event, 17)
    );
    text.truncate(text.trim_end().len());
    text.push('\n');
    for damage in &line.damage {
        let _ = writeln!(text, "    ✗ {}", word(printable(damage)));
    }
    text
}

/// The heading of the columns.
pub(crate) fn heading() -> String {
    let [seq, position, time, cause, state, lifecycle, what] =
        super::human::heading(["SEQ", "POSITION", "TIME", "CAUSE", "RUN STATE", "LIFECYCLE", "WHAT"]);
    let after = |text: &str, width: usize| " ".repeat(width.saturating_sub(cells(text)));
    let left = |text: String, width: usize| after(&text, width) + &text;
    let right = |text: String, width: usize| format!("{text}{}", after(&text, width));
    format!(
        "{} {}  {}  {}  {}  {}  {what}\n",
        left(seq, 5),
        left(position, 8),
        right(time, 23),
        right(cause, 17),
        right(state, 24),
        right(lifecycle, 16)
    )
}
