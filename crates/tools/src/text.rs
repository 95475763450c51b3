//! Text files that are read whole to be changed: their line ends, and the search for the nearest text.

use std::io::Read as _;

use engine::Hash;

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::files::FileState;
use crate::limits::{ALIKE_CHARS, CHANGED_BYTES, LINES_PER_LOOK, NEAREST_LINES};
use crate::paths::ResolvedPath;

/// The content of a text file, byte order mark and line ends included.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    pub(crate) text: String,
    /// The state of the file with this content.
    pub(crate) state: FileState,
}

impl TextFile {
    /// Reads the file. An error if it is too large or not UTF-8 text.
    pub(crate) fn read(act: &'static str, path: &ResolvedPath) -> Result<Self, ToolError> {
        let (file, bytes) = path.open_file(act)?;
        let mut content = Vec::with_capacity(bytes.min(CHANGED_BYTES) as usize);
        let read = file.take(CHANGED_BYTES + 1).read_to_end(&mut content);
        read.map_err(ToolError::file(act, path.shown.clone()))?;
        if content.len() as u64 > CHANGED_BYTES {
            return Err(ToolError::TooLarge { path: path.shown.clone(), limit: CHANGED_BYTES });
        }
        let state = Some(Hash::of(&content));
        let not_text = |what| ToolError::NotText { path: path.shown.clone(), bytes, what };
        let text = String::from_utf8(content).map_err(|_| not_text("another encoding"))?;
        if text.contains('\0') { Err(not_text("binary")) } else { Ok(Self { text, state }) }
    }
}

/// The line end of a text: the one of its first line.
pub(crate) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Converts all line ends of the text to this one.
pub(crate) fn with_line_ends(text: &str, line_end: &str) -> String {
    let plain = text.replace("\r\n", "\n");
    if line_end == "\n" { plain } else { plain.replace('\n', line_end) }
}

/// Describes the lines that are most similar to the beginning of `wanted`, each with its number, or says that there are
/// none.
///
/// It compares every line, so it ends early if the call is cancelled.
pub(crate) fn nearest(text: &str, wanted: &str, cancel: &Cancel) -> String {
    let Some(first) = wanted.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return "it is blank".to_owned();
    };
    let lines: Vec<&str> = text.lines().collect();
    let is_wanted = |at: usize| !at.is_multiple_of(LINES_PER_LOOK) || !cancel.is_set();
    let compared = lines.iter().enumerate().take_while(|(at, _)| is_wanted(*at));
    let scores = compared.map(|(at, line)| (alike(first, line.trim()), at));
    let best = scores.filter(|(score, _)| *score >= 0.5).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let Some((score, at)) = best else { return "the file has no similar text".to_owned() };
    let shown = wanted.trim().lines().count().clamp(1, NEAREST_LINES);
    let numbered =
        |at: usize| format!("\n{}: {}", at + 1, &lines[at][..lines[at].floor_char_boundary(4 * ALIKE_CHARS)]);
    let shown = (at..(at + shown).min(lines.len())).map(numbered).collect::<Vec<_>>().concat();
    let same =
        if score >= 1.0 { " (the first line matches but for white space, or the lines after it differ)" } else { "" };
    format!("the nearest text{same}:{shown}")
}

/// The similarity of two lines, from 0 to 1: the share of character pairs that they have in common.
fn alike(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let pairs = |text: &str| {
        let chars: Vec<char> = text.chars().take(ALIKE_CHARS).collect();
        let mut pairs: Vec<(char, char)> = chars.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let (mut common, mut at) = (0, 0);
    for pair in &a {
        while b.get(at).is_some_and(|other| other < pair) {
            at += 1;
        }
        if b.get(at) == Some(pair) {
            common += 1;
            at += 1;
        }
    }
    if a.len() + b.len() == 0 { 0.0 } else { f64::from(2 * common) / (a.len() + b.len()) as f64 }
}
