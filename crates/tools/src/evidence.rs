//! The evidence of a call: what its check saw and its run relies on. The journal stores it, so that after a crash a
//! later owner can find out what became of the call.

use std::path::PathBuf;

use engine::Hash;
use serde::{Deserialize, Serialize};

use crate::approved::ApprovedFile;
use crate::files::FileState;

/// The evidence of one call, written as JSON. Evidence that cannot be parsed counts as none; the tools then overwrite
/// no file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// The paths outside the workspace that the policy did not deny, and the files that other programs run if the call
    /// is to write them. The call can access no other path outside, and write no other such file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) outside: Vec<PathBuf>,
    /// The files that the call is to change, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<FileChange>,
    /// The folders that the call is to create for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) folders: Vec<PathBuf>,
    /// The command runs outside of the sandbox that its run has: somebody approved that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unconfined: bool,
    /// Nobody was asked about the command, since all of its sandbox held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) holds: bool,
    /// The hosts that the command reaches from its sandbox, beyond those of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// The files and folders outside the workspace that the command writes from its sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) writable: Vec<PathBuf>,
    /// What a command was that somebody is asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) approved: Vec<ApprovedFile>,
}

/// The state of a file before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub(crate) before: FileState,
    pub(crate) after: FileState,
    /// The permission bits of a file that is to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<u32>,
}

impl FileChange {
    /// A change to these bytes.
    pub(crate) fn to(before: FileState, content: &[u8]) -> Self {
        Self { before, after: Some(Hash::of(content)), mode: None }
    }

    /// Whether both change the same content in the same way.
    pub(crate) fn is_same(self, other: Self) -> bool {
        (self.before, self.after) == (other.before, other.after)
    }
}

impl Evidence {
    /// Reads what [`Evidence::to_text`] wrote.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The text for the journal; none if there is no evidence.
    pub(crate) fn to_text(&self) -> Option<String> {
        let text = || serde_json::to_string(self).expect("hashes and paths that are text are valid JSON");
        (*self != Self::default()).then(text)
    }
}
