//! What is written and stays: notes and questions on stderr, texts on stdout.

use std::io;

use protocol::method::QuestionShown;
use unicode_width::UnicodeWidthChar as _;
use views::PrintableAnswer;

use super::footer::Bottom;
use super::{Screen, Stdout};
use crate::keyboard;
use crate::language;
use crate::output::{Output, Part};
use crate::prompt;
use crate::render::{Style, rows};

/// What is said when nobody reads the answer any more.
const STDOUT_CLOSED: &str =
    "… stdout is closed; the run goes on (Ctrl-C ends it, `limulus sessions show` has its answer)";

/// How a request is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A line answers it.
    Line,
    /// A key answers it.
    Key,
    /// A key says for whose calls it is.
    Scope,
    /// A line that is a yes or a no.
    YesOrNo,
}

impl Screen {
    /// Prints a line on stderr.
    pub(crate) fn say(&mut self, text: &str) {
        let text = &*language::lines(text);
        let line = Output::Stderr.note(text);
        self.say_parts(text, &[Part::Text(&line)]);
    }

    /// Prints rows on stderr that are made for this terminal.
    pub(super) fn say_rows(&mut self, rows: &[String]) {
        let text = rows.join("\n");
        self.say_parts(&text, &[Part::Text(&text)]);
    }

