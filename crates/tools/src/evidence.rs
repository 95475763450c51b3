//! What the check of a call saw, and what the run of it relies on: it goes through the journal, so it also tells a later
//! owner what became of a call that a crash cut off.

use std::path::PathBuf;

use engine::Hash;
use serde::{Deserialize, Serialize};

use crate::files::FileState;

/// The evidence of one call. Written as JSON; what cannot be read is none, and then nothing is overwritten by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Where its paths led, if that is outside the workspace and the policy did not deny it: the call reaches no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) outside: Vec<PathBuf>,
    /// The files that it is to change, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<FileChange>,
}

/// What a file was, and what it is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub(crate) before: FileState,
    pub(crate) after: FileState,
}

impl FileChange {
    /// A file that is to hold these bytes.
    pub(crate) fn to(before: FileState, content: &[u8]) -> Self {
        Self { before, after: Some(Hash::of(content)) }
    }
}

impl Evidence {
    /// Reads what [`Evidence::to_text`] wrote.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// For the journal; nothing if there is nothing to know.
    pub(crate) fn to_text(&self) -> Option<String> {
        let text = || serde_json::to_string(self).expect("hashes and paths that are text are valid JSON");
        (*self != Self::default()).then(text)
    }
}
