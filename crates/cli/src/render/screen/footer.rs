//! The rows below everything else, which are erased before anything else is written: what is open of the answer, the last lines
//! of a running command, the status line, and below them what the user types meanwhile.

use std::time::{Duration, Instant};

use super::Screen;
use super::answer::parts;
use crate::cells::cells;
use crate::keyboard::interruptions;
use crate::output::{Control, Output, Part};
use crate::render::markdown::{Row, Span};
use crate::render::{Style, rows};

/// Rows of the answer that are shown in any terminal before they are whole.
const LEAST_ROWS: usize = 4;

/// The frames of the spinner.
pub(crate) const SPINNER: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// The shortest time between two frames that only show more of the same: whatever a command or a model writes, a terminal is
/// drawn 20 times a second.
const FRAME: Duration = Duration::from_millis(50);

/// What the bottom of the terminal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Bottom {
    #[default]
    Free,
    /// The footer, in so many rows; the cursor is at the end of the last.
    Footer(usize),
    /// A question; the user types the answer after it.
    Prompt,
}

/// The state of the footer.
#[derive(Debug, Default)]
pub(super) struct Footer {
    pub(super) bottom: Bottom,
    /// What the user types, below the status: before and after the cursor.
    input: Option<(String, String)>,
    /// Cells of what stands behind the cursor in that row.
    behind: usize,
    ticks: usize,
    /// When it was drawn last.
    drawn: Option<Instant>,
    /// The cells of each of its rows.
    rows: Vec<usize>,
    /// How often another process had had the terminal when this one looked last.
    interruptions: u32,
}

impl Footer {
    /// Whether a frame is due.
    pub(super) fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME)
    }
}

/// The rows that lines of so many cells take now, whatever the width of the terminal was when they were written.
pub(super) fn rows_now(cells: &[usize], width: usize) -> usize {
    if wraps_again() { cells.iter().map(|cells| cells.div_ceil(width.max(1)).max(1)).sum() } else { cells.len() }
}

/// Whether the terminal wraps what is on it again when it becomes narrower. xterm and screen cut it.
fn wraps_again() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    is_set("TMUX") || !is_set("XTERM_VERSION") && !is_set("STY")
}

/// The rows above the cursor in a terminal of this width, which may have become narrower since these rows were drawn; the
/// cursor is so many cells before the end of the last. Rather one too few: what is above is not ours.
fn rows_above(cells: &[usize], behind: usize, width: usize) -> usize {
    let width = width.max(1);
    let Some((last, above)) = cells.split_last() else { return 0 };
    let above: usize = above.iter().map(|cells| cells.div_ceil(width).max(1)).sum();
    above + last.saturating_sub(behind).saturating_sub(1) / width
}

/// A text of several lines in one row.
fn shown(text: &str) -> String {
    text.replace('\n', "⏎")
}

impl Screen {
    /// Draws the next frame of the footer; called a few times a second.
    pub(crate) fn tick(&mut self) {
        self.write_rows();
        if !self.has_terminal() {
            return;
        }
        let busy_text = self.answer.is_open() && !self.at_line_start;
        if self.footer.bottom == Bottom::Prompt
            || busy_text
            || self.style == Style::Json && Output::Stdout.is_terminal()
        {
            return;
        }
        let mut rows = vec![];
        if self.answer.is_rendered() {
            self.answer.fit();
            let (width, height) = (Output::Stdout.width().saturating_sub(1), Output::Stdout.height());
            rows = self.answer.open_rows(width, (height / 2).max(LEAST_ROWS));
        }
        if self.live {
            rows.extend(self.notes());
        }
        // What is above the screen could not be erased.
        let most = self.footer_output().height().saturating_sub(1).max(1);
        rows.drain(..rows.len().saturating_sub(most));
        self.draw_footer(&rows);
    }

