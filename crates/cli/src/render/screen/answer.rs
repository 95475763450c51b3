//! The answer on its way to the screen: it streams, is sealed, or is retracted and then erased. On a terminal it is rendered:
//! what is whole is written, and what is open is a part of the footer.

use engine::EffectId;
use unicode_width::UnicodeWidthChar as _;
use views::AnswerText;

use super::Screen;
use super::lines::rows_of;
use crate::output::{Control, Output, Part};
use crate::render::Style;
use crate::render::markdown::{Look, Markdown, Row, Span};
use crate::render::style::{MarkdownMode, markdown_mode};
use crate::render::vocabulary;

/// The text of an open stream, with the notes below it.
struct OpenText {
    effect: EffectId,
    /// What stands before it in its first line: the end of the message that it continues.
    before: String,
    /// What was open before it.
    rendered_before: Option<Markdown>,
    /// Everything written to the terminal since its first character.
    written: String,
    /// What stays if it is retracted.
    notes: Vec<String>,
    /// Whether it stays too, because another process has written below it.
    stays: bool,
}

/// What of answers is on the screen and may still change.
pub(super) struct Answer {
    /// Text on the screen that may still be retracted.
    open: Option<OpenText>,
    /// What is on its way to the screen.
    text: AnswerText,
    /// What is not rendered and waits for the end of its line, while this process is in the background.
    held: String,
    /// The last line of a message that the next one continues.
    unfinished: String,
    /// Renders it, on a terminal.
    markdown: Option<Markdown>,
    /// Rows that are written with the next frame.
    rows: Vec<Row>,
}

impl Answer {
    pub(super) fn new(style: Style) -> Self {
        let is_rendered = style == Style::Terminal && markdown_mode() != Some(MarkdownMode::Raw);
        let markdown = is_rendered.then(|| Markdown::new(look()));
        Self {
            open: None,
            text: AnswerText::default(),
            held: String::new(),
            unfinished: String::new(),
            markdown,
            rows: vec![],
        }
    }

    /// Whether text is on the screen that may still be retracted.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether answers are rendered.
    pub(super) fn is_rendered(&self) -> bool {
        self.markdown.is_some()
    }

    /// Renders what is open for the terminal as it is now: it may have another width than before.
    pub(super) fn fit(&mut self) {
        if let Some(markdown) = &mut self.markdown {
            markdown.set_look(look());
        }
    }

    /// The last rows of what is open, each cut to its row.
    pub(super) fn open_rows(&self, width: usize, most: usize) -> Vec<Row> {
        let mut rows = self.markdown.as_ref().map(Markdown::open_rows).unwrap_or_default();
        let from = rows.len().saturating_sub(most);
        rows.drain(..from).for_each(drop);
        rows.into_iter().map(|row| cut(row, width)).collect()
    }

