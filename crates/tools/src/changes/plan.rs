//! The plan of an undo: for each path what is there and what is to be there. The journal keeps it, so that after a crash
//! the next owner carries out the same plan.

use engine::{FileContent, WorkspaceCopy};
use serde::{Deserialize, Serialize};

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The kind, and the hash of the content.
    #[serde(flatten)]
    pub content: FileContent,
    /// The permission bits; none for a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// A path of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Relative to the workspace, or absolute.
    pub path: String,
    /// What is there now; none = nothing. If anything else is there when the plan is carried out, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<FileVersion>,
    /// What is to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<FileVersion>,
    /// Another name of the file that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked_now: Option<String>,
    /// The other names of the file that is to be there: it becomes one file with one of them that has this version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_to: Vec<String>,
}

/// The plan of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPlan {
    /// The folder in which the run worked.
    pub workspace: String,
    /// The paths, each once.
    pub files: Vec<PlannedFile>,
    /// Paths that the run changed too and that stay as they are, as the output says: the next undo goes further back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    /// The copy that the plan is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<PlannedCopy>,
}

/// What becomes of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCopy {
    /// The copy.
    pub copy: WorkspaceCopy,
    /// Whether it is removed, if no file stays as it is.
    pub removes: bool,
}
