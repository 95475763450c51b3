//! Lays out the trace of a run for people.

use std::fmt::Write as _;

use protocol::show::TraceLine;

use super::human::Zone;
use crate::language::word;

/// Lays out the trace: time, milliseconds since the start, change of state, event, description.
pub(crate) fn lay_out(lines: &[TraceLine], zone: &Zone) -> String {
    const CHANGE_CHARS: usize = 24;
    let event_chars = lines.iter().map(|line| line.event.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines.iter().filter(|line| !line.echo) {
        let change = if line.from == line.to { "·".to_owned() } else { format!("{} → {}", line.from, line.to) };
        let detail = word(line.detail.as_deref().unwrap_or_default());
        let row = if line.crash {
            format!("{} {:>+9} ms  ━━━ {detail} ━━━", zone.clock(line.at), line.ms)
        } else {
            format!(
                "{} {:>+9} ms  {change:CHANGE_CHARS$}  {:event_chars$}  {detail}",
                zone.clock(line.at),
                line.ms,
                line.event
            )
        };
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}
