//! Finds the sessions in which some words were said. The index names texts that may hold them; what counts is the text in the
//! journal.

use std::collections::BTreeSet;
use std::path::Path;

use engine::{SessionId, SessionRow, Visibility};
use journal::{Read, SearchIndex};

use crate::error::Error;

/// Words of a search.
const WORDS: usize = 16;
/// Characters of a search.
const SEARCH_CHARS: usize = 400;
/// Texts that are asked for at once.
const CANDIDATES: usize = 256;
/// Characters of a snippet before its first word, and all of them.
const BEFORE_CHARS: usize = 12;
const SNIPPET_CHARS: usize = 80;

/// A session in which the words were said.
#[derive(Debug)]
pub struct Hit {
    /// The session.
    pub row: SessionRow,
    /// The text around the first word, on one line.
    pub snippet: String,
}

/// The sessions that are shown in this list and hold all of these words in one text, the latest first. The index is
/// completed first. May block.
pub fn search(home: &Path, read: &dyn Read, text: &str, shown: Visibility, limit: usize) -> Result<Vec<Hit>, Error> {
    let words: Vec<String> = text.split_whitespace().take(WORDS).map(str::to_lowercase).collect();
    if words.is_empty() || text.chars().nth(SEARCH_CHARS).is_some() {
        let what = format!("a search has at least one word and at most {SEARCH_CHARS} characters");
        return Err(Error::invalid(what, "`limulus sessions list --search WORDS`"));
    }
    let mut index = SearchIndex::open(home)?;
    while !index.fill(read, 16)? {}
    let sessions = read.sessions()?;
    let (mut hits, mut seen, mut before) = (vec![], BTreeSet::<SessionId>::new(), None);
    loop {
        let candidates = index.candidates(&words, before, CANDIDATES)?;
        for candidate in &candidates {
            if seen.contains(&candidate.session) {
                continue;
            }
            // What was erased is found nowhere, and in a session only what was said since it was deleted: another one may have
            // said the same.
            let row = sessions.iter().find(|row| row.session == candidate.session);
            if row.is_some_and(|row| row.begun_at.is_some_and(|begun_at| candidate.at < begun_at)) {
                continue;
            }
            let Some(text) = read.body(&candidate.hash)? else { continue };
            let Some(snippet) = snippet(&String::from_utf8_lossy(&text), &words) else { continue };
            seen.insert(candidate.session);
            if let Some(row) = row.filter(|row| row.visibility == shown) {
                hits.push(Hit { row: row.clone(), snippet });
                if hits.len() >= limit {
                    return Ok(hits);
                }
            }
        }
        match candidates.last() {
            Some(last) if candidates.len() == CANDIDATES => before = Some(last.id),
            _ => return Ok(hits),
        }
    }
}

/// The text around its first word, if it holds all of them. The words are in lower case.
fn snippet(text: &str, words: &[String]) -> Option<String> {
    let lower = text.to_lowercase();
    if !words.iter().all(|word| lower.contains(word.as_str())) {
        return None;
    }
    // Lower case may have another length, so places are counted in characters of it.
    let at = words.iter().filter_map(|word| lower.find(word.as_str())).min().unwrap_or_default();
    let at = lower[..at].chars().count();
    let from = at.saturating_sub(BEFORE_CHARS);
    let part: String = text.chars().skip(from).take(SNIPPET_CHARS).collect();
    let line = part.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(if from > 0 { format!("…{line}") } else { line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_snippet_shows_the_first_word_where_it_stands() {
        let shown = |text: &str, words: &[&str]| {
            snippet(text, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(shown("The Tide\nis high", &["high", "tide"]).as_deref(), Some("The Tide is high"));
        assert_eq!(shown("The tide", &["tide", "moon"]), None);
        let long = format!("{}余额不足，请充值", "很长的文字".repeat(40));
        assert_eq!(shown(&long, &["不足"]).as_deref(), Some("…很长的文字很长的文字余额不足，请充值"));
    }
}
