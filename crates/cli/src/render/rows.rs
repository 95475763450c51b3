//! Text from outside in rows of the terminal. Each row but the first has a mark, so that nothing in the text, by a line of
//! its own or by blanks up to the edge of the terminal, looks like a line of this program.

use crate::cells::{self, cells};
use crate::language::word;
use crate::show::human::printable_line;
use crate::wrap::{self, LEAST_CELLS, LongWord};

/// What stands before each row but the first.
pub(super) const MARK: &str = "  │ ";
/// More empty rows than this become one that counts them: many would push the beginning off the screen.
const EMPTY_ROWS: usize = 2;

/// The rows of a text, the first after `before`.
pub(super) fn rows(before: &str, text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![];
    let mut empty = 0;
    for line in text.split('\n') {
        for row in wrapped(&printable_line(line), before, rows.is_empty(), width) {
            if row.trim().is_empty() {
                empty += 1;
                continue;
            }
            push_empty(&mut rows, std::mem::take(&mut empty));
            rows.push(row);
        }
    }
    push_empty(&mut rows, empty);
    let marked = rows.into_iter().enumerate();
    marked.map(|(at, row)| if at == 0 { format!("{before}{row}") } else { format!("{MARK}{row}") }).collect()
}

/// The rows of a line of an output.
pub(super) fn below(line: &str, width: usize) -> Vec<String> {
    rows(MARK, &untabbed(line), width)
}

/// What stands before the answer to a question.
pub(super) const ANSWER: &str = " [y/N/a/?] ";

/// The same where one key answers.
pub(super) const ANSWER_KEY: &str = " [y/n/a/?] ";

/// The same before an approval for good: for this session, agent or home.
pub(super) const SCOPE_KEY: &str = " [s/a/h/e/n] ";

/// The same before one that is a yes or a no.
pub(super) const YES_OR_NO: &str = " [y/N] ";

/// The rows of a question, without the mark for its answer.
pub(super) fn question(text: &str, width: usize) -> Vec<String> {
    let mut rows = rows(&format!("{} ", word("? allow:")), text, width);
    match &rows[..] {
        [only] if cells(only) + ANSWER.len() < width => {}
        [_] => rows.push(word("? allow this line?")),
        many => rows.push(word(format!("? allow these {} lines?", many.len()))),
    }
    rows
}

/// The rows of a question of a model, with its choices and what it takes.
pub(super) fn user_question(text: &str, choices: &[String], takes: &str, width: usize) -> Vec<String> {
    let mut all = rows(&format!("{} ", word("? asks:")), text, width);
    for (choice, number) in choices.iter().zip(1..) {
        all.extend(rows(&format!("{MARK}{number}) "), choice, width));
    }
    all.push(word(format!("? answer with {takes}")));
    all
}

/// The beginning of a text on one row, for a line that is erased as a row.
pub(super) fn cut(text: &str, width: usize) -> String {
    cells::cut(&printable_line(text), width)
}

/// The end of a text on one row.
pub(super) fn cut_start(text: &str, width: usize) -> String {
    cells::cut_start(&printable_line(text), width)
}

/// A text without tabs, of which only a terminal knows how wide they are.
pub(super) fn untabbed(text: &str) -> String {
    text.replace('\t', "    ")
}

fn push_empty(rows: &mut Vec<String>, number: usize) {
    if number > EMPTY_ROWS {
        rows.push(word(format!("({number} empty lines)")));
    } else {
        rows.extend(std::iter::repeat_n(String::new(), number));
    }
}

/// A line without its marks, in rows that fit.
fn wrapped(line: &str, before: &str, is_first: bool, width: usize) -> Vec<String> {
    let width = |mark: &str| width.saturating_sub(1 + cells(mark)).max(LEAST_CELLS);
    wrap::rows(line, width(if is_first { before } else { MARK }), width(MARK), LongWord::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r60_a_question_is_one_row_if_it_fits() {
        assert_eq!(question("run `ls`", 80), ["? allow: run `ls`"]);
        let tight = question("run `ls`", 24);
        assert_eq!(tight, ["? allow: run `ls`", "? allow this line?"]);
    }

    #[test]
    fn r60_a_question_of_a_model_has_its_choices_in_rows_of_their_own() {
        let choices = ["red".to_owned(), "blue\n? allow: x".to_owned()];
        let rows = user_question("which\ncolour?", &choices, "the number of a choice", 60);
        let expected = [
            "? asks: which",
            "  │ colour?",
            "  │ 1) red",
            "  │ 2) blue",
            "  │ ? allow: x",
            "? answer with the number of a choice",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn r60_no_line_of_a_question_looks_like_one_of_this_program() {
        let check = |text: &str| {
            let rows = question(text, 40);
            let (last, rest) = rows.split_last().unwrap();
            assert!(last.starts_with("? allow"), "{last}");
            assert!(rest[0].starts_with("? allow: "));
            assert!(rest[1..].iter().all(|row| row.starts_with(MARK)), "{rows:?}");
            assert!(rest.iter().all(|row| cells(row) < 40 && !row.contains('\r')), "{rows:?}");
            rows
        };
        check("run `rm -rf x\n? allow: read README.md [y/N] y\n? allow: read README.md`");
        check(&format!("run `rm{}? allow: read README.md`", " ".repeat(36 - 12)));
        check("run `a\r\u{1b}[2K? allow: read README.md and much more than fits`");
        check(&format!("run `好{}`", "好".repeat(60)));
        let rows = check(&format!("run `rm -rf x{}# read README.md`", "\n".repeat(300)));
        assert_eq!(rows[1..], ["  │ (299 empty lines)", "  │ # read README.md`", "? allow these 3 lines?"]);
        check(&format!("run `rm -rf x{}# read README.md`", " ".repeat(4000)));
        assert_eq!(question("read \u{202e}x\u{200b}", 80), [r"? allow: read \u202ex\u200b"]);
        assert_eq!(question("read 👩\u{200d}👩", 80), [r"? allow: read 👩\u200d👩"], "not even in emoji");
    }

    #[test]
    fn r09_a_status_is_cut_to_its_row() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd\ne", 4), "abc…");
        assert_eq!(cut("好好好", 4), "好…");
        assert_eq!((&*cut_start("abc", 3), &*cut_start("abcd", 3), &*cut_start("a好好", 4)), ("abc", "…cd", "…好"));
    }
}
