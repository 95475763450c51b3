//! Masks known secrets, as they are and in the forms of [`forms`]. A tool replaces each by [`MASK`] before it returns,
//! reports or hashes the bytes. The masked stream does not depend on how the stream is split into pieces.

mod forms;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::limits::{SECRET_BYTES, SECRET_START_LEAST_BYTES, SECRET_START_MOST_BYTES};

/// The text that replaces a secret.
pub(crate) const MASK: &str = "[secret]";

/// The secret values and their forms. The `Debug` form does not show them.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Patterns>>);

/// What is searched for, by its first byte; below each byte the longest first: if two begin alike, the longer one is
/// masked as a whole.
struct Patterns {
    by_first: Vec<Box<[Box<[u8]>]>>,
    /// The pairs of bytes that a pattern begins with, a bit each: nearly all text is passed over by this table alone.
    pairs: Box<[u64; PAIRS]>,
    values: usize,
    longest: usize,
}

/// The words of a table with a bit for each pair of bytes.
const PAIRS: usize = (1 << 16) / 64;

impl Patterns {
    fn begins(&self, first: u8, second: u8) -> bool {
        let pair = usize::from(u16::from_le_bytes([first, second]));
        self.pairs[pair / 64] & 1 << (pair % 64) != 0
    }

    /// What the bytes are with which this begins; it is not empty.
    fn classify(&self, rest: &[u8], finished: bool) -> Match {
        match rest {
            [first, second, ..] if !self.begins(*first, *second) => return Match::Plain,
            _ => {}
        }
        for pattern in &self.by_first[usize::from(rest[0])] {
            if rest.starts_with(pattern) {
                return Match::Secret(pattern.len());
            }
            if !finished && pattern.starts_with(rest) {
                return Match::Perhaps;
            }
        }
        Match::Plain
    }

    /// The first position from `at` on that is not plain, with what is there.
    fn find(&self, bytes: &[u8], mut at: usize, finished: bool) -> Option<(usize, Match)> {
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            // Nearly every pair of bytes begins nothing; the last byte has no pair.
            let begins = rest.windows(2).position(|pair| self.begins(pair[0], pair[1]));
            at += begins.unwrap_or(rest.len() - 1);
            match self.classify(&bytes[at..], finished) {
                Match::Plain => at += 1,
                found => return Some((at, found)),
            }
        }
        None
    }
}

impl Secrets {
    /// Takes these values, except those shorter than 6 bytes: masking them would garble ordinary text.
    pub fn new<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(|value| value.as_ref().to_owned()).collect();
        values.retain(|value| value.len() >= SECRET_BYTES);
        values.sort();
        values.dedup();
        if values.is_empty() {
            return Self(None);
        }
        let mut patterns: Vec<Box<[u8]>> =
            values.iter().flat_map(|value| forms::of(value)).map(|form| form.into_bytes().into()).collect();
        patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup();
        let (longest, mut pairs) = (patterns[0].len(), Box::new([0; PAIRS]));
        let mut by_first = vec![vec![]; 256];
        for pattern in patterns {
            let pair = usize::from(u16::from_le_bytes([pattern[0], pattern[1]]));
            pairs[pair / 64] |= 1 << (pair % 64);
            by_first[usize::from(pattern[0])].push(pattern);
        }
        let by_first = by_first.into_iter().map(Vec::into_boxed_slice).collect();
        Self(Some(Arc::new(Patterns { by_first, pairs, values: values.len(), longest })))
    }

    /// Returns the text with secrets masked.
    pub fn mask(&self, text: &str) -> String {
        self.mask_counted(text).map_or_else(|| text.to_owned(), |(masked, _)| masked)
    }

    /// The text with secrets masked, and how many there were; none if there are none.
    pub fn mask_counted(&self, text: &str) -> Option<(String, u32)> {
        if !self.are_in(text) {
            return None;
        }
        let mut stream = MaskedText::new(self);
        let masked = stream.push(text.to_owned()) + &stream.flush(MaskEnd::Whole);
        Some((masked, stream.count()))
    }

    /// Whether this holds a secret.
    pub fn are_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|patterns| patterns.find(text.as_bytes(), 0, true).is_some())
    }

    /// The length of the longest secret in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.0.as_ref().map_or(0, |patterns| patterns.longest)
    }

    /// Masks a part of these bytes, including secrets that lie only partly in it. Returns the masked part and where it
    /// ends: after the last secret, or, unless `finished`, before bytes that may be the beginning of one.
    pub(crate) fn mask_part(&self, bytes: &[u8], part: Range<usize>, finished: bool) -> (Vec<u8>, usize) {
        let Some(patterns) = &self.0 else { return (bytes[part.clone()].to_vec(), part.end) };
        let (mut masked, mut at) = (Vec::with_capacity(part.len()), 0);
        while at < part.end {
            let (to, found) = patterns.find(bytes, at, finished).unwrap_or((bytes.len(), Match::Plain));
            let plain = at.max(part.start)..to.min(part.end);
            masked.extend_from_slice(bytes.get(plain).unwrap_or_default());
            at = to.min(part.end);
            match found {
                Match::Secret(length) if to < part.end => {
                    at += length;
                    if at > part.start {
                        masked.extend_from_slice(MASK.as_bytes());
                    }
                }
                Match::Perhaps => break,
                Match::Secret(_) | Match::Plain => {}
            }
        }
        (masked, at.max(part.start))
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
        write!(f, "Secrets({} values)", self.0.as_ref().map_or(0, |patterns| patterns.values))
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
    count: u32,
}

