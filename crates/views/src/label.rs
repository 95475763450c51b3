//! What a person tells a session by: its title, its folder, how much was said in it and what that cost.

use engine::{RunRow, SessionRow, Visibility};

use crate::beside::Beside;
use crate::error::Error;

/// Characters of a title that was not given.
const TITLE_CHARS: usize = 80;

/// The labels of a session, in the form of `sessions.list`.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "they are the fields of that shape")]
pub(crate) struct Label {
    pub title: Option<String>,
    pub folder: Option<String>,
    pub messages: u64,
    pub cost: u64,
    pub archived: bool,
}

/// The labels of a session. `last` is its last run. Reads one message of it, whatever its length is.
pub(crate) fn label(beside: &Beside<'_>, row: &SessionRow, last: Option<&RunRow>) -> Result<Label, Error> {
    let read = beside.source.read;
    let (first, messages) = read.first_message(row.session, row.begun_at)?;
    let body = row.title.or(row.model_title).or(first.map(|first| first.body));
    let text = body.map(|body| read.body(&body.hash)).transpose()?.flatten();
    let title = text.map(|text| first_words(&String::from_utf8_lossy(&text))).filter(|title| !title.is_empty());
    let folder = last.map(|last| beside.folder(last)).transpose()?.flatten();
    let of_ended = row.totals.map(|totals| totals.spent.cost).unwrap_or_default();
    let of_run = last.filter(|last| row.run == Some(last.run)).map(|last| last.cost).unwrap_or_default();
    let archived = row.visibility == Visibility::Archived;
    Ok(Label { title, folder, messages, cost: of_ended + of_run, archived })
}

/// The first words of a text, on one line. They are not made printable: a program may want them.
fn first_words(text: &str) -> String {
    let mut title = String::new();
    let mut left = TITLE_CHARS;
    for word in text.split_whitespace() {
        let space = usize::from(!title.is_empty());
        let length = word.chars().count();
        if length + space > left {
            // A long word, or a text without blanks, is cut where the space ends.
            if title.is_empty() {
                title.extend(word.chars().take(left - 1));
            }
            title.push('…');
            break;
        }
        title.extend([' '].iter().take(space));
        title.push_str(word);
        left -= length + space;
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_title_is_the_first_words_on_one_line() {
        assert_eq!(first_words("  fix\nthe   test "), "fix the test");
        assert_eq!(first_words(""), "");
        let long = first_words(&"word ".repeat(100));
        assert_eq!((long.chars().count(), long.ends_with("word…")), (80, true), "{long}");
        let chinese = first_words(&"余额不足".repeat(100));
        assert_eq!((chinese.chars().count(), chinese.ends_with('…')), (80, true));
    }
}
