//! Masks known secrets. A tool replaces each by [`MASK`] before it returns, reports or hashes the bytes. The masked
//! stream does not depend on how the stream is split into pieces.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::limits::SECRET_BYTES;

/// The text that replaces a secret.
pub(crate) const MASK: &str = "[secret]";

/// The secret values. The `Debug` form does not show them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Box<[u8]>]>);

impl Secrets {
    /// Takes these values, except those shorter than 6 bytes: masking them would garble ordinary text.
    pub fn new<S: AsRef<[u8]>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut values: Vec<Box<[u8]>> = values.into_iter().map(|value| value.as_ref().into()).collect();
        values.retain(|value| value.len() >= SECRET_BYTES);
        // The longest first: if two values begin alike, the longer one is masked as a whole.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self(values.into())
    }

    /// Returns the text with secrets masked.
    pub fn mask(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask_bytes(text.as_bytes())).into_owned()
    }

    /// The length of the longest secret in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |secret| secret.len())
    }

    /// Masks a part of these bytes, including secrets that lie only partly in it. Returns the masked part and where it
    /// ends: after the last secret, or, unless `finished`, before bytes that may be the beginning of one.
    pub(crate) fn mask_part(&self, bytes: &[u8], part: Range<usize>, finished: bool) -> (Vec<u8>, usize) {
        let (mut masked, mut at) = (Vec::with_capacity(part.len()), 0);
        while at < part.end {
            match self.classify(&bytes[at..], finished) {
                Match::Secret(length) => {
                    at += length;
                    if at > part.start {
                        masked.extend_from_slice(MASK.as_bytes());
                    }
                }
                Match::Perhaps => break,
                Match::Plain => {
                    masked.extend((at >= part.start).then_some(bytes[at]));
                    at += 1;
                }
            }
        }
        (masked, at.max(part.start))
    }

    fn classify(&self, rest: &[u8], finished: bool) -> Match {
        for secret in self.0.iter().filter(|secret| secret[0] == rest[0]) {
            if rest.starts_with(secret) {
                return Match::Secret(secret.len());
            }
            if !finished && secret.starts_with(rest) {
                return Match::Perhaps;
            }
        }
        Match::Plain
    }

    /// Returns the bytes with secrets masked.
    pub(crate) fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = MaskedStream::new(self.clone());
        let mut masked = stream.push(bytes);
        masked.extend(stream.finish());
        masked
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} values)", self.0.len())
    }
}

/// What the bytes at one position are.
enum Match {
    /// A secret of this length.
    Secret(usize),
    /// The bytes at the end may be the beginning of a secret.
    Perhaps,
    /// No secret begins here.
    Plain,
}

/// Masks a stream of bytes. It holds back only bytes that may be the beginning of a secret.
#[derive(Debug)]
pub(crate) struct MaskedStream {
    secrets: Secrets,
    pending: Vec<u8>,
}

impl MaskedStream {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, pending: Vec::new() }
    }

    /// Takes more bytes and returns those that are decided.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.0.is_empty() {
            return bytes.to_vec();
        }
        self.pending.extend_from_slice(bytes);
        self.take(false)
    }

    /// Ends the stream and returns the bytes that were held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, finished: bool) -> Vec<u8> {
        let mut masked = Vec::with_capacity(self.pending.len());
        let mut at = 0;
        while at < self.pending.len() {
            match self.secrets.classify(&self.pending[at..], finished) {
                Match::Secret(length) => {
                    masked.extend_from_slice(MASK.as_bytes());
                    at += length;
                }
                Match::Perhaps => break,
                Match::Plain => {
                    masked.push(self.pending[at]);
                    at += 1;
                }
            }
        }
        self.pending.drain(..at);
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_the_stream_is_split() {
        let secrets = Secrets::new(["sk-abcdef", "sk-abcdef-longer", "short", "aXXXXa"]);
        let text = b"key sk-abcdef, key sk-abcdef-longer, sk-abc short aXXXXaXXXXa end sk-ab";
        let whole = "key [secret], key [secret], sk-abc short [secret]XXXXa end sk-ab";
        assert_eq!(secrets.mask_bytes(text), whole.as_bytes());
        for cut in 0..text.len() {
            let mut stream = MaskedStream::new(secrets.clone());
            let mut masked = stream.push(&text[..cut]);
            masked.extend(stream.push(&text[cut..]));
            masked.extend(stream.finish());
            assert_eq!(String::from_utf8(masked).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_part_holds_no_half_of_a_secret() {
        let secrets = Secrets::new(["sk-abcdef"]);
        let text = b"a sk-abcdef b sk-ab";
        for start in 0..text.len() {
            for end in start..text.len() {
                let (masked, next) = secrets.mask_part(text, start..end, false);
                let masked = String::from_utf8(masked).unwrap();
                let bare = masked.replace("[secret]", "");
                assert!(!bare.contains("sk-") && !bare.contains("def") && next >= start, "{start}..{end}: {masked}");
                // The next part begins exactly there.
                let (rest, _) = secrets.mask_part(text, next..text.len(), true);
                let whole = masked + &String::from_utf8(rest).unwrap();
                assert!(start > 0 || whole == "a [secret] b sk-ab", "{start}..{end}: {whole}");
            }
        }
    }

    #[test]
    fn secrets_are_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Secrets::new(["sk-abcdef"])), "Secrets(1 values)");
    }
}
