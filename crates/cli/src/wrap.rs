//! A line in rows of the terminal, broken at the places where Unicode allows it (UAX 14), by the cells that its words take.

use unicode_linebreak::{BreakOpportunity, linebreaks};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::for_terminal;

/// Cells of a row in a terminal that is too narrow for what stands before it.
pub(crate) const LEAST_CELLS: usize = 16;

/// How a command of this program begins at the end of a line.
const COMMAND: &str = " limulus ";

/// What becomes of a word that is longer than a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongWord {
    /// It stays whole, and the terminal wraps it, so that it can be copied. So does a command that fits into a row: what stands
    /// between backticks, or the end of a line that begins with `limulus`.
    Whole,
    /// It is broken: no row is longer than it may be.
    Broken,
}

/// A text of several lines for a terminal: each line but the first, and each further row of a line, is indented, so that it looks
/// like no line of its own.
pub(crate) fn note(text: &str, width: usize) -> String {
    let text = for_terminal(text).replace('\t', "    ");
    let mut rows_of_text: Vec<String> = vec![];
    for line in text.split('\n') {
        let body = line.trim_start_matches(' ');
        let own = line.len() - body.len();
        let indent = if rows_of_text.is_empty() || own >= 2 { own } else { own + 2 };
        let cells = |indent: usize| width.saturating_sub(1 + indent).max(LEAST_CELLS);
        let rows = rows(body, cells(indent), cells(indent + 2), LongWord::Whole).into_iter().enumerate();
        let indented = rows.map(|(at, row)| format!("{}{row}", " ".repeat(if at == 0 { indent } else { indent + 2 })));
        rows_of_text.extend(indented);
    }
    rows_of_text.join("\n")
}

/// Whether a row may end here: at a blank, and in scripts that have none. A path, an address or an option stays whole, so that it
/// can be copied.
pub(crate) fn is_break(text: &str, end: usize, opportunity: BreakOpportunity) -> bool {
    let (before, after) = (text[..end].chars().next_back(), text[end..].chars().next());
    let is_between = before.is_some_and(char::is_whitespace) || before.into_iter().chain(after).any(has_no_blanks);
    opportunity == BreakOpportunity::Mandatory || is_between
}

/// Whether a script puts no blanks between words: Chinese and Japanese.
pub(crate) fn has_no_blanks(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// The rows of a line: the first has so many cells, each other so many.
pub(crate) fn rows(line: &str, first: usize, rest: usize, long: LongWord) -> Vec<String> {
    let mut rows = Rows { whole: vec![], row: String::new(), filled: 0, cells: first, rest, long };
    let mut quotes = Quotes::new(line, rest, long);
    let mut begun = 0;
    for (end, _) in linebreaks(line).filter(|(end, of)| is_break(line, *end, *of)) {
        if !quotes.contain(end) {
            rows.add(&line[begun..end]);
            begun = end;
        }
    }
    rows.add(&line[begun..]);
    rows.whole.push(rows.row);
    rows.whole
}

/// The rows so far.
struct Rows {
    whole: Vec<String>,
    /// The last one, and the cells that are filled of those that it has.
    row: String,
    filled: usize,
    cells: usize,
    rest: usize,
    long: LongWord,
}

impl Rows {
    /// Adds a word with the blanks behind it.
    fn add(&mut self, word: &str) {
        let shown = word.trim_end();
        let cells = shown.width();
        if self.filled > 0 && self.filled + cells > self.cells {
            self.end();
        }
        // Blanks that are no place to break at might hide where its rows end.
        let is_broken = self.long == LongWord::Broken || shown.contains(char::is_whitespace);
        if is_broken && cells > self.cells {
            self.break_up(shown);
        } else {
            self.row.push_str(shown);
            self.filled += cells;
        }
        match &word[shown.len()..] {
            // The row ends with it.
            " " if self.filled >= self.cells => {}
            blanks if self.long == LongWord::Broken => self.break_up(blanks),
            blanks => {
                self.row.push_str(blanks);
                self.filled += blanks.width();
            }
        }
    }

    fn break_up(&mut self, text: &str) {
        let mut was_joiner = false;
        for c in text.chars() {
            let is_part = was_joiner || c.width().unwrap_or(0) == 0 || ('\u{1F3FB}'..='\u{1F3FF}').contains(&c);
            let cells = if is_part { 0 } else { c.width().unwrap_or(0) };
            was_joiner = c == '\u{200D}';
            if self.filled + cells > self.cells {
                self.end();
            }
            self.row.push(c);
            self.filled += cells;
        }
    }

    fn end(&mut self) {
        let mut row = std::mem::take(&mut self.row);
        row.truncate(row.trim_end().len());
        self.whole.push(row);
        (self.filled, self.cells) = (0, self.rest);
    }
}

/// What stands between backticks, in order, and a command of this program behind the last of them.
struct Quotes<'a> {
    line: &'a str,
    /// The cells of a row; none if nothing stays whole.
    cells: Option<usize>,
    /// The last one that was looked at: where it begins and ends, and whether it fits.
    last: (usize, usize, bool),
}

