//! Splits a byte stream into server-sent events, with bounded memory. It does not interpret them.

use super::{Frame, TooLong};
use crate::limits::EVENT_BYTES;

/// Takes bytes and returns events. Lines end with LF, CRLF or CR; comments and other fields are skipped.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    buffer: Vec<u8>,
    /// The offset at which the current line begins.
    start: usize,
    /// The offset up to which the current line was searched for its end.
    scanned: usize,
    /// Whether the last line ended with CR: a following LF belongs to it.
    after_cr: bool,
    /// Whether the first line, which may begin with a byte order mark, was read.
    begun: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    pending: Pending,
}

/// The state of the current event.
#[derive(Debug, Default, PartialEq, Eq)]
enum Pending {
    /// It has no `data` field yet.
    #[default]
    Nothing,
    Data,
    /// It was returned, so the next call clears it.
    Returned,
}

impl SseReader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, which a blank line ended.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        self.clear_returned();
        while let Some((from, to)) = self.next_line()? {
            if from < to {
                self.take_field(from, to)?;
            } else if self.pending == Pending::Data {
                self.pending = Pending::Returned;
                return Ok(Some(Frame { name: &self.name, data: &self.data }));
            } else {
                self.name.clear();
            }
        }
        Ok(None)
    }

    /// At the end of the body: the last event, if its lines are complete and no blank line ended it.
    pub(crate) fn last_frame(&mut self) -> Option<Frame<'_>> {
        self.clear_returned();
        if self.pending == Pending::Nothing {
            return None;
        }
        self.pending = Pending::Returned;
        Some(Frame { name: &self.name, data: &self.data })
    }

    fn clear_returned(&mut self) {
        if self.pending == Pending::Returned {
            self.name.clear();
            self.data.clear();
            self.pending = Pending::Nothing;
        }
    }

    /// The bounds of the next line without its end.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>, TooLong> {
        if self.after_cr && self.start < self.buffer.len() {
            self.after_cr = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.scanned = self.start;
            }
        }
        let found = memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..]);
        let to = found.map_or(self.buffer.len(), |at| self.scanned + at);
        self.scanned = to;
        if to - self.start > EVENT_BYTES {
            return Err(TooLong);
        }
        if found.is_none() {
            return Ok(None);
        }
        let mut from = self.start;
        if !std::mem::replace(&mut self.begun, true) && self.buffer[from..to].starts_with(b"\xEF\xBB\xBF") {
            from += 3;
        }
        self.after_cr = self.buffer[to] == b'\r';
        self.start = to + 1;
        self.scanned = self.start;
        Ok(Some((from, to)))
    }

    fn take_field(&mut self, from: usize, to: usize) -> Result<(), TooLong> {
        let line = &self.buffer[from..to];
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if std::mem::replace(&mut self.pending, Pending::Data) == Pending::Data {
                    self.data.push(b'\n');
                }
                if self.data.len() + value.len() > EVENT_BYTES {
                    return Err(TooLong);
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of these bytes when they arrive in pieces of `size` bytes.
    fn events(bytes: &[u8], size: usize) -> Vec<(String, String)> {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for piece in bytes.chunks(size) {
            reader.push(piece);
            while let Some(event) = reader.next_frame().unwrap() {
                events.push((text(event.name), text(event.data)));
            }
        }
        if let Some(event) = reader.last_frame() {
            events.push((text(event.name), text(event.data)));
        }
        events
    }

    fn check(bytes: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        for size in 1..=bytes.len() {
            assert_eq!(events(bytes.as_bytes(), size), expected, "{bytes:?} in pieces of {size}");
        }
    }

    #[test]
    fn c5_every_line_end_and_every_split_gives_the_same_events() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = ["data: a", "", ": ping", "", "event: error", "data:b", "id: 7", "data: ü", "", "data", "", ""];
            check(&lines.join(end), &[("", "a"), ("error", "b\nü"), ("", "")]);
        }
    }

    #[test]
    fn c5_marks_names_and_ends() {
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("event: lost\n\ndata: x\n\n", &[("", "x")]);
        check("data: whole line\n", &[("", "whole line")]);
        check("data: cut li", &[]);
        check("garbage\n\n<html>\n\n", &[]);
    }

    #[test]
    fn c5_memory_is_bounded() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 64 << 10];
        let refused = (0..1000).find(|_| {
            reader.push(&piece);
            reader.next_frame().is_err()
        });
        assert_eq!(refused, Some(EVENT_BYTES >> 16));

        let mut reader = SseReader::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let refused = (0..1000).find(|_| {
            reader.push(&line);
            reader.next_frame().is_err()
        });
        let fits = (EVENT_BYTES >> 16) - 1;
        assert_eq!(refused, Some(fits), "this is the maximum number of lines, including the newlines between them");
    }
}