    /// Prints a line on stderr in these parts; `text` is what is printed again if an answer above it is retracted.
    pub(super) fn say_parts(&mut self, text: &str, parts: &[Part<'_>]) {
        self.write_rows();
        self.calls.leave_line();
        self.hide_status();
        self.leave_prompt();
        // Elsewhere the two outputs do not mix, and an answer that is continued is one text.
        if self.style == Style::Terminal {
            self.end_line();
        }
        let _ = Output::Stderr.say(parts);
        if self.live {
            let line = parts.iter().map(|part| if let Part::Text(text) = part { text } else { "" }).chain(["\n"]);
            self.answer.note_below(text, &Output::Stderr.shown(&line.collect::<String>()));
        }
    }

    /// Prints a question on stderr; the user types the answer after it.
    /// What was typed until then is discarded before the mark for the answer is there.
    pub(crate) fn ask(&mut self, asks: Asks, session: &str, question: &str, discard_input: impl FnOnce()) {
        let mark = match asks {
            Asks::Line => rows::ANSWER,
            Asks::Key => rows::ANSWER_KEY,
            Asks::Scope => rows::SCOPE_KEY,
            Asks::YesOrNo => rows::YES_OR_NO,
        };
        self.ask_with(mark, session, |whose, width| allow(whose, question, width), discard_input);
    }

    /// The same for a line that belongs to the answer to a request.
    pub(crate) fn ask_line(&mut self, what: &str, discard_input: impl FnOnce()) {
        self.ask_with(prompt::OPEN, "", |_, width| rows::rows("? ", &language::text(what), width), discard_input);
    }

    /// The same for a question of a model.
    pub(crate) fn ask_user(&mut self, asked: &QuestionShown, takes: &str, discard_input: impl FnOnce()) {
        let rows = |whose: &str, width| {
            rows::user_question(&format!("{whose}{}", asked.question), &asked.choices, takes, width)
        };
        self.ask_with(prompt::OPEN, &asked.session, rows, discard_input);
    }

    fn ask_with(
        &mut self,
        mark: &str,
        session: &str,
        rows: impl FnOnce(&str, usize) -> Vec<String>,
        discard_input: impl FnOnce(),
    ) {
        self.write_rows();
        self.hide_status();
        self.end_line();
        self.calls.leave_line();
        let whose = if self.sessions > 1 { format!("[{session}] ") } else { String::new() };
        let rows = rows(&whose, Output::Stderr.width());
        let _ = Output::Stderr.write(&rows.join("\n"));
        discard_input();
        let _ = Output::Stderr.write(mark);
        self.footer.bottom = Bottom::Prompt;
    }

    /// Whether a question is the last thing on the screen.
    pub(crate) fn is_asking(&self) -> bool {
        self.footer.bottom == Bottom::Prompt
    }

    /// Marks the question as resolved, here or elsewhere.
    pub(crate) fn answered(&mut self) {
        self.footer.bottom = Bottom::Free;
    }

    /// The same of a question that this key has answered: the terminal has shown nothing of it.
    pub(crate) fn answered_by(&mut self, key: &str) {
        self.answered();
        let _ = Output::Stderr.write(&format!("{key}\n"));
    }

    /// Leaves the line of a question that is not answered: it is asked again below what follows.
    pub(super) fn leave_prompt(&mut self) {
        if self.footer.bottom == Bottom::Prompt {
            self.footer.bottom = Bottom::Free;
            let _ = Output::Stderr.write("\n");
        }
    }

    pub(super) fn end_line(&mut self) {
        if !self.at_line_start && self.style != Style::Notes {
            self.out("\n");
        }
    }

    pub(super) fn out(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.make_room();
        let written = Output::Stdout.write(text);
        self.wrote(&Output::Stdout.shown(text));
        self.see_stdout(&written);
    }

    /// A closed stdout ends a command that only shows, as SIGPIPE would. A run is work that somebody may wait for elsewhere:
    /// it goes on, and that is said once.
    pub(super) fn see_stdout(&mut self, written: &io::Result<()>) {
        let is_closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        match self.stdout {
            Stdout::Needed if is_closed => {
                keyboard::give_back();
                std::process::exit(0);
            }
            Stdout::Optional if is_closed => {
                self.stdout = Stdout::Closed;
                self.say(STDOUT_CLOSED);
            }
            Stdout::Optional | Stdout::Needed | Stdout::Closed => {}
        }
    }

    pub(super) fn out_answer(&mut self, text: &PrintableAnswer) {
        if text.as_str().is_empty() {
            return;
        }
        self.make_room();
        let written = Output::Stdout.write_answer(text);
        self.wrote(text.as_str());
        self.see_stdout(&written);
    }

    /// Leaves the end of the screen to a text on stdout.
    fn make_room(&mut self) {
        self.write_rows();
        self.hide_status();
        self.leave_prompt();
        self.calls.leave_line();
    }

    /// Notes what is on the screen now.
    fn wrote(&mut self, text: &str) {
        self.at_line_start = text.ends_with('\n');
        self.answer.wrote(text);
    }
}

/// The number of rows between the start of a text, written from the start of a row, and the cursor. Where terminals differ
/// (joined emoji), the smaller number: nothing above the text may be erased.
pub(super) fn rows_of(text: &str, width: usize) -> usize {
    let width = width.max(1);
    let (mut rows, mut column, mut joined) = (0, 0, false);
    for c in text.chars() {
        let is_part = std::mem::replace(&mut joined, c == '\u{200D}') || ('\u{1F3FB}'..='\u{1F3FF}').contains(&c);
        match (c, if is_part { 0 } else { c.width().unwrap_or(0) }) {
            ('\n', _) => (rows, column) = (rows + 1, 0),
            ('\t', _) => column = (column / 8 * 8 + 8).min(width - 1),
            // A wide character that does not fit moves to the next row; a full row ends only when another character
            // follows.
            (_, cells) if column + cells > width => (rows, column) = (rows + 1, cells),
            (_, cells) => column += cells,
        }
    }
    rows
}

/// The rows of a question for approval.
fn allow(whose: &str, question: &str, width: usize) -> Vec<String> {
    rows::question(&format!("{whose}{}", language::text(question)), width)
}

#[cfg(test)]
mod tests {
    use super::rows_of;

    #[test]
    fn rows_count_breaks_and_wrapping() {
        for (text, width, rows) in [
            ("", 10, 0),
            ("abc", 10, 0),
            ("abc\ndef", 10, 1),
            ("abcdefghijk", 10, 1),
            ("abcdefghij", 10, 0),
            ("abcdefghij\n", 10, 1),
            ("好好好好好好", 10, 1),
            ("a好好好好好好好好好", 10, 1),
            ("好好好", 3, 2),
            // Up to three emoji, or one.
            ("👩\u{200d}👩\u{200d}👧👍🏽", 4, 0),
        ] {
            assert_eq!(rows_of(text, width), rows, "{text:?}");
        }
    }
}