    /// Another process writes on the screen: what is there stays.
    pub(super) fn leave(&mut self) {
        if let Some(open) = &mut self.open {
            open.stays = true;
        }
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

/// A row less than the terminal is wide: so the cursor stays in it.
fn look() -> Look {
    Look { width: Output::Stdout.width().saturating_sub(1), has_colors: Output::Stdout.has_colors() }
}

impl Screen {
    /// Shows answers as they are written, unless the command line says otherwise.
    pub(crate) fn prefer_raw_answers(&mut self) {
        if markdown_mode().is_none() {
            self.answer.markdown = None;
        }
    }

    pub(super) fn stream(&mut self, effect: EffectId, text: &str) {
        if self.answer.open.as_ref().is_none_or(|open| open.effect != effect) {
            self.release_answer();
            self.write_rows();
            let before = if self.at_line_start { String::new() } else { self.answer.unfinished.clone() };
            let (written, rendered_before) = (Output::Stdout.shown(&before).into_owned(), self.answer.markdown.clone());
            self.answer.open = Some(OpenText { effect, written, before, rendered_before, notes: vec![], stays: false });
        }
        let shown = self.answer.text.push(text);
        self.add_answer(&shown);
    }

    /// Adds to the answer. What is rendered waits for the next frame.
    fn add_answer(&mut self, text: &views::PrintableAnswer) {
        self.answer.fit();
        let is_behind = !self.has_terminal();
        match &mut self.answer.markdown {
            Some(markdown) => self.answer.rows.extend(markdown.push(text.as_str())),
            None if self.answer.held.is_empty() && !is_behind => self.out_answer(text),
            None => {
                let held = &mut self.answer.held;
                held.push_str(text.as_str());
                let end = if is_behind { held.rfind('\n').map_or(0, |at| at + 1) } else { held.len() };
                let lines: String = held.drain(..end).collect();
                self.out(&lines);
            }
        }
    }

    /// Shows what of a streamed text waited for its next part.
    fn release_answer(&mut self) {
        let rest = self.answer.text.finish();
        self.add_answer(&rest);
        let held = std::mem::take(&mut self.answer.held);
        self.out(&held);
    }

    /// A message is complete; `continues` says whether the next one continues it.
    pub(super) fn sealed(&mut self, effect: EffectId, text: Option<&str>, continues: bool) {
        self.release_answer();
        self.write_rows();
        let streamed = self.answer.open.take().is_some_and(|open| open.effect == effect);
        if let Some(text) = text.filter(|_| !streamed) {
            self.out_whole(text);
        }
        if continues {
            self.answer.unfinished = last_line(&self.answer.unfinished, text.unwrap_or_default());
        } else {
            self.leave_unfinished();
        }
    }

    /// Shows a text that did not stream.
    pub(super) fn out_whole(&mut self, text: &str) {
        if self.answer.is_rendered() {
            let shown = self.answer.text.push(text);
            self.add_answer(&shown);
            self.release_answer();
            self.write_rows();
        } else {
            self.out(text);
        }
    }

    /// Ends the answer. The rest of one may never have come.
    pub(super) fn leave_unfinished(&mut self) {
        self.answer.unfinished.clear();
        self.answer.fit();
        if let Some(markdown) = &mut self.answer.markdown {
            self.answer.rows.extend(markdown.finish());
            *markdown = Markdown::new(look());
        }
        self.write_rows();
        self.end_line();
    }

    /// Writes the rows that wait, in the place of the footer.
    pub(crate) fn write_rows(&mut self) {
        let rows = std::mem::take(&mut self.answer.rows);
        if rows.is_empty() {
            return;
        }
        let text: String = rows.iter().flat_map(|row| row.iter().map(|span| &*span.text).chain(["\n"])).collect();
        self.leave_prompt();
        self.calls.leave_line();
        let footer = self.take_footer().map(Part::Control);
        let parts = rows.iter().flat_map(|row| parts(row).chain([Part::Text("\n")]));
        let written = Output::Stdout.draw(&footer.into_iter().chain(parts).collect::<Vec<_>>());
        self.at_line_start = true;
        self.answer.wrote(&text);
        self.see_stdout(&written);
    }

    /// Erases the open text if it is still on the screen, and prints the notes below it again.
    pub(super) fn retract(&mut self) {
        self.answer.text = AnswerText::default();
        self.answer.held.clear();
        self.answer.rows.clear();
        self.hide_status();
        let Some(open) = self.answer.open.take() else { return };
        self.leave_prompt();
        if open.stays {
            self.answer.markdown = open.rendered_before;
            self.end_line();
            if !open.written.is_empty() {
                self.say(vocabulary::RETRACTED);
            }
            return;
        }
        // What has left the screen stays.
        let rows = rows_of(&open.written, Output::Stdout.width()).min(Output::Stdout.height());
        let _ = Output::Stdout.draw(&[Part::Control(Control::EraseLines(rows))]);
        self.at_line_start = true;
        self.answer.markdown = open.rendered_before;
        self.out(&open.before);
        for note in open.notes {
            self.say(&note);
        }
    }
}

/// What a terminal receives for a row.
pub(super) fn parts(row: &[Span]) -> impl Iterator<Item = Part<'_>> {
    row.iter().flat_map(|span| {
        let style = span.style.map(Part::Control);
        style.into_iter().chain([Part::Text(&span.text)]).chain(span.style.map(|_| Part::Control(Control::Plain)))
    })
}

/// The beginning of a row that fits.
fn cut(row: Row, width: usize) -> Row {
    let mut left = width;
    let mut fits = |c: &char| {
        let cells = if *c == '\t' { 8 } else { c.width().unwrap_or(0) };
        let fits = cells <= left;
        left = if fits { left - cells } else { 0 };
        fits
    };
    let cut = row.into_iter().map(|span| Span { text: span.text.chars().take_while(&mut fits).collect(), ..span });
    cut.filter(|span| !span.text.is_empty()).collect()
}

/// The last line of a text whose first line continues `before`.
fn last_line(before: &str, text: &str) -> String {
    text.rsplit_once('\n').map_or_else(|| format!("{before}{text}"), |(_, last)| last.to_owned())
}
