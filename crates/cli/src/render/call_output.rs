//! All that is kept of the output of a call that has ended, from the journal: a line of the stream has its two ends.

use std::path::{Path, PathBuf};

use engine::{Body, CallId, Event, Seq};
use journal::{Read as _, Reader};
use views::events::{StreamPosition, StreamScope};

use crate::show::human::count;

/// Bytes of an output that are shown: some thousand lines. Of a longer one half as much of each end.
const SHOWN_BYTES: usize = 256 << 10;

/// Entries that are read at once, backwards.
const LOOK_BACK: u64 = 64;

/// Bytes at the end of a whole output by which it is found in what its model received.
const END_BYTES: usize = 256;

/// Reads outputs from the journal of a home.
pub(super) struct CallOutputs {
    home: PathBuf,
    reader: Option<Reader>,
}

/// The result of a call.
struct Settled {
    /// What its model received: of a long output the two ends, and a last line on how it ended.
    output: Body,
    /// All that is kept of a long output.
    whole: Option<Body>,
}

impl CallOutputs {
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), reader: None }
    }

    /// The output of a call whose last line has this cursor, bounded. None if it cannot be read: then its ends have to do.
    pub(super) fn of(&mut self, call: CallId, cursor: &str) -> Option<String> {
        if self.reader.is_none() {
            self.reader = Some(Reader::open(&self.home).ok()?);
        }
        let reader = self.reader.as_ref()?;
        let Settled { output, whole } = settled(reader, call, cursor)?;
        let text = |body: &Body| Some(String::from_utf8_lossy(&reader.body(&body.hash).ok()??).into_owned());
        let received = text(&output)?;
        match whole.and_then(|whole| Some((text(&whole)?, whole.hash))) {
            Some((whole, hash)) => Some(bounded(&(whole.clone() + how_it_ended(&received, &whole)), &hash.to_string())),
            None => Some(bounded(&received, &output.hash.to_string())),
        }
    }
}

/// Finds the result of a call near its line in the journal.
fn settled(reader: &Reader, call: CallId, cursor: &str) -> Option<Settled> {
    let branch = reader.session_of_run(call.run).ok()??.branch;
    let last = reader.last(branch).ok()?;
    let near = StreamPosition::parse(StreamScope::Session, cursor).map_or(last, |position| position.seq().min(last));
    let mut until = near;
    while until > Seq(0) {
        let first = Seq(until.0.saturating_sub(LOOK_BACK - 1).max(1));
        let entries = reader.range(branch, first, until).ok()?;
        let found = entries.into_iter().rev().find_map(|entry| match entry.event {
            Event::CallSettled(e) if e.call == call => Some(Settled { output: e.output, whole: e.whole }),
            _ => None,
        });
        if found.is_some() {
            return found;
        }
        until = Seq(first.0 - 1);
    }
    None
}

/// The lines on how a command ended, which follow the end of its output in what its model received.
fn how_it_ended<'a>(received: &'a str, whole: &str) -> &'a str {
    let end = &whole[whole.ceil_char_boundary(whole.len().saturating_sub(END_BYTES))..];
    received.rfind(end).map_or("", |at| &received[at + end.len()..])
}

/// A text, or both its ends with a line that says what is left out between them and where it is.
fn bounded(text: &str, hash: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let half = SHOWN_BYTES / 2;
    let head = &text[..text.floor_char_boundary(half)];
    let head = head.rfind('\n').map_or(head, |at| &head[..=at]);
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    let tail = tail.find('\n').map_or(tail, |at| &tail[at + 1..]);
    let left_out = &text[head.len()..text.len() - tail.len()];
    let (lines, bytes) = (count(left_out.lines().count(), "line"), left_out.len());
    let end = if head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{end}… {lines} ({bytes} bytes) left out here; the model can read them as output:{hash} …\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_long_output_says_how_much_of_it_is_left_out_and_where_it_is() {
        assert_eq!(bounded("short\n", "HASH"), "short\n");
        let lines: Vec<String> = (0..30_000).map(|line| format!("line {line:05}\n")).collect();
        let shown = bounded(&lines.concat(), "HASH");
        let mark = shown.lines().find(|line| line.starts_with('…')).unwrap();
        let half = SHOWN_BYTES / 2 / 11;
        let left_out = 30_000 - 2 * half;
        let expected = format!(
            "… {left_out} lines ({} bytes) left out here; the model can read them as output:HASH …",
            left_out * 11
        );
        assert_eq!(mark, expected);
        assert!(shown.starts_with("line 00000\n") && shown.ends_with("line 29999\n"));
        let one_line = bounded(&"好".repeat(200_000), "HASH");
        assert!(one_line.len() < SHOWN_BYTES + 200 && one_line.contains("\n… 1 line ("), "{}", one_line.len());
    }

    #[test]
    fn r09_how_a_command_ended_follows_its_whole_output() {
        let whole = "a line\n".repeat(9_000);
        let received = format!("{}\n… left out …\n{}[exit status 3]\n", &whole[..1_000], &whole[whole.len() - 8_000..]);
        assert_eq!(how_it_ended(&received, &whole), "[exit status 3]\n");
        assert_eq!(how_it_ended(&received, "another"), "");
    }
}
