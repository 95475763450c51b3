//! Lays out the audit log of a session for people.

use std::fmt::Write as _;

use protocol::show::AuditLine;

use super::human::{Zone, excerpt, printable};

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
    let detail = excerpt(line.detail.as_deref().unwrap_or_default(), 100);
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
        let _ = writeln!(text, "    ✗ {}", printable(damage));
    }
    text
}

/// The heading of the columns.
pub(crate) fn heading() -> String {
    format!(
        "{:>5} {:>8}  {:23}  {:17}  {:24}  {:16}  WHAT\n",
        "SEQ", "POSITION", "TIME", "CAUSE", "RUN STATE", "LIFECYCLE"
    )
}
