//! Outputs that are too long to be shown in full: `read` returns them page by page under the name `output:HASH`.

use std::fmt;
use std::io;
use std::sync::Arc;

use engine::{BodyKind, Content, Hash};

use crate::error::ToolError;
use crate::limits::{PIECE_BYTES, READ_BYTES, READ_LINES};

/// The prefix of a reference to an output. A file with such a name is read as `./output:…`.
const PREFIX: &str = "output:";

type Look = dyn Fn(&Hash) -> io::Result<Option<Arc<[u8]>>> + Send + Sync;

/// Access to the stored outputs by hash. The default has none.
#[derive(Clone)]
pub struct Outputs(Arc<Look>);

impl Outputs {
    /// Takes the function that loads an output; it may block.
    pub fn new(look: impl Fn(&Hash) -> io::Result<Option<Arc<[u8]>>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::new(|_| Ok(None))
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outputs")
    }
}

/// The name of the output with this hash, as the model uses it.
pub(crate) fn name(hash: Hash) -> String {
    format!("{PREFIX}{hash}")
}

/// The output that a path names; none if it is the path of a file.
pub(crate) fn named(path: &str) -> Option<Result<Hash, ToolError>> {
    let hash = path.strip_prefix(PREFIX)?;
    let reason = "after `output:` the 64 digits from the result must follow; a file of that name is `./output:…`";
    Some(hash.parse().map_err(|_| ToolError::BadPath { path: path.escape_default().to_string(), reason }))
}

/// What `read` asks of an output.
pub(crate) struct Wanted<'a> {
    /// How it was named.
    pub(crate) path: &'a str,
    pub(crate) offset: Option<u64>,
    pub(crate) limit: Option<u64>,
}

/// Reads the requested lines of an output.
pub(crate) fn read(outputs: &Outputs, hash: Hash, wanted: &Wanted<'_>) -> Result<String, ToolError> {
    let path = || wanted.path.to_owned();
    let bytes = (outputs.0)(&hash).map_err(ToolError::file("read", path()))?;
    let bytes = bytes.ok_or_else(|| ToolError::file("read", path())(io::ErrorKind::NotFound.into()))?;
    let text = String::from_utf8_lossy(&bytes);
    let offset = wanted.offset.unwrap_or(1);
    let limit = wanted.limit.unwrap_or(READ_LINES).min(READ_LINES);
    page(&text, offset, limit, READ_BYTES).map_err(|lines| ToolError::PastEnd { path: path(), lines, offset })
}

/// The first page of a text, at most `most_bytes` bytes. If the text is longer, the page names the output and the whole
/// text is returned with it.
pub(crate) fn first_page(text: &str, most_bytes: usize) -> (String, Option<Content>) {
    let page = page(text, 1, READ_LINES, most_bytes).unwrap_or_default();
    if page.len() == text.len() {
        return (page, None);
    }
    let content = Content::text(BodyKind::Output, text);
    let name = name(content.body.hash);
    (page + &format!("[it is {} bytes; its name for read is {name}]\n", text.len()), Some(content))
}

/// Lines from `offset` on, counted from 1, as many as fit. If `offset` is past the end, the error is the number of
/// lines.
fn page(text: &str, offset: u64, limit: u64, most_bytes: usize) -> Result<String, u64> {
    let mut page = String::new();
    let mut number = 0;
    for line in pieces(text) {
        number += 1;
        if number < offset {
            continue;
        }
        if number >= offset.saturating_add(limit) || page.len() + line.len() > most_bytes {
            let end = if page.ends_with('\n') { "" } else { "\n" };
            return Ok(page + end + &format!("[more lines follow; continue with offset={number}]\n"));
        }
        page.push_str(line);
    }
    if number < offset { Err(number) } else { Ok(page) }
}

/// The lines of a text; a very long line is split into several pieces, so that every page has space for one.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').flat_map(|mut line| {
        std::iter::from_fn(move || {
            let (piece, rest) = line.split_at(line.floor_char_boundary(PIECE_BYTES));
            line = rest;
            (!piece.is_empty()).then_some(piece)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r45_the_pages_of_an_output_make_up_the_whole() {
        let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} {}\n", "ü".repeat(n % 40))).collect();
        for text in [lines.concat(), "ü".repeat(100_000), "x".repeat(60_000) + "\nlast", "one\n".to_owned()] {
            let (mut read, mut offset, mut pages) = (String::new(), 1, 0);
            loop {
                let page = page(&text, offset, READ_LINES, READ_BYTES).unwrap();
                assert!(page.len() <= READ_BYTES + 100);
                let Some((part, note)) = page.rsplit_once("[more lines follow; continue with offset=") else {
                    read.push_str(&page);
                    break;
                };
                // The note is on its own line, also in the middle of a long line.
                read.push_str(if text[read.len()..].starts_with(part) { part } else { part.trim_end_matches('\n') });
                offset = note.trim_end_matches("]\n").parse().unwrap();
                pages += 1;
            }
            assert!(read == text && (pages > 0 || text.len() < READ_BYTES));
        }
        assert_eq!(page("a\nb\nc", 2, 1, 9).as_deref(), Ok("b\n[more lines follow; continue with offset=3]\n"));
        assert_eq!(page("a\nb\nc", 3, 1, 9).as_deref(), Ok("c"));
        assert_eq!(page("a\n", 2, 1, 9), Err(1));
    }
}