impl MaskedStream {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, pending: Vec::new(), count: 0 }
    }

    /// Takes more bytes and returns those that are decided.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.0.is_none() {
            return bytes.to_vec();
        }
        self.pending.extend_from_slice(bytes);
        let mut masked = Vec::with_capacity(self.pending.len());
        self.take(false, &mut masked);
        masked
    }

    /// Ends the stream and returns the bytes that were held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut masked = Vec::new();
        self.take(true, &mut masked);
        masked
    }

    fn take(&mut self, finished: bool, masked: &mut Vec<u8>) {
        let Some(patterns) = &self.secrets.0 else { return };
        let mut at = 0;
        loop {
            let Some((to, found)) = patterns.find(&self.pending, at, finished) else {
                masked.extend_from_slice(&self.pending[at..]);
                return self.pending.clear();
            };
            masked.extend_from_slice(&self.pending[at..to]);
            at = to;
            if let Match::Secret(length) = found {
                masked.extend_from_slice(MASK.as_bytes());
                self.count += 1;
                at += length;
            } else {
                self.pending.drain(..at);
                return;
            }
        }
    }
}

/// What happens at an end with text that may be the beginning of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskEnd {
    /// It is no secret: the text is known to be whole.
    Whole,
    /// If it is long, it is masked as a part of one.
    Ended,
    /// The rest may follow in another stream: it is left out, unless it is only a few bytes.
    Broken,
}

/// Masks a text that comes in pieces. It holds back only what may be the beginning of a secret, so a piece without one is
/// returned as it came.
#[derive(Debug)]
pub struct MaskedText(MaskedStream);

impl MaskedText {
    /// A text in which these are masked.
    pub fn new(secrets: &Secrets) -> Self {
        Self(MaskedStream::new(secrets.clone()))
    }

    /// Takes the next piece and returns the text that is decided; it may be empty.
    pub fn push(&mut self, mut piece: String) -> String {
        let stream = &mut self.0;
        let Some(patterns) = &stream.secrets.0 else { return piece };
        if stream.pending.is_empty() {
            match patterns.find(piece.as_bytes(), 0, false) {
                None => return piece,
                Some((at, Match::Perhaps)) => {
                    stream.pending.extend_from_slice(&piece.as_bytes()[at..]);
                    piece.truncate(at);
                    return piece;
                }
                Some(_) => {}
            }
        }
        stream.pending.extend_from_slice(piece.as_bytes());
        let mut masked = piece.into_bytes();
        masked.clear();
        stream.take(false, &mut masked);
        text(masked)
    }