impl<'a> Quotes<'a> {
    fn new(line: &'a str, cells: usize, long: LongWord) -> Self {
        Self { line, cells: Some(cells).filter(|_| long == LongWord::Whole), last: (0, 0, false) }
    }

    /// Whether this place is inside of one that stays whole. Places come in order, so that each byte is looked at once.
    fn contain(&mut self, place: usize) -> bool {
        let Some(cells) = self.cells else { return false };
        while self.last.1 < place {
            let rest = &self.line[self.last.1..];
            let begin = rest.find('`');
            let end = begin.and_then(|begin| rest[begin + 1..].find('`').map(|at| begin + at + 2));
            // A command is looked for once: behind the last of them.
            let next = begin.zip(end).or_else(|| Some((rest.rfind(COMMAND)? + 1, rest.len())));
            let Some((begin, end)) = next else {
                self.cells = None;
                return false;
            };
            self.last = (self.last.1 + begin, self.last.1 + end, rest[begin..end].width() <= cells);
        }
        let (begin, end, fits) = self.last;
        fits && begin < place && place < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_line_is_wrapped_between_words_by_their_cells() {
        let check = |line: &str, long, expected: &[&str]| {
            assert_eq!(rows(line, 10, 8, long), expected, "{line}");
        };
        for long in [LongWord::Whole, LongWord::Broken] {
            check("", long, &[""]);
            check("one two three four", long, &["one two", "three", "four"]);
            check("one two 3 four five", long, &["one two 3", "four", "five"]);
            check("0123456789 x", long, &["0123456789", "x"]);
            check("好好好好好好好", long, &["好好好好好", "好好"]);
            check("a好好 👍🏽👍🏽👍🏽 👩\u{200d}👩\u{200d}👧 b", long, &["a好好", "👍🏽👍🏽👍🏽", "👩\u{200d}👩\u{200d}👧 b"]);
            check("--long-option=a/path x", LongWord::Whole, &["--long-option=a/path", "x"]);
        }
        check("--long-option=a/path x", LongWord::Broken, &["--long-opt", "ion=a/pa", "th x"]);
        check("x 👍🏽👍🏽👍🏽👍🏽👍🏽👍🏽", LongWord::Broken, &["x", "👍🏽👍🏽👍🏽👍🏽", "👍🏽👍🏽"]);
        check(&format!("rm{}x", " ".repeat(20)), LongWord::Broken, &["rm", "", "    x"]);
    }

    #[test]
    fn r09_the_lines_of_a_note_are_indented() {
        assert_eq!(note("✗ a\n✓ read done\n  hint: b", 80), "✗ a\n  ✓ read done\n  hint: b");
        let text = "✗ one two three four five\n✓ read done and more\n  hint: look into 好好好好好好";
        let rows = "✗ one two three\n  four five\n  ✓ read done and\n    more\n  hint: look into\n    好好好好好好";
        assert_eq!(note(text, 19), rows);
        assert_eq!(note("a\u{1b}[2J bbbbbb cccc", 19), "a\\u001b[2J bbbbbb\n  cccc", "by what is shown");
    }

    #[test]
    fn r09_a_command_in_a_note_stays_in_one_row() {
        let check = |line: &str, expected: &[&str]| assert_eq!(rows(line, 20, 20, LongWord::Whole), expected, "{line}");
        check("run it with `limulus x -y`; or not", &["run it with", "`limulus x -y`; or", "not"]);
        check("one `two three four five six` seven", &["one `two three four", "five six` seven"]);
        check("done · undo: limulus undo x", &["done · undo:", "limulus undo x"]);
        check("`a b` and c, undo: limulus undo -s x", &["`a b` and c, undo:", "limulus undo -s x"]);
        check("undo: limulus undo --session x", &["undo: limulus undo", "--session x"]);
        check("a ` alone in words that wrap", &["a ` alone in words", "that wrap"]);
    }

    /// Each byte is looked at once: if the rest of the line were read for each of them, this would take many minutes.
    #[test]
    fn r44_a_line_of_half_a_million_commands_in_quotes_is_wrapped() {
        let rows = rows(&"`a b` ".repeat(500_000), 20, 20, LongWord::Whole);
        assert_eq!((rows.len(), rows[0].as_str()), (166_667, "`a b` `a b` `a b`"));
    }
}
