//! Counts of what happened in an interleaving: a sweep in which something never happened proves nothing about it.

use engine::{Event, PauseCause, ReceiptState, Record};

use crate::queue::oracle::Asked;

/// The names of the counts.
pub(in crate::queue) const KINDS: [&str; 17] = [
    "runs",
    "steered",
    "gathered",
    "dropped",
    "notified",
    "again",
    "paused",
    "frozen",
    "stopped",
    "breakpoints",
    "overrides",
    "aborts",
    "resets",
    "interrupted",
    "restarts",
    "compactions",
    "taken over",
];

/// Counts the consequences of one input.
pub(super) fn add(counts: &mut [u32; KINDS.len()], asked: &Asked, taken: bool, records: &[Record]) {
    let mut one = |kind: &str| {
        if let Some(at) = KINDS.iter().position(|known| *known == kind) {
            counts[at] += 1;
        }
    };
    match asked {
        Asked::Again(_) => one("again"),
        Asked::Pause { freeze: true } if taken => one("frozen"),
        Asked::Pause { freeze: false } if taken => one("paused"),
        Asked::Break { .. } if taken => one("breakpoints"),
        Asked::Override(_) => one("overrides"),
        Asked::Message(offered) if taken && offered.compacts => one("compactions"),
        Asked::Abort if taken => one("aborts"),
        _ => {}
    }
    for record in records {
        match &record.event {
            Event::RunStarted(_) => one("runs"),
            Event::Gathered(_) => one("gathered"),
            Event::Reset(_) => one("resets"),
            Event::Opened(_) => one("restarts"),
            Event::Paused(e) if e.cause == PauseCause::Breakpoint => one("stopped"),
            Event::Paused(e) if e.cause == PauseCause::Interrupt => one("interrupted"),
            Event::MessageSettled(e) if e.state == ReceiptState::Steered => one("steered"),
            Event::MessageSettled(e) if e.state == ReceiptState::Merged => one("taken over"),
            Event::MessageSettled(e) if e.in_next_run => one("notified"),
            Event::MessageSettled(e) if e.state == ReceiptState::Dropped => one("dropped"),
            _ => {}
        }
    }
}
