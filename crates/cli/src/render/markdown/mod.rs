//! Markdown on a terminal, while it streams. A text is taken in line by line; a block becomes rows when it is whole, a line of
//! code and a row of a table at once. Rows never change once they are out: what is still open is for the caller to draw again.
//!
//! Nothing is lost: what this does not render, it gives back as it was written. A row has no blanks at its end, and code has
//! nothing around it, so what is copied from the terminal can be used.

mod code;
mod inline;
mod line;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use self::code::{Fence, Language};
use self::line::Line;
use self::table::Table;
use crate::output::Control;

/// Bytes of one open block. A longer one is shown in parts: it is rendered again with every frame.
const BLOCK_BYTES: usize = 8 << 10;

/// A piece of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Option<Control>,
    pub(super) text: String,
}

impl Span {
    fn new(style: Option<Control>, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }

    fn plain(text: impl Into<String>) -> Self {
        Self::new(None, text)
    }
}

/// A row of the terminal, or a line of code, which the terminal wraps.
pub(super) type Row = Vec<Span>;

/// How texts are rendered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// The cells of a row.
    pub(super) width: usize,
    /// Whether there are colours. Without them the marks of Markdown stay, since nothing else would say what they say.
    pub(super) has_colors: bool,
}

/// A text that comes in pieces.
#[derive(Debug, Clone)]
pub(super) struct Markdown {
    look: Look,
    /// The line that is not whole yet.
    line: String,
    open: Open,
    /// Cells up to the text of the last item of a list: a line that is indented so far belongs to it.
    item_indent: usize,
    /// Whether an empty row is due before the next block.
    is_gap_due: bool,
    /// Whether anything is out.
    has_begun: bool,
}

/// The block that is open.
#[derive(Debug, Clone)]
enum Open {
    Nothing,
    Text(Text),
    Code(Fence, Language),
    Table(Table),
}

/// Lines that are one text: a paragraph, an item of a list, a heading.
#[derive(Debug, Clone, Default)]
struct Text {
    /// What stands before its first row: the indent and the mark of an item.
    mark: String,
    source: String,
}

impl Markdown {
    pub(super) fn new(look: Look) -> Self {
        let (line, open) = (String::new(), Open::Nothing);
        Self { look, line, open, item_indent: 0, is_gap_due: false, has_begun: false }
    }

    /// Renders what is not out yet for another width.
    pub(super) fn set_look(&mut self, look: Look) {
        self.look = look;
    }

    /// Adds a piece. Returns the rows that are final now.
    pub(super) fn push(&mut self, mut piece: &str) -> Vec<Row> {
        let mut rows = vec![];
        while let Some((rest, next)) = piece.split_once('\n') {
            self.line.push_str(rest);
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, &mut rows);
            piece = next;
        }
        self.line.push_str(piece);
        rows
    }

    /// The text ends. Returns the rest of its rows.
    pub(super) fn finish(&mut self) -> Vec<Row> {
        let mut rows = vec![];
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut rows);
        }
        self.close(&mut rows);
        *self = Self::new(self.look);
        rows
    }

    /// Whether nothing is open: all of the text is out.
    pub(super) fn is_at_rest(&self) -> bool {
        self.line.is_empty() && matches!(self.open, Open::Nothing)
    }

    /// The rows of what is open, as they would be if the text ended here; the end of a line that is extremely long.
    pub(super) fn open_rows(&self) -> Vec<Row> {
        if self.line.len() > BLOCK_BYTES {
            let end = self.line.ceil_char_boundary(self.line.len() - BLOCK_BYTES / 4);
            return inline::plain(&self.line[end..], self.look);
        }
        if self.is_at_rest() { vec![] } else { self.clone().finish() }
    }

    fn take_line(&mut self, line: &str, rows: &mut Vec<Row>) {
        match &mut self.open {
            Open::Code(fence, language) => {
                let is_end = fence.is_closed_by(line);
                let row =
                    if is_end { fence.row(line, self.look) } else { language.row(fence.dedented(line), self.look) };
                if is_end {
                    self.open = Open::Nothing;
                }
                return rows.push(row);
            }
            Open::Table(table) if line.contains('|') => return rows.extend(table.push(line)),
            Open::Table(_) => self.close(rows),
            Open::Text(_) | Open::Nothing => {}
        }
        if line.len() > BLOCK_BYTES {
            self.begin(rows);
            self.item_indent = 0;
            return rows.push(vec![Span::plain(line.trim_end())]);
        }
        self.take_line_of_text(line, rows);
    }

    fn take_line_of_text(&mut self, line: &str, rows: &mut Vec<Row>) {
        match line::of(line, self.has_open_text(), self.item_indent) {
            Line::Blank => {
                self.close(rows);
                self.is_gap_due = self.has_begun;
            }
            Line::Fence(fence) => {
                self.begin(rows);
                let language = Language::of(fence.info());
                rows.push(fence.row(line, self.look));
                self.open = Open::Code(fence, language);
            }
            Line::Whole { mark, text } => {
                self.begin(rows);
                self.item_indent = 0;
                rows.extend(inline::heading(&mark, text, self.look));
            }
            Line::Raw => {
                self.begin(rows);
                self.item_indent = 0;
                rows.push(vec![Span::plain(line.trim_end())]);
            }
            Line::Quote { mark, text } => {
                self.begin(rows);
                rows.extend(inline::quote(&mark, text, self.look));
            }
            Line::Item { mark, text, indent } => {
                self.begin(rows);
                self.item_indent = indent;
                self.open = Open::Text(Text { mark, source: text.to_owned() });
            }
            Line::Delimiter if self.begin_table(line, rows) => {}
            Line::Delimiter | Line::Text => self.add_text(line, rows),
        }
    }

    fn has_open_text(&self) -> bool {
        matches!(&self.open, Open::Text(text) if !text.source.is_empty())
    }

    fn add_text(&mut self, line: &str, rows: &mut Vec<Row>) {
        if let Open::Text(text) = &mut self.open {
            text.source.push('\n');
            text.source.push_str(line.trim_start());
            if text.source.len() > BLOCK_BYTES {
                self.close(rows);
            }
            return;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let belongs = self.item_indent > 0 && indent >= self.item_indent;
        self.begin(rows);
        self.item_indent = if belongs { self.item_indent } else { 0 };
        let mark = " ".repeat(self.item_indent);
        self.open = Open::Text(Text { mark, source: line.trim_start().to_owned() });
    }

    /// A line of dashes below a line of cells begins a table.
    fn begin_table(&mut self, line: &str, rows: &mut Vec<Row>) -> bool {
        let Open::Text(text) = &mut self.open else { return false };
        let (before, head) = text.source.rsplit_once('\n').unwrap_or(("", &text.source));
        let Some(table) = Table::new(head, line, self.look) else { return false };
        text.source = before.to_owned();
        if text.source.is_empty() && text.mark.trim().is_empty() {
            self.open = Open::Nothing;
        }
        self.begin(rows);
        self.open = Open::Table(table);
        true
    }

    /// Begins a block: closes the one before.
    fn begin(&mut self, rows: &mut Vec<Row>) {
        self.close(rows);
        if std::mem::take(&mut self.is_gap_due) {
            rows.push(vec![]);
        }
        self.has_begun = true;
    }

    fn close(&mut self, rows: &mut Vec<Row>) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Text(text) => rows.extend(inline::paragraph(&text.mark, &text.source, self.look)),
            Open::Table(mut table) => rows.extend(table.finish()),
            Open::Nothing | Open::Code(..) => {}
        }
    }
}
