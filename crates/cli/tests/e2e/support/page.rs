//! The examples of a page: commands, and what they print with what differs each time replaced by a name.

use std::fs;
use std::path::Path;

/// The line of an example that stands for lines that are left out.
const LEFT_OUT: &str = "…\n";

/// The commands of a page of docs/ with their outputs, in order.
pub(crate) fn examples(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned());
    let mut examples: Vec<(String, String)> = vec![];
    for line in blocks.flat_map(|block| block.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>()) {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => examples.push((command.trim_end().to_owned(), String::new())),
            (None, Some((_, output))) => output.push_str(&line),
            (None, None) => panic!("an output without a command: {line}"),
        }
    }
    examples
}

/// Whether this was printed, but for lines that are left out.
pub(crate) fn is_as_shown(printed: &str, shown: &str) -> bool {
    let mut parts = shown.split(LEFT_OUT);
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = starts(rest).find(|at| rest[*at..].starts_with(part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    starts(rest).any(|at| rest[at..] == **last)
}

/// Where lines begin, and the end.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

/// With `RUN` for every id, `CURSOR` for a place in a list, and `TIME` for a time.
pub(crate) fn with_names(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.parse::<uuid::Uuid>().is_ok();
    let is_time = |word: &str| word.len() == 19 && word.parse::<jiff::civil::DateTime>().is_ok();
    let is_cursor =
        |word: &str| word.strip_suffix('-').is_some_and(|ms| ms.len() == 13 && ms.bytes().all(|c| c.is_ascii_digit()));
    let mut named = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (name, length) = if rest.get(..36).is_some_and(is_id) {
            ("RUN", 36)
        } else if rest.get(..19).is_some_and(is_time) {
            ("TIME", 19)
        } else if rest.get(..14).is_some_and(is_cursor) && rest.get(14..50).is_some_and(is_id) {
            ("CURSOR", 50)
        } else {
            (&rest[..next.len_utf8()], next.len_utf8())
        };
        named.push_str(name);
        rest = &rest[length..];
    }
    named
}

#[test]
fn an_example_shows_what_is_printed_but_for_lines_left_out() {
    for (shown, expected) in [
        ("a\nb\nc\nd\n", true),
        ("a\n…\nd\n", true),
        ("…\nc\n…\n", true),
        ("a\nb\n…\n", true),
        ("…\nd\n", true),
        ("", false),
        ("a\nb\nc\n", false),
        ("a\n…\nc\n", false),
        ("…\nx\n…\n", false),
        ("…\nd\n…\nc\n", false),
        ("b\n…\n", false),
        ("… \nd\n", false),
    ] {
        assert_eq!(is_as_shown("a\nb\nc\nd\n", shown), expected, "{shown:?}");
    }
    let id = "01a217ae-98fa-74f8-9d7a-37a711e6cb80";
    let text = format!("é→é 2026-11-26 11:46:21 {id} --after 1795693648415-{id} 1795693648415-\n");
    assert_eq!(with_names(&text), "é→é TIME RUN --after CURSOR 1795693648415-\n");
}
