//! The last lines of the output of a call that runs. It takes any flood in: what is kept is bounded, and a piece costs no
//! more than its own bytes.

use std::borrow::Cow;

use super::colours::without_colours;

/// Lines that are shown.
const LINES: usize = 5;
/// Bytes that are kept: enough for these lines where they are not extreme.
const KEPT_BYTES: usize = 4 << 10;

/// The end of an output that grows.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    end: String,
    /// Whether there was more before it.
    is_cut: bool,
}

impl LiveOutput {
    /// Adds a piece.
    pub(super) fn push(&mut self, piece: &str) {
        let from = piece.ceil_char_boundary(piece.len().saturating_sub(KEPT_BYTES));
        if from > 0 {
            self.end.clear();
            self.is_cut = true;
        }
        self.end.push_str(&piece[from..]);
        if self.end.len() > 2 * KEPT_BYTES {
            let from = self.end.ceil_char_boundary(self.end.len() - KEPT_BYTES);
            self.end.drain(..from);
            self.is_cut = true;
        }
    }

    /// The last lines, oldest first. A line that is written over and over, such as a bar of progress, is what it is last.
    pub(super) fn last_lines(&self) -> Vec<Cow<'_, str>> {
        let lines = self.end.trim_end_matches(['\n', '\r']).split('\n');
        let mut last: Vec<Cow<'_, str>> = lines.rev().take(LINES + 1).map(last_state).collect();
        last.reverse();
        // The first may be the end of a line, or is one too many.
        if last.len() > LINES || self.is_cut && last.len() > 1 {
            last.remove(0);
        }
        if last.iter().all(|line| line.trim().is_empty()) { vec![] } else { last }
    }
}

/// What a terminal shows of a line with carriage returns.
fn last_state(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches('\r');
    without_colours(line.rsplit_once('\r').map_or(line, |(_, last)| last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut output = LiveOutput::default();
        for piece in pieces {
            output.push(piece);
        }
        output.last_lines().into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn r09_the_last_lines_of_a_running_command_are_shown() {
        assert!(shown(&[]).is_empty() && shown(&["\n\n"]).is_empty());
        assert_eq!(shown(&["a\nb", "c\n"]), ["a", "bc"]);
        assert_eq!(shown(&["1\n2\n3\n4\n5\n6\n7"]), ["3", "4", "5", "6", "7"]);
        assert_eq!(shown(&["10 %\r20 %\r", "30 %"]), ["30 %"]);
        assert_eq!(shown(&["a\r\nb\r\n"]), ["a", "b"]);
        assert_eq!(shown(&["\u{1b}[32", "mgreen\u{1b}[0m\u{1b}[2J\n"]), ["green\u{1b}[2J"]);
        assert!(shown(&["\u{1b}[0m\n"]).is_empty());
    }

    #[test]
    fn r09_a_flood_of_output_is_bounded() {
        let mut output = LiveOutput::default();
        for _ in 0..10_000 {
            output.push("好y\n");
            output.push(&"z".repeat(100));
        }
        output.push(&"好\n".repeat(1 << 20));
        assert!(output.end.capacity() < 1 << 20 && output.last_lines() == ["好"; 5]);
        output.push(&"好".repeat(1 << 20));
        assert_eq!(output.last_lines().len(), 1, "a line without end");
    }
}
