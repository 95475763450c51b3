//! Truncates a long text to its beginning and its end.

/// Characters of the beginning, and of the end, of a truncated result.
const RESULT_CHARS: usize = 1_500;

/// The result of a call as its beginning and end, with a line between that says what is missing and where it is.
pub(crate) fn truncate(text: &str, kept_as: &str) -> String {
    let left = text.chars().count().saturating_sub(2 * RESULT_CHARS);
    let between =
        format!("\n[… {left} characters were left out to make room; the whole output is kept as {kept_as} …]\n");
    ends(text, RESULT_CHARS, RESULT_CHARS, &between)
}

/// The first and the last characters, with `between`; the text itself if that is not shorter.
pub(super) fn ends(text: &str, first: usize, last: usize, between: &str) -> String {
    let chars = text.chars().count();
    if chars <= first + last + between.chars().count() {
        return text.to_owned();
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    format!("{}{between}{}", &text[..at(first)], &text[at(chars - last)..])
}

/// The first non-blank line, of at most this many characters.
pub(super) fn first_line(text: &str, chars: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    ends(line, chars, 0, "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r52_a_long_result_keeps_its_beginning_and_its_end() {
        let text = format!("first{}last", "潮".repeat(10_000));
        let cut = truncate(&text, "abc");
        assert!(cut.starts_with("first潮") && cut.ends_with("潮last") && cut.contains("7009 characters"), "{cut}");
        assert!(cut.contains("kept as abc") && cut.chars().count() < 3_200);
        assert_eq!(super::truncate("short", "abc"), "short");
    }

    #[test]
    fn a_text_that_is_no_longer_than_its_ends_stays() {
        assert_eq!(ends("0123456789", 4, 4, "…"), "0123…6789");
        assert_eq!(ends("012345678", 4, 4, "…"), "012345678");
        assert_eq!(first_line("\n  \n one two \nthree", 4), "one …");
        assert_eq!(first_line("", 4), "");
    }
}