    /// The rows that are not of the answer.
    fn notes(&mut self) -> Vec<Row> {
        let width = Output::Stderr.width().saturating_sub(1);
        let status = self.status.line(self.calls.running()).map(|status| {
            let spinner = SPINNER[self.footer.ticks % SPINNER.len()];
            rows::cut(&format!("{spinner} {status}"), width)
        });
        self.footer.ticks += 1;
        let dim = |text| vec![Span { style: Some(Control::Dim), text }];
        let input = self.footer.input.as_ref().map(|(before, after)| {
            let before = rows::cut_start(&shown(before), width.saturating_sub(3));
            let after = rows::cut(&shown(after), width.saturating_sub(3 + cells(&before)));
            self.footer.behind = cells(&after);
            vec![Span { style: None, text: format!("› {before}{after}") }]
        });
        let live = self.calls.live_rows(width).into_iter();
        live.chain(status).map(dim).chain(input).collect()
    }

    /// Sets what the user types, before and after the cursor, which the last row of the footer shows: as much of it as a row
    /// holds. None = there is no such row.
    pub(crate) fn set_input_line(&mut self, input: Option<(&str, &str)>) {
        let before = self.footer.input.as_ref().map(|(before, after)| (before.as_str(), after.as_str()));
        if before != input {
            self.footer.input = input.map(|(before, after)| (before.to_owned(), after.to_owned()));
            self.hide_status();
            self.tick();
        }
    }

    /// Draws the footer in the place of the one before, in one write. No row is as wide as the terminal.
    fn draw_footer(&mut self, rows: &[Row]) {
        if rows.is_empty() {
            return self.hide_status();
        }
        let mut drawn = vec![Part::Control(self.take_footer().unwrap_or(Control::EraseLine))];
        for (at, row) in rows.iter().enumerate() {
            drawn.extend((at > 0).then_some(Part::Text("\n")));
            drawn.extend(parts(row));
        }
        if self.footer.input.is_some() {
            drawn.push(Part::Control(Control::Left(self.footer.behind)));
        }
        let _ = self.footer_output().draw(&drawn);
        let cells_of = |row: &Row| row.iter().map(|span| cells(&span.text)).sum();
        self.footer.rows = rows.iter().map(cells_of).collect();
        self.footer.bottom = Bottom::Footer(rows.len());
        self.footer.drawn = Some(Instant::now());
    }

    /// The stream of the terminal on which the footer is. Without one for notes it is the one of the answer.
    fn footer_output(&self) -> Output {
        if self.live { Output::Stderr } else { Output::Stdout }
    }

    /// Whether what is on the screen may be changed: not while this process is in the background, where the shell writes, and
    /// nothing that was there before another process wrote.
    pub(super) fn has_terminal(&mut self) -> bool {
        let is_behind = self.footer_output().is_in_background();
        let interruptions = interruptions();
        if is_behind || self.footer.interruptions != interruptions {
            self.footer.interruptions = interruptions;
            if let Bottom::Footer(_) = self.footer.bottom {
                self.footer.bottom = Bottom::Free;
            }
            self.calls.leave_line();
            self.answer.leave();
        }
        !is_behind
    }

    /// What erases the footer, if it is there. It is gone then.
    pub(super) fn take_footer(&mut self) -> Option<Control> {
        self.has_terminal();
        let Bottom::Footer(rows) = self.footer.bottom else { return None };
        self.footer.bottom = Bottom::Free;
        let behind = if self.footer.input.is_some() { self.footer.behind } else { 0 };
        let above =
            if wraps_again() { rows_above(&self.footer.rows, behind, self.footer_output().width()) } else { rows - 1 };
        Some(if above > 0 { Control::EraseLines(above) } else { Control::EraseLine })
    }

    /// Clears the footer before anything else is written.
    pub(crate) fn hide_status(&mut self) {
        if let Some(erase) = self.take_footer() {
            let _ = self.footer_output().draw(&[Part::Control(erase)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_a_footer_in_a_terminal_that_became_narrower_takes_more_rows() {
        for (cells, behind, width, rows) in [
            (&[10, 20, 5][..], 0, 80, 2),
            (&[10, 20, 5], 0, 10, 3),
            (&[10, 0, 25], 0, 10, 4),
            (&[10, 0, 25], 10, 10, 3),
            (&[20], 0, 20, 0),
            (&[], 0, 20, 0),
        ] {
            assert_eq!(rows_above(cells, behind, width), rows, "{cells:?} {behind} {width}");
        }
    }
}
