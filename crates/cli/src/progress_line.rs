//! The line on stderr that shows how far a long command is; each update replaces it.

use std::time::{Duration, Instant};

use crate::output::say_step;

/// What takes longer shows its progress.
const SILENCE: Duration = Duration::from_millis(400);
/// Refresh interval of the progress.
const TICK: Duration = Duration::from_millis(100);

/// The line of one command.
pub(crate) struct ProgressLine {
    began: Instant,
    drawn: Option<Instant>,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), drawn: None }
    }

    /// Shows this text, if it is time for another one.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        let is_due = self.began.elapsed() > SILENCE && self.drawn.is_none_or(|drawn| drawn.elapsed() > TICK);
        if is_due {
            self.drawn = Some(Instant::now());
            say_step(&text());
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            say_step("");
        }
    }
}
