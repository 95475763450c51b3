//! A screen as an SVG file. Its description is the text of the screen, for those who do not see it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::Problem;
use super::screen::{Mark, Screen, Span, Style};
use super::theme::Theme;

/// Thousandths of a unit of the picture: a cell, a row, and the space around all of them.
const CELL: usize = 8_400;
const ROW: usize = 18_000;
const MARGIN: usize = 14_000;
/// The fewest columns of a picture, so that those of short screens are not enlarged where they are shown.
const COLUMNS: usize = 80;

/// A blank that is drawn also beside another one: only some programs follow `white-space`.
const BLANK: &str = "\u{a0}";

const DESCRIBED: [&str; 2] = ["<desc>", "</desc>"];

/// The picture.
pub(super) fn svg(screen: &Screen, theme: Theme) -> Result<String, Problem> {
    let columns = screen.text().lines().map(str::width).max().unwrap_or_default().max(COLUMNS);
    let (width, height) = (columns * CELL + 2 * MARGIN, screen.rows.len() * ROW + 2 * MARGIN);
    let used: BTreeSet<u8> = screen.rows.iter().flatten().filter_map(|span| span.style.colour).collect();
    let used: Vec<u8> = used.into_iter().collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\">\n{}{}{}\n<style>\
         text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}\
         .b{{font-weight:bold}}.d{{opacity:.65}}.i{{font-style:italic}}.u{{text-decoration:underline}}{}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"7\"/>\n",
        units(width),
        units(height),
        units(width),
        DESCRIBED[0],
        escaped(&screen.text()),
        DESCRIBED[1],
        theme.rules(&used)?,
        units(width - 1_000),
        units(height - 1_000),
    );
    for (at, row) in screen.rows.iter().enumerate() {
        let mut x = MARGIN;
        for span in row {
            x += draw(&mut svg, span, x, MARGIN + at * ROW + ROW * 3 / 4)?;
        }
    }
    Ok(svg + "</svg>\n")
}

/// Draws a text and returns how far it goes. Its length is given, so that columns are straight in every font.
fn draw(svg: &mut String, Span { style, text }: &Span, x: usize, y: usize) -> Result<usize, Problem> {
    let shown = text.trim_end();
    let blanks = shown.len() - shown.trim_start().len();
    let (from, shown) = (x + blanks * CELL, shown.trim_start());
    if !shown.is_empty() {
        let (class, length) = (class(style), shown.width() * CELL);
        let (from, y, length) = (units(from), units(y), units(length));
        writeln!(
            svg,
            "<text x=\"{from}\" y=\"{y}\" textLength=\"{length}\"{class}>{}</text>",
            escaped(shown).replace(' ', BLANK)
        )?;
    }
    Ok(text.width() * CELL)
}

fn class(style: &Style) -> String {
    let mark = |mark: &Mark| match mark {
        Mark::Bold => "b",
        Mark::Dim => "d",
        Mark::Italic => "i",
        Mark::Underlined => "u",
    };
    let marks = style.marks.iter().map(|one| mark(one).to_owned());
    let classes: Vec<String> = style.colour.map(|colour| format!("c{colour}")).into_iter().chain(marks).collect();
    if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
}

fn units(thousandths: usize) -> String {
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a picture is that of this screen, but for times and for what the path of a new folder changes.
pub(super) fn is_same_but_for_times(picture: &str, screen: &Screen) -> bool {
    let described = picture.split_once(DESCRIBED[0]).and_then(|(_, rest)| rest.split_once(DESCRIBED[1]));
    described.is_some_and(|(text, _)| lasting(text) == lasting(&escaped(&screen.text())))
}

/// The projects of the pictures: the digits of their sessions are those of a folder for the time being.
const PROJECTS: [&str; 2] = ["calc", "pond"];

/// The text with a mark for each number that is a time, for what turns while the program works, and for the digits of a
/// session's name.
fn lasting(text: &str) -> String {
    let is_time = |word: &str, next: Option<&str>| {
        let number = word.trim_end_matches(['s', ',']);
        number.parse::<f64>().is_ok()
            && (word.len() > number.len() || next.is_some_and(|next| matches!(next, "s" | "ms")))
    };
    let is_session =
        |word: &str| PROJECTS.iter().any(|name| word.strip_prefix(name).is_some_and(|digits| digits.len() == 7));
    let is_turning =
        |word: &str| word.chars().count() == 1 && word.chars().all(|one| ('\u{2800}'..'\u{2900}').contains(&one));
    let row = |row: &str| {
        let words: Vec<&str> = row.split(' ').collect();
        let lasting = words.iter().enumerate().map(|(at, word)| {
            let is_other = is_time(word, words.get(at + 1).copied()) || is_session(word) || is_turning(word);
            if is_other { "~" } else { word }
        });
        lasting.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(row).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(text: &str) -> Screen {
        Screen::parse(text).expect("it is read")
    }

    #[test]
    fn a_picture_has_its_texts_where_they_are_on_the_screen() {
        let picture = svg(&screen("a <b>\n  \x1b[31mé潮\x1b[39m  c"), Theme::Dark).expect("a picture");
        assert!(picture.contains("<desc>a &lt;b&gt;\n  é潮  c\n</desc>"), "{picture}");
        assert!(picture.contains("<text x=\"14\" y=\"27.5\" textLength=\"42\">a\u{a0}&lt;b&gt;</text>"), "{picture}");
        let second = "<text x=\"30.8\" y=\"45.5\" textLength=\"25.2\" class=\"c1\">é潮</text>";
        assert!(picture.contains(second) && picture.contains(".c1{fill:#e06c75}"), "{picture}");
        assert!(picture.contains("<text x=\"72.8\" y=\"45.5\" textLength=\"8.4\">c</text>"), "{picture}");
    }

    #[test]
    fn a_picture_is_the_same_if_only_times_differ() {
        let shown = "session calc-d8ef0c (new)\n✗ exit 1 · 109 ms\nRan 2 tests in 0.001s\n⣟ running tools · 1 s · 5.2k";
        let picture = svg(&screen(shown), Theme::None).expect("a picture");
        for (changed, is_same) in [
            (shown.to_owned(), true),
            (shown.replace("109", "1").replace("0.001s", "2.5s").replace("· 1 s", "· 11 s"), true),
            (shown.replace("d8ef0c", "000000").replace('⣟', "⣯"), true),
            (shown.replace("exit 1", "exit 2"), false),
            (shown.replace("Ran 2", "Ran 3"), false),
            (shown.replace("5.2k", "5.3k"), false),
            (shown.replace("\nRan", "\n\nRan"), false),
        ] {
            assert_eq!(is_same_but_for_times(&picture, &screen(&changed)), is_same, "{changed}");
        }
        assert!(!is_same_but_for_times("", &screen("")));
    }

    #[test]
    fn a_screen_without_colours_has_none() {
        assert!(svg(&screen("\x1b[31ma"), Theme::None).is_err());
        assert!(svg(&screen("\x1b[1ma"), Theme::None).is_ok());
    }
}
