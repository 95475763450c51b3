//! Splits a byte stream with one JSON object a line into lines, with bounded memory.

use super::{Frame, TooLong};
use crate::limits::EVENT_BYTES;

/// Takes bytes and returns lines without line ends; blank lines are skipped.
#[derive(Debug, Default)]
pub(crate) struct LineReader {
    buffer: Vec<u8>,
    /// The offset at which the current line begins.
    start: usize,
    /// The offset up to which the current line was searched for its end.
    scanned: usize,
}

impl LineReader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete line.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        loop {
            let found = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
            let to = found.map_or(self.buffer.len(), |at| self.scanned + at);
            self.scanned = to;
            if to - self.start > EVENT_BYTES {
                return Err(TooLong);
            }
            if found.is_none() {
                return Ok(None);
            }
            let from = std::mem::replace(&mut self.start, to + 1);
            self.scanned = self.start;
            if !self.buffer[from..to].trim_ascii().is_empty() {
                return Ok(Some(Frame { name: b"", data: self.buffer[from..to].trim_ascii() }));
            }
        }
    }

    /// At the end of the body: the last line, if it has no newline.
    pub(crate) fn last_frame(&mut self) -> Option<Frame<'_>> {
        let from = std::mem::replace(&mut self.start, self.buffer.len());
        self.scanned = self.start;
        let data = self.buffer[from..].trim_ascii();
        (!data.is_empty()).then_some(Frame { name: b"", data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c5_every_split_gives_the_same_lines() {
        let bytes = "{\"a\":1}\r\n\n {\"b\":\"ü\"}\n{\"c\"".as_bytes();
        for size in 1..=bytes.len() {
            let mut reader = LineReader::default();
            let mut lines = vec![];
            for piece in bytes.chunks(size) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    lines.push(String::from_utf8(frame.data.to_vec()).unwrap());
                }
            }
            lines.extend(reader.last_frame().map(|frame| String::from_utf8(frame.data.to_vec()).unwrap()));
            assert_eq!(lines, ["{\"a\":1}", "{\"b\":\"ü\"}", "{\"c\""], "in pieces of {size}");
        }
    }

    #[test]
    fn c5_memory_is_bounded() {
        let mut reader = LineReader::default();
        let refused = (0..1000).find(|_| {
            reader.push(&vec![b'x'; 64 << 10]);
            reader.next_frame().is_err()
        });
        assert_eq!(refused, Some(EVENT_BYTES >> 16));
    }
}
