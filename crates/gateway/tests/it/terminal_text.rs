//! Texts for a terminal: any bytes, cut anywhere.

use std::time::Duration;

use views::{AnswerText, excerpt, is_unsafe, printable, printable_line};

/// Whether a terminal may get this: joined emoji are the one exception for answers.
fn is_harmless(text: &str, is_answer: bool) -> bool {
    text.chars().all(|c| !is_unsafe(c) || (is_answer && matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')))
}

/// The parts of a text, cut where the bytes say.
fn parts<'a>(text: &'a str, cuts: &[u8]) -> Vec<&'a str> {
    let (mut rest, mut parts) = (text, vec![]);
    for cut in cuts {
        let (part, after) = rest.split_at(rest.floor_char_boundary(usize::from(*cut)));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

#[test]
fn fuzz_terminal_text() {
    bolero::check!().with_test_time(Duration::from_secs(1)).with_type::<(Vec<u8>, Vec<u8>, Vec<char>)>().for_each(
        |(bytes, cuts, chars)| {
            for text in [String::from_utf8_lossy(bytes).into_owned(), chars.iter().collect::<String>()] {
                assert!(is_harmless(&printable(&text), false));
                let line = printable_line(&text);
                assert!(is_harmless(&line, false) && !line.contains(['\n', '\t']));
                assert!(is_harmless(&excerpt(&text, 40), false));
                let json = serde_json::to_string(&text).unwrap();
                assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), text, "the same string in JSON");
                let mut whole = AnswerText::default();
                let shown = whole.push(&text).as_str().to_owned() + whole.finish().as_str();
                assert!(is_harmless(&shown, true));
                let mut answer = AnswerText::default();
                let mut cut: String =
                    parts(&text, cuts).into_iter().map(|part| answer.push(part).as_str().to_owned()).collect();
                cut.push_str(answer.finish().as_str());
                assert_eq!(cut, shown, "cut elsewhere, shown the same");
            }
        },
    );
}
