//! The answer on its way to the screen: it streams, is sealed, or is retracted and then erased.

use engine::EffectId;
use views::AnswerText;

use super::Screen;
use super::lines::rows_of;
use crate::output::{Control, Output, Part};

/// The text of an open stream, with the notes below it.
struct OpenText {
    effect: EffectId,
    /// What stands before it in its first line: the end of the message that it continues.
    before: String,
    /// Everything written to the terminal since its first character.
    written: String,
    /// What stays if it is retracted.
    notes: Vec<String>,
}

/// What of answers is on the screen and may still change.
#[derive(Default)]
pub(super) struct Answer {
    /// Text on the screen that may still be retracted.
    open: Option<OpenText>,
    /// What is on its way to the screen.
    text: AnswerText,
    /// The last line of a message that the next one continues.
    unfinished: String,
}

impl Answer {
    /// Whether text is on the screen that may still be retracted.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Records text on the screen.
    pub(super) fn wrote(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            open.written.push_str(text);
        }
    }

    /// Records a note on the screen, and the line as which it was written.
    pub(super) fn note_below(&mut self, note: &str, line: &str) {
        if let Some(open) = &mut self.open {
            open.written.push_str(line);
            open.notes.push(note.to_owned());
        }
    }
}

impl Screen {
    pub(super) fn stream(&mut self, effect: EffectId, text: &str) {
        if self.answer.open.as_ref().is_none_or(|open| open.effect != effect) {
            self.release_answer();
            let before = if self.at_line_start { String::new() } else { self.answer.unfinished.clone() };
            let written = Output::Stdout.shown(&before).into_owned();
            self.answer.open = Some(OpenText { effect, written, before, notes: vec![] });
        }
        let shown = self.answer.text.push(text);
        self.out_answer(&shown);
    }

    /// Shows what of a streamed text waited for its next part.
    fn release_answer(&mut self) {
        let rest = self.answer.text.finish();
        self.out_answer(&rest);
    }

    /// A message is complete; `continues` says whether the next one continues it.
    pub(super) fn sealed(&mut self, effect: EffectId, text: Option<&str>, continues: bool) {
        self.release_answer();
        let streamed = self.answer.open.take().is_some_and(|open| open.effect == effect);
        if let Some(text) = text.filter(|_| !streamed) {
            self.out(text);
        }
        if continues {
            self.answer.unfinished = last_line(&self.answer.unfinished, text.unwrap_or_default());
        } else {
            self.leave_unfinished();
        }
    }

    /// Ends the line of the answer. The rest of an answer may never have come.
    pub(super) fn leave_unfinished(&mut self) {
        self.answer.unfinished.clear();
        self.end_line();
    }

    /// Erases the open text if it is still on the screen, and prints the notes below it again.
    pub(super) fn retract(&mut self) {
        self.answer.text = AnswerText::default();
        let Some(open) = self.answer.open.take() else { return };
        self.hide_status();
        self.leave_prompt();
        let rows = rows_of(&open.written, Output::Stdout.width());
        let _ = Output::Stdout.draw(&[Part::Control(Control::EraseLines(rows))]);
        self.at_line_start = true;
        self.out(&open.before);
        for note in open.notes {
            self.say(&note);
        }
    }
}

/// The last line of a text whose first line continues `before`.
fn last_line(before: &str, text: &str) -> String {
    text.rsplit_once('\n').map_or_else(|| format!("{before}{text}"), |(_, last)| last.to_owned())
}
