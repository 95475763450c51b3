//! What a terminal shows: rows of text with colours, read from what tmux returns.

use std::collections::BTreeSet;

use vte::{Params, Parser, Perform};

use super::Problem;

/// How a text looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// One of the eight colours of a terminal; none = that of text.
    pub(super) colour: Option<u8>,
    pub(super) marks: BTreeSet<Mark>,
}

/// What a text is beside its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Bold,
    Dim,
    Italic,
    Underlined,
}

/// A text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

/// The rows of a screen, without empty ones at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) rows: Vec<Vec<Span>>,
}

impl Screen {
    /// Reads rows with the sequences of their colours. Any other sequence is an error: the picture would lack something.
    pub(super) fn parse(rows: &str) -> Result<Self, Problem> {
        let mut reader = Reader { screen: Self::default(), style: Style::default(), unknown: None };
        let mut parser = Parser::new();
        for row in rows.lines() {
            reader.screen.rows.push(vec![]);
            parser.advance(&mut reader, row.as_bytes());
        }
        if let Some(unknown) = reader.unknown {
            return Err(format!("a sequence that is not understood: {unknown}").into());
        }
        Ok(reader.screen.without_end())
    }

    /// The rows before the last that begins with this.
    pub(super) fn before(mut self, start: &str) -> Self {
        let end = self.rows.iter().rposition(|row| text(row).starts_with(start));
        self.rows.truncate(end.unwrap_or(self.rows.len()));
        self.without_end()
    }

    /// With one text in place of another.
    pub(super) fn with(mut self, text: &str, other: &str) -> Self {
        for span in self.rows.iter_mut().flatten() {
            span.text = span.text.replace(text, other);
        }
        self
    }

    /// Without colours.
    pub(super) fn text(&self) -> String {
        self.rows.iter().map(|row| text(row) + "\n").collect()
    }

    fn without_end(mut self) -> Self {
        while self.rows.last().is_some_and(|row| text(row).trim().is_empty()) {
            self.rows.pop();
        }
        self
    }
}

fn text(row: &[Span]) -> String {
    row.iter().map(|span| span.text.as_str()).collect()
}

struct Reader {
    screen: Screen,
    style: Style,
    /// The first sequence that is not understood.
    unknown: Option<String>,
}

impl Perform for Reader {
    fn print(&mut self, character: char) {
        let Some(row) = self.screen.rows.last_mut() else { return };
        match row.last_mut().filter(|span| span.style == self.style) {
            Some(span) => span.text.push(character),
            None => row.push(Span { style: self.style.clone(), text: character.to_string() }),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        let numbers: Vec<u16> = params.iter().flatten().copied().collect();
        let is_known = action == 'm' && numbers.iter().all(|number| self.style.apply(*number));
        if !is_known {
            self.unknown.get_or_insert_with(|| format!("CSI {numbers:?} {action}"));
        }
    }

    fn execute(&mut self, byte: u8) {
        self.unknown.get_or_insert_with(|| format!("the control character {byte:#04x}"));
    }
}

impl Style {
    /// Changes it as one number of such a sequence says. Returns whether a picture can show that.
    fn apply(&mut self, number: u16) -> bool {
        match number {
            0 => *self = Self::default(),
            1 => _ = self.marks.insert(Mark::Bold),
            2 => _ = self.marks.insert(Mark::Dim),
            3 => _ = self.marks.insert(Mark::Italic),
            4 => _ = self.marks.insert(Mark::Underlined),
            22 => self.marks.retain(|mark| !matches!(mark, Mark::Bold | Mark::Dim)),
            23 => _ = self.marks.remove(&Mark::Italic),
            24 => _ = self.marks.remove(&Mark::Underlined),
            30..=37 => self.colour = Some((number - 30) as u8),
            39 => self.colour = None,
            // The ground is never another one.
            49 => {}
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_their_colours() {
        let screen = Screen::parse("a\x1b[1;36mb\x1b[39mc\n\x1b[0md  \n\n").expect("it is read");
        let span = |text: &str, colour, marks: &[Mark]| Span {
            style: Style { colour, marks: marks.iter().copied().collect() },
            text: text.to_owned(),
        };
        assert_eq!(
            screen.rows[0],
            [span("a", None, &[]), span("b", Some(6), &[Mark::Bold]), span("c", None, &[Mark::Bold])]
        );
        assert_eq!(screen.rows[1], [span("d  ", None, &[])]);
        assert_eq!(screen.text(), "abc\nd  \n");
        assert_eq!(screen.before("d").with("b", "/b").text(), "a/bc\n");
    }

    #[test]
    fn what_a_picture_cannot_show_is_an_error() {
        for sequence in ["\x1b[41ma", "\x1b[38;5;200ma", "\x1b[2Ja", "\x1b[7ma", "\x07"] {
            assert!(Screen::parse(sequence).is_err(), "{sequence:?}");
        }
    }
}
