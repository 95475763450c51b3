//! The rows below everything else, which are erased before anything else is written: the status line, and below it what the
//! user types meanwhile.

use super::Screen;
use crate::output::{Control, Output, Part};
use crate::render::{Style, rows};

/// The frames of the spinner.
pub(crate) const SPINNER: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

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
    /// What the user types, below the status.
    input: Option<String>,
    ticks: usize,
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
        self.draw_footer(status.as_deref());
    }

    /// Sets what the user types, which the last row of the footer shows: its end, if it is longer than a row. None = there
    /// is no such row.
    #[allow(dead_code, reason = "input during a run comes with the next change")]
    pub(crate) fn set_input_line(&mut self, input: Option<&str>) {
        if self.footer.input.as_deref() != input {
            self.footer.input = input.map(str::to_owned);
            self.hide_status();
            self.tick();
        }
    }

    fn draw_footer(&mut self, status: Option<&str>) {
        let width = Output::Stderr.width().saturating_sub(1);
        let status = status.map(|status| rows::cut(status, width));
        let input =
            self.footer.input.as_ref().map(|input| format!("› {}", rows::cut_start(input, width.saturating_sub(2))));
        let (dim, plain) = (Part::Control(Control::Dim), Part::Control(Control::Plain));
        let mut parts = vec![self.erasing()];
        let mut drawn = 0;
        if let Some(status) = &status {
            parts.extend([dim, Part::Text(status), plain]);
            drawn += 1;
        }
        if let Some(input) = &input {
            parts.extend((drawn > 0).then_some(Part::Text("\n")));
            parts.push(Part::Text(input));
            drawn += 1;
        }
        if drawn > 0 {
            let _ = Output::Stderr.draw(&parts);
            self.footer.bottom = Bottom::Footer(drawn);
        }
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
