//! Markdown as a terminal gets it.

use bolero::check;

use super::*;

const PLAIN: Look = Look { width: 24, has_colors: false };
const COLOURED: Look = Look { width: 24, has_colors: true };

fn rows(source: &str, look: Look) -> Vec<Row> {
    let mut markdown = Markdown::new(look);
    let mut rows = markdown.push(source);
    rows.extend(markdown.finish());
    rows
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.iter().map(|span| span.text.as_str()).collect()).collect()
}

/// A row with its styles: `bold<x>`.
fn styled(rows: &[Row]) -> Vec<String> {
    let span = |span: &Span| match span.style {
        Some(style) => format!("{style:?}<{}>", span.text),
        None => span.text.clone(),
    };
    rows.iter().map(|row| row.iter().map(span).collect()).collect()
}

#[track_caller]
fn shows(source: &str, look: Look, expected: &[&str]) {
    assert_eq!(styled(&rows(source, look)), expected, "{source:?}");
}

#[test]
fn r09_words_are_wrapped_by_the_cells_that_they_take() {
    shows("one two three four five six", PLAIN, &["one two three four five", "six"]);
    shows("好好好好好好好好好好好好好。", PLAIN, &["好好好好好好好好好好好好", "好。"]);
    shows("👩‍👩‍👧 family 👍🏽 and more words", PLAIN, &["👩‍👩‍👧 family 👍🏽 and more", "words"]);
    shows(
        "see https://example.com/a/very/long/address now",
        PLAIN,
        &["see", "https://example.com/a/very/long/address", "now"],
    );
    shows("- one two three four five six\n- b", PLAIN, &["- one two three four", "  five six", "- b"]);
    shows("12. one two three four five\n\n    more", PLAIN, &["12. one two three four", "    five", "", "    more"]);
    shows("> one two three four five six", PLAIN, &["> one two three four", "> five six"]);
    shows("two\nlines\nand 好\n好", PLAIN, &["two lines and 好好"]);
    shows("hard  \nbreak", PLAIN, &["hard", "break"]);
}

#[test]
fn r09_marks_become_styles_where_there_are_colours_and_stay_elsewhere() {
    let text = "a **bold** `code` *it* [x](u)";
    shows(text, COLOURED, &["a Bold<bold> Code<code> Italic<it> Underlined<x>Dim< (u)>"]);
    shows(text, PLAIN, &["a **bold** `code` *it*", "[x](u)"]);
    shows("# A *b*", COLOURED, &["Bold<# >Bold<A >Italic<b>"]);
    shows("<https://a.b> &amp; \\* &#27;[2J", COLOURED, &["Underlined<https://a.b> & *", r"\u001b[2J"]);
    shows("<b>x</b> ~~y~~ ![i](u)", COLOURED, &["<b>x</b> ~~y~~ ![i](u)"]);
    shows("[a]: http://b\n[^1]: note", COLOURED, &["[a]: http://b", "[^1]: note"]);
    shows("a\n\n\n\nb\n---\nc", COLOURED, &["a", "", "b", "---", "c"]);
}

/// Found from outside: marks that stand before each row made gigabytes of a few kilobytes, and a long line took time by the
/// square of its length.
#[test]
fn r09_no_text_grows_and_each_of_its_bytes_is_looked_at_once() {
    let words = "word ".repeat(3_000);
    for mark in [" ".repeat(7_000) + "- ", "> ".repeat(4_000), "- ".repeat(2_000), " ".repeat(20) + "1. "] {
        for look in [PLAIN, COLOURED] {
            let source = format!("{mark}{words}");
            let shown: usize = texts(&rows(&source, look)).iter().map(|row| row.len() + 1).sum();
            assert!(shown <= source.len() * 3, "{shown} bytes of {}", source.len());
        }
    }
    let spans = "**a** b ".repeat(200);
    assert_eq!(texts(&rows(&spans, COLOURED)).concat().replace(' ', ""), "ab".repeat(200));
    let long = "**a** b ".repeat(200_000);
    assert_eq!(texts(&rows(&long, COLOURED)), [long.trim_end()]);
}

#[test]
fn r09_what_a_parser_would_swallow_is_shown() {
    shows("[foo\nbar]: /url", COLOURED, &["[foo bar]: /url"]);
    shows("<div>\nhello\nworld\n</div>", COLOURED, &["<div> hello world </div>"]);
}

