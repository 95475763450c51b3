//! The words of passages and of queries. Scripts that have no blanks between words (Chinese, Japanese) and those in which
//! endings are joined to them (Korean) are taken character by character: a word of a query is then a phrase of characters, which is
//! found wherever it stands, also if it has only one or two.

use super::index::MemoryQuery;
use crate::limits::QUERY_PHRASES;

/// Characters that are words of their own: of Chinese, Japanese and Korean.
fn is_word(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{312F}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// The text with blanks around each character that is a word of its own.
pub(super) fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for c in text.chars() {
        if is_word(c) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    spaced
}

/// What a query asks for: all of its words; else some of them, and of a longer word in characters each two that are neighbours.
/// None if it has no word.
pub(super) fn query(text: &str) -> Option<MemoryQuery> {
    let (mut all, mut any) = (vec![], vec![]);
    for run in text.split_whitespace().flat_map(runs).filter(|run| run.contains(char::is_alphanumeric)) {
        let phrase = |text: &str| spaced(text).split_whitespace().collect::<Vec<_>>().join(" ");
        push(&mut all, phrase(run));
        if run.starts_with(is_word) {
            let letters: Vec<char> = run.chars().collect();
            for pair in letters.windows(letters.len().min(2)) {
                push(&mut any, phrase(&pair.iter().collect::<String>()));
            }
        } else {
            push(&mut any, phrase(run));
        }
    }
    (!all.is_empty()).then_some(MemoryQuery { all, any })
}

fn push(phrases: &mut Vec<String>, phrase: String) {
    if phrases.len() < QUERY_PHRASES && !phrases.contains(&phrase) {
        phrases.push(phrase);
    }
}

/// A word in parts that are either characters of their own or none.
fn runs(word: &str) -> Vec<&str> {
    let mut runs = vec![];
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        runs.push(run);
        rest = after;
    }
    runs
}

/// The words of a text in lower case, with one blank before, between and after them: a phrase in the same form is a part of it if
/// and only if it occurs.
pub(super) fn plain(text: &str) -> String {
    let text = spaced(text).to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_a_query_is_words_and_phrases_of_characters() {
        for (text, all, any) in [
            ("high  tide high", &["high", "tide"][..], &["high", "tide"][..]),
            ("数据库端口 8080", &["数 据 库 端 口", "8080"], &["数 据", "据 库", "库 端", "端 口", "8080"]),
            ("潮", &["潮"], &["潮"]),
            ("端口8080", &["端 口", "8080"], &["端 口", "8080"]),
            (
                "\"a\" AND (b* NEAR c:d) - ^",
                &["\"a\"", "AND", "(b*", "NEAR", "c:d)"],
                &["\"a\"", "AND", "(b*", "NEAR", "c:d)"],
            ),
        ] {
            let query = query(text).unwrap();
            assert_eq!(query.all, all, "{text}");
            assert_eq!(query.any, any, "{text}");
        }
        assert_eq!(query(" - \"\" ，"), None);
        assert_eq!(plain("The 潮水, don't"), " the 潮 水 don t ");
    }
}