    /// Returns the text that was held back; the next piece begins anew.
    pub fn flush(&mut self, flush: MaskEnd) -> String {
        let (held, stream) = (self.0.pending.len(), &mut self.0);
        let shown = match (&stream.secrets.0, flush) {
            _ if held == 0 => return String::new(),
            (None, _) | (_, MaskEnd::Whole) => true,
            (Some(patterns), MaskEnd::Ended) => held < patterns.least_part(&stream.pending),
            (_, MaskEnd::Broken) => held < SECRET_START_LEAST_BYTES / 2,
        };
        let mut masked = Vec::new();
        if shown {
            stream.take(true, &mut masked);
        } else {
            stream.pending.clear();
            stream.count += 1;
            if flush == MaskEnd::Ended {
                masked.extend_from_slice(MASK.as_bytes());
            }
        }
        text(masked)
    }

    /// How many secrets were masked so far.
    pub fn count(&self) -> u32 {
        self.0.count
    }
}

impl Patterns {
    /// How many bytes of the shortest pattern that begins with these count as a part of it.
    fn least_part(&self, start: &[u8]) -> usize {
        let patterns = self.by_first[usize::from(start[0])].iter().filter(|pattern| pattern.starts_with(start));
        let shortest = patterns.map(|pattern| pattern.len()).min().unwrap_or_default();
        (shortest / 2).clamp(SECRET_START_LEAST_BYTES, SECRET_START_MOST_BYTES)
    }
}

/// A pattern begins and ends where a character does, so what is left is text.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
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

    /// The text in these pieces, masked.
    fn in_pieces<'a>(secrets: &Secrets, pieces: impl IntoIterator<Item = &'a str>, end: MaskEnd) -> String {
        let mut text = MaskedText::new(secrets);
        let masked: String = pieces.into_iter().map(|piece| text.push(piece.to_owned())).collect();
        masked + &text.flush(end)
    }

    #[test]
    fn r50_a_text_in_pieces_holds_no_secret_and_is_otherwise_as_it_came() {
        let secrets = Secrets::new(["sk-Ab/9+潮tide", "sk-Ab/9+潮tide-longer", "plain-secret"]);
        let text =
            "潮 sk-Ab/9+潮tide, sk-Ab/9+潮tide-longer; terces-nialp sk-Ab/9 cGxhaW4tc2VjcmV0 plain-secretplain-secret.";
        let whole = "潮 [secret], [secret]; [secret] sk-Ab/9 [secret] [secret][secret].";
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        for (number, &first) in ends.iter().enumerate() {
            for &second in &ends[number..] {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(in_pieces(&secrets, pieces, MaskEnd::Ended), whole, "{pieces:?}");
            }
        }
        assert_eq!(secrets.mask_counted(text), Some((whole.to_owned(), 6)));
        assert!(secrets.are_in(text) && !secrets.are_in("sk-Ab/9 plain") && secrets.mask_counted("plain").is_none());
        let letters: Vec<&str> = ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        assert_eq!(in_pieces(&secrets, letters.iter().copied(), MaskEnd::Ended), whole);
        let plain = "sk-Ab nialp plain-secre, sk";
        assert_eq!(in_pieces(&secrets, plain.split_inclusive(' '), MaskEnd::Ended), plain);
    }

    #[test]
    fn r50_the_beginning_of_a_secret_at_the_end_of_a_text_is_masked_if_it_is_long() {
        let secrets = Secrets::new(["sk-0123456789abcdefghijklmnopqrstuvwxyz"]);
        for (text, ended, broken) in [
            ("a sk-", "a sk-", "a sk-"),
            ("a sk-0", "a sk-0", "a "),
            ("a sk-0123456789ab", "a sk-0123456789ab", "a "),
            ("a sk-0123456789abc", "a [secret]", "a "),
            ("a sk-0123456789abcdefghijklmnopqrstuvwxy", "a [secret]", "a "),
            ("a sk-0123456789abcdefghijklmnopqrstuvwxyz", "a [secret]", "a [secret]"),
        ] {
            assert_eq!(in_pieces(&secrets, [text], MaskEnd::Ended), ended);
            assert_eq!(in_pieces(&secrets, [text], MaskEnd::Broken), broken);
            assert!(in_pieces(&secrets, [text], MaskEnd::Whole).len() >= ended.len());
        }
    }

    #[test]
    fn secrets_are_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Secrets::new(["sk-abcdef"])), "Secrets(1 values)");
    }
}
