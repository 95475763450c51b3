//! Tables: their columns have their widths from the head and the first row, so that a row can be shown as soon as it is there.

use unicode_width::UnicodeWidthStr as _;

use super::rows::wrap;
use super::{Look, Row, Span, inline};
use crate::output::Control;

/// Cells of the narrowest column.
const LEAST_CELLS: usize = 4;
/// Columns of a table that is aligned: one with more is shown as it is.
const COLUMNS: usize = 64;
/// What stands between two columns.
const BETWEEN: &str = " │ ";

/// A table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    look: Look,
    /// The head and the line below it, until the first row is there.
    head: Option<String>,
    aligned: Vec<Align>,
    widths: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Middle,
    Right,
}

impl Table {
    /// A table with this head, if the line below it fits.
    pub(super) fn new(head: &str, below: &str, look: Look) -> Option<Self> {
        let aligned: Vec<Align> = cells(below).iter().map(|cell| align(cell)).collect::<Option<_>>()?;
        let fits = head.contains('|') && cells(head).len() == aligned.len() && aligned.len() <= COLUMNS;
        fits.then(|| Self { look, head: Some(head.to_owned()), aligned, widths: vec![] })
    }

    /// Adds a row.
    pub(super) fn push(&mut self, line: &str) -> Vec<Row> {
        let mut rows = self.begin(Some(line));
        rows.extend(self.rows(line, None));
        rows
    }

    /// The table ends.
    pub(super) fn finish(&mut self) -> Vec<Row> {
        self.begin(None)
    }

    /// Shows the head, whose widths are those of the first row too.
    fn begin(&mut self, first: Option<&str>) -> Vec<Row> {
        let Some(head) = self.head.take() else { return vec![] };
        let lines = [Some(&*head), first];
        let mut widths = vec![LEAST_CELLS; self.aligned.len()];
        for line in lines.into_iter().flatten() {
            for (width, cell) in widths.iter_mut().zip(cells(line)) {
                *width = (*width).max(cells_of(&inline::spans(&cell, None, self.look)));
            }
        }
        self.widths = fitted(widths, self.look.width);
        let style = self.look.has_colors.then_some(Control::Bold);
        let mut rows = self.rows(&head, style);
        let lines: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
        rows.push(vec![Span::new(self.dim(), lines.join("─┼─"))]);
        rows
    }

    fn dim(&self) -> Option<Control> {
        self.look.has_colors.then_some(Control::Dim)
    }

    /// The rows of a line of the table: as many as its longest cell needs. Cells past the last column are in it.
    fn rows(&self, line: &str, style: Option<Control>) -> Vec<Row> {
        let mut texts = cells(line);
        if texts.len() > self.widths.len() {
            let rest = texts.split_off(self.widths.len() - 1);
            texts.push(rest.join(" | "));
        }
        let none = Span::plain("");
        let cell =
            |(text, width): (&String, &usize)| wrap(&inline::spans(text, style, self.look), &none, &none, *width);
        let columns: Vec<Vec<Row>> = texts.iter().zip(&self.widths).map(cell).collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or_default().max(1);
        (0..height).map(|at| self.row(&columns, at)).collect()
    }

    fn row(&self, columns: &[Vec<Row>], at: usize) -> Row {
        let mut row = vec![];
        let mut blanks = 0;
        for (number, width) in self.widths.iter().enumerate() {
            let cell = columns.get(number).and_then(|column| column.get(at)).map(Vec::as_slice).unwrap_or_default();
            let left = width.saturating_sub(cells_of(cell));
            let before = match self.aligned[number] {
                Align::Left => 0,
                Align::Middle => left / 2,
                Align::Right => left,
            };
            if number > 0 {
                row.push(Span::new(self.dim(), " ".repeat(blanks) + BETWEEN));
            }
            blanks = *width;
            if !cell.is_empty() {
                row.push(Span::plain(" ".repeat(before)));
                row.extend_from_slice(cell);
                blanks = left - before;
            }
        }
        row.retain(|span| !span.text.is_empty());
        if let Some(last) = row.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        row
    }
}

fn cells_of(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.text.width()).sum()
}

/// Widths that fit into a row: the widest give way.
fn fitted(mut widths: Vec<usize>, width: usize) -> Vec<usize> {
    let most = width.saturating_sub(BETWEEN.width() * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > most {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > LEAST_CELLS) else { break };
        *widest -= 1;
    }
    widths
}

/// The cells of a line. A mark after a backslash, or in code, is text.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut cells, mut cell) = (vec![], String::new());
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.peek() == Some(&'|') => cell.extend(rest.next()),
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    if !cell.trim().is_empty() {
        cells.push(cell.trim().to_owned());
    }
    cells
}

fn align(cell: &str) -> Option<Align> {
    let dashes = cell.trim_matches(':');
    let is_mark = !dashes.is_empty() && dashes.chars().all(|c| c == '-');
    let align = match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Align::Middle,
        (false, true) => Align::Right,
        (_, false) => Align::Left,
    };
    is_mark.then_some(align)
}
