//! Texts by the cells that they take on a terminal.

use unicode_width::UnicodeWidthChar as _;

/// The cells that a text takes.
pub(crate) fn cells(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The beginning of a text that fits into so many cells.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    fitting(text.chars(), width).chain(['…']).collect()
}

/// The end of a text that fits into so many cells.
pub(crate) fn cut_start(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    let end: Vec<char> = fitting(text.chars().rev(), width).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// As many characters as fit beside the mark of what is left out.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> impl Iterator<Item = char> {
    let mut left = width.saturating_sub(1);
    chars.take_while(move |c| {
        let cells = c.width().unwrap_or(0);
        let fits = cells <= left;
        left = left.saturating_sub(cells);
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_text_is_cut_by_the_cells_that_it_takes() {
        for (text, width, beginning, end) in [
            ("abc", 3, "abc", "abc"),
            ("abcd", 3, "ab…", "…cd"),
            ("好好好", 5, "好好…", "…好好"),
            ("好好好", 4, "好…", "…好"),
            ("abc", 0, "…", "…"),
        ] {
            assert_eq!(
                (cut(text, width), cut_start(text, width)),
                (beginning.to_owned(), end.to_owned()),
                "{text} {width}"
            );
        }
    }
}
