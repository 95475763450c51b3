//! Finished content by reference. The engine keeps a [`Body`]; the bytes go to the journal with the batch that names
//! it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::Hash;

/// What a body holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// Text of a message, UTF-8.
    Message,
    /// A model's reasoning, UTF-8.
    Reasoning,
    /// The arguments of a call as the model wrote them (JSON, if the model kept to it).
    Arguments,
    /// What a call gave back.
    Output,
    /// A system prompt, UTF-8.
    Prompt,
    /// The resolved settings of a run, JSON.
    Settings,
    /// The order and the signatures of a message's blocks, JSON ([`crate::Blocks`]).
    Blocks,
    /// An image or a file, its bytes as they are.
    File,
}

impl BodyKind {
    /// The name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Reasoning => "reasoning",
            Self::Arguments => "arguments",
            Self::Output => "output",
            Self::Prompt => "prompt",
            Self::Settings => "settings",
            Self::Blocks => "blocks",
            Self::File => "file",
        }
    }
}

/// Finished content, named by its hash and kept outside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Body {
    /// BLAKE3-256 of the bytes.
    pub hash: Hash,
    /// The length in bytes.
    pub bytes: u64,
    /// Estimated length in tokens.
    pub tokens: u64,
    pub kind: BodyKind,
}

/// A body with its bytes, on the way to the journal.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// The reference that the state keeps.
    pub body: Body,
    /// The bytes behind it.
    pub bytes: Arc<[u8]>,
}

impl Content {
    /// Hashes these bytes and estimates their tokens.
    pub fn new(kind: BodyKind, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let tokens = if kind == BodyKind::File { estimate_tokens(length) } else { text_tokens(&bytes) };
        let body = Body { hash: Hash::of(&bytes), bytes: length, tokens, kind };
        Self { body, bytes }
    }

    /// Hashes this text and estimates its tokens.
    pub fn text(kind: BodyKind, text: &str) -> Self {
        Self::new(kind, text.as_bytes())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({:?}, {} bytes, {:.8})", self.body.kind, self.body.bytes, self.body.hash.to_string())
    }
}

/// An image or a file that belongs to a message or a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Attachment {
    pub body: Body,
    /// The media type, detected from the bytes: `image/png`.
    pub media_type: String,
    /// Its name, without folders.
    pub name: String,
}

/// An attachment with its bytes, on the way to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Attached {
    pub content: Content,
    /// The media type: `image/png`.
    pub media_type: String,
    /// Its name, without folders.
    pub name: String,
}

impl Attached {
    /// Hashes these bytes and estimates their tokens.
    pub fn new(media_type: &str, name: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let content = Content::new(BodyKind::File, bytes);
        Self { content, media_type: media_type.to_owned(), name: name.to_owned() }
    }
}

/// Estimates the tokens of bytes of which nothing else is known: four bytes a token.
pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// Tokens for each thousand letters, blanks, digits, other signs, letters of two bytes, and of three or more. Fitted to
/// what the tokenizer `o200k_base` makes of English, Chinese and Russian prose, code, JSON, logs, listings, hashes and
/// base64: 5 % off in the mean for pieces of 1,500 bytes.
const PER_MILLE: [u64; 6] = [300, 166, 1_043, 191, 323, 881];

/// Estimates the tokens of a text. Families of models differ by a factor ([`crate::Candidate::token_rate`]), and a
/// count from the provider overrides any estimate.
pub fn text_tokens(bytes: &[u8]) -> u64 {
    let mut counts = [0u64; 6];
    // Counts pieces whose counters fit into a small integer, so that many bytes are processed at once.
    for piece in bytes.chunks(128) {
        let count = |is: fn(u8) -> bool| u64::from(piece.iter().map(|byte| u8::from(is(*byte))).sum::<u8>());
        let letters = count(|byte| (byte | 0x20).wrapping_sub(b'a') < 26);
        let blanks = count(|byte| byte == b' ' || byte.wrapping_sub(b'\t') < 5);
        let digits = count(|byte| byte.wrapping_sub(b'0') < 10);
        let (ascii, two) = (count(|byte| byte < 0x80), count(|byte| byte.wrapping_sub(0xC0) < 0x20));
        let more = count(|byte| byte >= 0xE0);
        let signs = ascii - letters - blanks - digits;
        for (sum, count) in counts.iter_mut().zip([letters, blanks, digits, signs, two, more]) {
            *sum += count;
        }
    }
    counts.iter().zip(PER_MILLE).map(|(count, per_mille)| count * per_mille).sum::<u64>().div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_a_text_is_about_as_many_tokens_as_a_tokenizer_makes_of_it() {
        // Counted with o200k_base.
        let prose = "The horseshoe crab has outlived five mass extinctions, and it still comes ashore with the tide.";
        let code = "let total: u64 = counts.iter().zip(weights).map(|(count, weight)| count * weight).sum();";
        let chinese = "鲎已经活过了五次大灭绝，至今仍随着潮水上岸。";
        let hash = "3f9a0c77d1e24b8896aa51c0b7d2e3f4";
        for (text, counted) in [(prose, 24), (code, 25), (chinese, 21), (hash, 26)] {
            let tokens = text_tokens(text.as_bytes());
            assert!(tokens * 10 >= counted * 7 && tokens * 10 <= counted * 14, "{tokens}, not {counted}: {text}");
        }
        assert_eq!((text_tokens(b""), text_tokens(b"a"), text_tokens(b"2026")), (0, 1, 5));
        // Pieces are counted the same way.
        let long = prose.repeat(100);
        assert!(text_tokens(long.as_bytes()).abs_diff(100 * text_tokens(prose.as_bytes())) <= 100);
    }

    #[test]
    fn an_image_is_no_text() {
        assert_eq!(Content::new(BodyKind::File, vec![b'1'; 400]).body.tokens, 100);
    }
}
