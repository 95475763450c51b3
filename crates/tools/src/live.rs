//! The output of a running command as text, with secrets masked and no character split. The text depends only on the
//! bytes, not on when they were read, so a runtime that attaches can continue at the offset in the journal.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::folder::CallFolder;
use crate::limits::{LIVE_BYTES, PIPE_BYTES};
use crate::masking::{MaskedStream, Secrets};
use crate::tool::OnOutput;

/// The live text of one command.
#[derive(Debug)]
pub(crate) struct LiveOutput {
    file: Option<File>,
    /// Bytes of the output file that were read.
    read: u64,
    masked: MaskedStream,
    /// An incomplete character at the end.
    partial: Vec<u8>,
    /// Bytes of text that were produced so far.
    reported: u64,
    /// Bytes of text that an earlier runtime reported.
    already: u64,
}

impl LiveOutput {
    /// Starts to report after `already` bytes of text.
    pub(crate) fn new(secrets: Secrets, already: u64) -> Self {
        Self { file: None, read: 0, masked: MaskedStream::new(secrets), partial: Vec::new(), reported: 0, already }
    }

    /// Reads new output and reports each new piece of text with the number of bytes before it. It stops for good after
    /// 64 KiB. If the file cannot be read, it tries again at the next call: the result of the tool does not depend on
    /// it.
    pub(crate) fn advance(&mut self, folder: &CallFolder, progress: &mut OnOutput<'_>) {
        let Some(file) = self.file.take().or_else(|| folder.open_output().ok()) else { return };
        let mut buffer = vec![0; PIPE_BYTES.min((LIVE_BYTES - self.read) as usize)];
        while self.read < LIVE_BYTES {
            let space = buffer.len().min((LIVE_BYTES - self.read) as usize);
            let count = file.read_at(&mut buffer[..space], self.read).unwrap_or(0);
            if count == 0 {
                break;
            }
            self.read += count as u64;
            let mut text = self.masked.push(&buffer[..count]);
            if self.read == LIVE_BYTES {
                text.extend(self.masked.finish());
            }
            let text = self.decode(&text);
            self.notify(&text, progress);
        }
        self.file = Some(file);
    }

    /// Decodes whole characters; invalid bytes become U+FFFD.
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.partial.len());
        let mut kept = 0;
        let mut chunks = self.partial.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_incomplete = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_incomplete && chunks.peek().is_none() {
                kept = invalid.len();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.partial.drain(..self.partial.len() - kept);
        text
    }

    /// Reports the new part of this text.
    fn notify(&mut self, text: &str, progress: &mut OnOutput<'_>) {
        let skip = self.already.saturating_sub(self.reported).min(text.len() as u64) as usize;
        let skip = text.ceil_char_boundary(skip);
        if skip < text.len() {
            progress(self.reported + skip as u64, text[skip..].to_owned());
        }
        self.reported += text.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are reported while the file grows to these sizes.
    fn reported(bytes: &[u8], sizes: &[usize], already: u64) -> Vec<(u64, String)> {
        let home = tempfile::tempdir().unwrap();
        let folder = CallFolder::at(home.path());
        let mut live = LiveOutput::new(Secrets::new(["sk-abcdef"]), already);
        let mut pieces = Vec::new();
        for size in sizes {
            std::fs::write(home.path().join("output"), &bytes[..*size]).unwrap();
            live.advance(&folder, &mut |offset, text| pieces.push((offset, text)));
        }
        pieces
    }

    #[test]
    fn any_split_gives_the_same_text_and_any_offset_its_rest() {
        let bytes = "a sk-abcdef ü🦀 \u{1}x".as_bytes();
        let bytes = [bytes, b"\xff\xe2\x82 \xf0\x9fz end \xe2\x82 \xe2\x82"].concat();
        let whole = "a [secret] ü🦀 \u{1}x\u{fffd}\u{fffd} \u{fffd}z end \u{fffd} ";
        for cut in 0..=bytes.len() {
            let pieces = reported(&bytes, &[cut, bytes.len()], 0);
            let mut text = String::new();
            for (offset, piece) in pieces {
                assert_eq!(offset, text.len() as u64, "cut at {cut}");
                text.push_str(&piece);
            }
            assert_eq!(text, whole, "cut at {cut}");
        }
        for already in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            let pieces = reported(&bytes, &[bytes.len()], already as u64);
            let text: String = pieces.iter().map(|(_, piece)| piece.as_str()).collect();
            assert_eq!(text, whole[already..], "from {already}");
            assert!(pieces.first().is_none_or(|(offset, _)| *offset == already as u64));
        }
    }

    #[test]
    fn live_output_is_bounded() {
        let bytes = vec![b'x'; LIVE_BYTES as usize + 10];
        let pieces = reported(&bytes, &[100, bytes.len()], 0);
        assert_eq!(pieces.iter().map(|(_, text)| text.len() as u64).sum::<u64>(), LIVE_BYTES);
    }
}
