//! The rows below everything else, which are erased before anything else is written: the last lines of a running command, the
//! status line, and below them what the user types meanwhile.

use std::time::{Duration, Instant};

use super::Screen;
use crate::output::{Control, Output, Part};
use crate::render::{Style, rows};

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
    ticks: usize,
    /// When it was drawn last.
    drawn: Option<Instant>,
}

impl Footer {
    /// Whether a frame is due.
    pub(super) fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME)
    }
}

/// A row of the footer.
enum FooterRow {
    Dim(String),
    /// What stands before and after the cursor.
    Input(String, String),
}

/// A text of several lines in one row.
fn shown(text: &str) -> String {
    text.replace('\n', "⏎")
}

impl Screen {
    /// Draws the next frame of the footer; called a few times a second.
    pub(crate) fn tick(&mut self) {
        let busy_text = self.answer.is_open() && !self.at_line_start;
        if !self.live
            || self.footer.bottom == Bottom::Prompt
            || busy_text
            || self.style == Style::Json && Output::Stdout.is_terminal()
        {
            return;
        }
        let status = self.status.line(self.calls.running()).map(|status| {
            let spinner = SPINNER[self.footer.ticks % SPINNER.len()];
            format!("{spinner} {status}")
        });
        self.footer.ticks += 1;
        let width = Output::Stderr.width().saturating_sub(1);
        let input = self.footer.input.as_ref().map(|(before, after)| {
            let before = rows::cut_start(&shown(before), width.saturating_sub(3));
            let after = rows::cut(&shown(after), width.saturating_sub(3 + rows::cells(&before)));
            FooterRow::Input(format!("› {before}"), after)
        });
        let live = self.calls.live_rows(width).into_iter();
        let status = status.map(|status| rows::cut(&status, width));
        let rows = live.chain(status).map(FooterRow::Dim).chain(input);
        self.draw_footer(&rows.collect::<Vec<_>>());
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
    fn draw_footer(&mut self, rows: &[FooterRow]) {
        if rows.is_empty() {
            return self.hide_status();
        }
        let (dim, plain) = (Part::Control(Control::Dim), Part::Control(Control::Plain));
        let mut parts = vec![self.erasing()];
        for (at, row) in rows.iter().enumerate() {
            parts.extend((at > 0).then_some(Part::Text("\n")));
            match row {
                FooterRow::Dim(text) => parts.extend([dim, Part::Text(text), plain]),
                FooterRow::Input(before, after) => {
                    let back = Part::Control(Control::Left(rows::cells(after)));
                    parts.extend([Part::Text(before), Part::Text(after), back]);
                }
            }
        }
        let _ = Output::Stderr.draw(&parts);
        self.footer.bottom = Bottom::Footer(rows.len());
        self.footer.drawn = Some(Instant::now());
    }

    /// What erases the footer.
    fn erasing(&self) -> Part<'static> {
        Part::Control(match self.footer.bottom {
            Bottom::Footer(rows @ 2..) => Control::EraseLines(rows - 1),
            Bottom::Footer(_) | Bottom::Free | Bottom::Prompt => Control::EraseLine,
        })
    }

    /// Clears the footer before anything else is written.
    pub(crate) fn hide_status(&mut self) {
        if let Bottom::Footer(_) = self.footer.bottom {
            let _ = Output::Stderr.draw(&[self.erasing()]);
            self.footer.bottom = Bottom::Free;
        }
    }
}
