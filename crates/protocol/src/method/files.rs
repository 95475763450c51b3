//! Parameters and results of the methods on what runs changed in files: `runs.diff` and `runs.undo`. Names are camelCase.

use engine::{CopyAct, FileKind, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::show::BackgroundCommand;

/// Parameters of `runs.diff`: a run, or the last runs of a session that changed files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiffParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The run, or a unique prefix of its id; without it the last ones that changed files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How many of the last runs, together; without it 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// Result of `runs.diff`: what the runs changed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    /// The key of the session.
    pub session_key: String,
    /// The runs, oldest first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub run_ids: Vec<RunId>,
    /// The folder in which they worked.
    pub workspace: String,
    /// The changed files, by path.
    pub files: Vec<FileDiff>,
    /// The commands that they ran. What they did outside the workspace is not recorded.
    pub commands: Vec<String>,
    /// Why not all that commands changed in the workspace is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
    /// The background commands that still work in this folder, or in one in or around it. What they change is recorded
    /// when they end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundCommand>,
    /// Which of the runs were undone since, and not made once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<UndoneRun>,
    /// The copy in which the last of them worked; none if it worked in the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyOfRun>,
}

/// The copy in which a run worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CopyOfRun {
    /// What it is a copy of.
    pub of: String,
    /// Where it is, or was.
    pub folder: String,
    /// What became of it: open, applied, discarded or gone.
    pub state: CopyOutcome,
    /// When its changes were taken over, or when it was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub at: Option<Timestamp>,
}

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CopyOutcome {
    /// It waits for a decision.
    Open,
    /// Its changes are in the workspace.
    Applied,
    /// It was removed, with its changes.
    Discarded,
    /// Somebody removed it otherwise.
    Gone,
}

/// A run whose changes were taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UndoneRun {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// When it was last undone.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub undone_at: Timestamp,
    /// How many of its files were taken back.
    pub files: usize,
    /// How many files it changed.
    pub of: usize,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileAct {
    /// It was not there before.
    Created,
    /// It was there before and is there after.
    Changed,
    /// It is not there after.
    Removed,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Its path, relative to the workspace if it is inside.
    pub path: String,
    /// What it is: file, link or folder.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: FileKind,
    /// What happened to it.
    pub act: FileAct,
    /// Its permission bits before and after, in octal, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<[String; 2]>,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// The unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Why there is no diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Result of `runs.record`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The sessions of the commands.
    pub session_keys: Vec<String>,
}

/// Parameters of `runs.undo`: take back what a run changed in files, or make it once more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the wire")]
pub struct UndoParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The run, or a unique prefix of its id; without it the last one that has something to undo or redo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Only these files, and what is in these folders; relative to the workspace, or absolute. Empty = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Make changes once more that were undone.
    #[serde(default)]
    pub redo: bool,
    /// Instead of that: take over what changed in the copy in which the run worked, or discard that copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::show::names::CopyActName>"))]
    pub copy: Option<CopyAct>,
    /// Also overwrite files that were changed since, or that somebody else may have changed.
    #[serde(default)]
    pub force: bool,
    /// Only a run before this one, by its whole id, if no run is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Leave files as they are that were changed since, or that somebody else may have changed. If no run is named and
    /// nothing of one can be restored, go one run further back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// The same as `force` for these paths only, as the result of a dry run names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overwrite: Vec<String>,
    /// Leave these paths as they are if they were changed since, or somebody else may have changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Show what an overwrite would change in files that were changed since, or that somebody else may have changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diffs: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of `runs.undo`: what was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FilesUndone {
    /// The key of the session.
    pub session_key: String,
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// Whether changes are made once more.
    pub redo: bool,
    /// What becomes of the copy in which it worked, if it is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::show::names::CopyActName>"))]
    pub copy: Option<CopyAct>,
    /// Whether it was done; false for a dry run.
    pub done: bool,
    /// The folder in which the run worked.
    pub workspace: String,
    /// The files, by path.
    pub files: Vec<UndoneFile>,
    /// The commands that the run ran: what they did outside the workspace stays.
    pub commands: Vec<String>,
    /// Why not all that they changed in the workspace is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
    /// The background commands that still work in this folder, or in one in or around it. What they change is recorded
    /// when they end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundCommand>,
}

/// What an undo does with one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UndoneFile {
    /// Its path, relative to the workspace if it is inside.
    pub path: String,
    /// What it is: file, link or folder.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: FileKind,
    /// What happens to it.
    pub act: FileAct,
    /// Why it stays as it is; none if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Whether it was changed since; then only `force` or `overwrite` overwrites it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_since: bool,
    /// Why it may be a change of somebody else; then it stays, unless `force` or `overwrite` takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maybe_others: Option<String>,
    /// What an overwrite would change, with `diffs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl UndoneFile {
    /// Whether only the user can say what becomes of it.
    pub fn is_asked(&self) -> bool {
        self.left.is_some() && (self.changed_since || self.maybe_others.is_some())
    }
}