#[test]
fn r09_code_is_shown_as_it_is_with_colours() {
    let source = "```rust\nfn a() { // x\n  let s = \"é\\\"\"; /* a\nb */ 1\n}\n\n```\nend";
    let expected = [
        "Dim<```rust>",
        "Keyword<fn> a() { Dim<// x>",
        "  Keyword<let> s = Literal<\"é\\\"\">; Dim</* a>",
        "Dim<b */> Number<1>",
        "}",
        "",
        "Dim<```>",
        "end",
    ];
    shows(source, COLOURED, &expected);
    let raw = texts(&rows(source, PLAIN));
    assert_eq!(raw, source.lines().collect::<Vec<_>>());
    shows(
        "```py\nx = '''a\nb''' # don't\n~~~\n```",
        COLOURED,
        &["Dim<```py>", "x = Literal<'''a>", "Literal<b'''> Dim<# don't>", "~~~", "Dim<```>"],
    );
    shows("- a\n  ```\n  x\n    y\n  ```\n- b", PLAIN, &["- a", "```", "x", "  y", "```", "- b"]);
    let long = "x".repeat(300);
    shows(&format!("```\n{long}"), PLAIN, &["```", &long]);
}

#[test]
fn r09_a_table_keeps_the_form_of_its_head_and_its_first_row() {
    let source = "| a | b |\n|---|--:|\n| **long** one | 1 |\n| x | 1000 |\n| very long text | `2` |\n\nend";
    shows(
        source,
        COLOURED,
        &[
            "Bold<a>Dim<        │ >   Bold<b>",
            "Dim<─────────┼─────>",
            "Bold<long> oneDim< │ >   1",
            "xDim<        │ >1000",
            "veryDim<     │ >   Code<2>",
            "longDim<     │>",
            "textDim<     │>",
            "",
            "end",
        ],
    );
}

#[test]
fn r09_what_is_open_is_shown_as_if_the_text_ended_and_is_gone_when_it_is_whole() {
    let mut markdown = Markdown::new(PLAIN);
    assert!(markdown.is_at_rest() && markdown.push("one **tw").is_empty());
    assert_eq!(texts(&markdown.open_rows()), ["one **tw"]);
    assert_eq!(texts(&markdown.push("o**\n\nthree")), ["one **two**"]);
    assert_eq!(texts(&markdown.open_rows()), ["", "three"]);
    assert_eq!(texts(&markdown.finish()), ["", "three"]);
    assert!(markdown.is_at_rest());
}

/// The characters of a text that a person reads.
fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
    letters.sort_unstable();
    letters
}

/// Pieces of Markdown, of which texts are made.
const PIECES: [&str; 40] = [
    "a",
    "word ",
    "好",
    "👩‍👩‍👧",
    "\n",
    "\n\n",
    "**",
    "*",
    "`",
    "```\n",
    "```rust\n",
    "- ",
    "1. ",
    "  ",
    "    ",
    "> ",
    "# ",
    "|",
    "| a | b |\n",
    "|---|:-:|\n",
    "---\n",
    "===\n",
    "[x](http://y)",
    "[x]: y\n",
    "<b>",
    "</b>",
    "&amp;",
    "\\",
    "\t",
    "~~~\n",
    "_",
    "  \n",
    "fn main() {}",
    "\"s",
    "/* ",
    "*/",
    "http://example.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "。",
    "\u{300}",
    "-",
];

/// R09: a text in any pieces is the same rows; no letter is lost; no row has blanks at its end.
#[test]
fn fuzz_r09_a_text_is_the_same_rows_in_whatever_pieces_it_comes() {
    check!().with_type::<(Vec<(u8, u8)>, u8, bool)>().for_each(|(drawn, width, has_colors)| {
        let source: String = drawn.iter().map(|(piece, _)| PIECES[usize::from(*piece) % PIECES.len()]).collect();
        let look = Look { width: usize::from(*width).max(1), has_colors: *has_colors };
        let whole = rows(&source, look);
        let (mut markdown, mut pieces, mut rest) = (Markdown::new(look), vec![], source.as_str());
        for (_, length) in drawn {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(usize::from(*length)));
            pieces.extend(markdown.push(piece));
            let _ = markdown.open_rows();
            rest = after;
        }
        pieces.extend(markdown.push(rest));
        pieces.extend(markdown.finish());
        assert_eq!(pieces, whole, "{source:?}");
        let shown = texts(&whole).concat();
        // An entity is another letter.
        let source = if *has_colors { source.replace("&amp;", "&") } else { source };
        let shown = if *has_colors { shown.replace("&amp;", "&") } else { shown };
        assert_eq!(letters(&shown), letters(&source), "{source:?} {:?}", texts(&whole));
    });
}
