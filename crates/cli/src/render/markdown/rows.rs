//! Breaks spans into rows at the places where Unicode allows it (UAX 14), by the cells that they take.

use unicode_linebreak::{BreakOpportunity, linebreaks};
use unicode_width::UnicodeWidthStr as _;

use super::{Row, Span};
use crate::wrap::is_break;

/// Cells of a row in a terminal that is too narrow for its marks.
const LEAST_CELLS: usize = 8;

/// The rows of a text, the first after `first`, the others after `rest`. A word that is longer than a row, such as an address,
/// stays whole: the terminal wraps it, and it can be copied.
pub(super) fn wrap(spans: &[Span], first: &Span, rest: &Span, width: usize) -> Vec<Row> {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    let (mut rows, mut start, mut cells) = (vec![], 0, 0);
    let mut begun = 0;
    let space = |before: &Span| width.saturating_sub(before.text.width()).max(LEAST_CELLS);
    let mut most = space(first);
    let mut left = Left { spans, used: 0 };
    let mut push = |range: std::ops::Range<usize>| {
        let before = if rows.is_empty() { first } else { rest };
        rows.push(row(before, left.take(range.len())));
    };
    for (end, opportunity) in linebreaks(&text).filter(|(end, of)| is_break(&text, *end, *of)) {
        let word = &text[begun..end];
        let shown = word.trim_end();
        if start < begun && cells + shown.width() > most {
            push(start..begun);
            (start, cells, most) = (begun, 0, space(rest));
        }
        cells += word.width();
        begun = end;
        if opportunity == BreakOpportunity::Mandatory {
            push(start..end);
            (start, cells, most) = (end, 0, space(rest));
        }
    }
    rows
}

/// A row after what stands before it, without blanks at its end.
fn row(before: &Span, mut spans: Vec<Span>) -> Row {
    while let Some(last) = spans.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        spans.pop();
    }
    let is_blank = before.text.trim().is_empty() && spans.is_empty() || before.text.is_empty();
    if is_blank {
        return spans;
    }
    let mut row = vec![before.clone()];
    if spans.is_empty() {
        row[0].text.truncate(before.text.trim_end().len());
    }
    row.append(&mut spans);
    row
}

/// The spans that are in no row yet.
struct Left<'a> {
    spans: &'a [Span],
    /// Bytes of the first one that are in a row.
    used: usize,
}

impl Left<'_> {
    /// The next bytes. Rows come in order, so that each byte is looked at once.
    fn take(&mut self, mut bytes: usize) -> Vec<Span> {
        let mut taken = vec![];
        while let Some(span) = self.spans.first().filter(|_| bytes > 0) {
            let to = span.text.len().min(self.used + bytes);
            if self.used < to {
                taken.push(Span::new(span.style, &span.text[self.used..to]));
            }
            bytes -= to - self.used;
            self.used = to;
            if to == span.text.len() {
                (self.spans, self.used) = (&self.spans[1..], 0);
            }
        }
        taken
    }
}
