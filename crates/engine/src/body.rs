//! Finished content by reference. The engine keeps a [`Body`]; the bytes go to the journal with the batch that names it.

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
    /// Resolved settings, JSON.
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
pub struct Body {
    /// BLAKE3-256 of the bytes.
    pub hash: Hash,
    /// Length in bytes.
    pub bytes: u64,
    /// Estimated length in tokens.
    pub tokens: u64,
    /// What it holds.
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
    /// Names these bytes.
    pub fn new(kind: BodyKind, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let body = Body {
            hash: Hash::of(&bytes),
            bytes: bytes.len() as u64,
            tokens: estimate_tokens(bytes.len() as u64),
            kind,
        };
        Self { body, bytes }
    }

    /// Names this text.
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
pub struct Attachment {
    /// Its bytes.
    pub body: Body,
    /// What they are, as told by the bytes themselves: `image/png`.
    pub media_type: String,
    /// Its name, without folders.
    pub name: String,
}

/// An attachment with its bytes, on the way to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Its bytes.
    pub content: Content,
    /// What they are: `image/png`.
    pub media_type: String,
    /// Its name, without folders.
    pub name: String,
}

impl Attached {
    /// Names these bytes.
    pub fn new(media_type: &str, name: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let content = Content::new(BodyKind::File, bytes);
        Self { content, media_type: media_type.to_owned(), name: name.to_owned() }
    }
}

/// A first estimate, four bytes a token; the provider's own usage corrects it.
pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}
