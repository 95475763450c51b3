//! How far a stage is: the time, the number of its lines, and the last ones.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a test program says of a test that takes long.
const SLOW: &str = "has been running for over";
/// Bytes of a line that are shown.
const LINE_BYTES: usize = 200;
/// Slow tests that are named.
const NAMED: usize = 3;

/// How far a stage is.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<Seen>>);

struct Seen {
    since: Instant,
    lines: usize,
    line: Vec<u8>,
    last: String,
    /// The last lines about tests that take long.
    slow: VecDeque<String>,
}

impl Default for Progress {
    fn default() -> Self {
        let (line, last, slow) = (vec![], String::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(Seen { since: Instant::now(), lines: 0, line, last, slow })))
    }
}

impl Progress {
    /// Passes on to `out` what is written, and observes it.
    pub(super) fn observe<'a>(&self, out: &'a mut dyn Write) -> Observed<'a> {
        Observed { out, seen: Arc::clone(&self.0) }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "for {} s, {} lines, the last: {}", seen.since.elapsed().as_secs(), seen.lines, seen.last)?;
        seen.slow.iter().try_for_each(|line| write!(f, "\n     {line}"))
    }
}

/// A writer that observes.
pub(super) struct Observed<'a> {
    out: &'a mut dyn Write,
    seen: Arc<Mutex<Seen>>,
}

impl Write for Observed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in &bytes[..written] {
            if *byte != b'\n' {
                if seen.line.len() < LINE_BYTES {
                    seen.line.push(*byte);
                }
                continue;
            }
            seen.lines += 1;
            let line = String::from_utf8_lossy(&std::mem::take(&mut seen.line)).into_owned();
            if line.contains(SLOW) {
                seen.slow.push_back(line.clone());
                if seen.slow.len() > NAMED {
                    seen.slow.pop_front();
                }
            }
            if !line.trim().is_empty() {
                seen.last = line;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_and_the_slow_tests_are_shown() {
        let progress = Progress::default();
        let mut passed = vec![];
        let text = "test a ... ok\ntest b has been running for over 60 seconds\ntest c ... ok\n\nunfin";
        progress.observe(&mut passed).write_all(text.as_bytes()).unwrap();
        assert_eq!(passed, text.as_bytes());
        let shown = "for 0 s, 4 lines, the last: test c ... ok\n     test b has been running for over 60 seconds";
        assert_eq!(progress.to_string(), shown);
    }
}
