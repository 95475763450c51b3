//! Parameters and results of the methods on the history of a session: compaction, and the content of the next request.
//! Names are camelCase.

use engine::RunId;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `sessions.compact`: an existing session, and the focus of its summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompactParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// What the summary must keep above all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// Result of `sessions.compact`: what the compaction did, or which run will do it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    /// The key of the session.
    pub session_key: String,
    /// The run that compacts: a new one, or the active one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run_id: Option<RunId>,
    /// The result; none if the active run compacts before its next request.
    pub done: Option<CompactionResult>,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactionResult {
    /// The estimated number of tokens before.
    pub before: u64,
    /// The estimated number of tokens after.
    pub after: u64,
    /// The model that wrote the summary, `PROVIDER/MODEL`; none if an extract replaces the older part.
    pub by: Option<String>,
}

impl CompactionResult {
    /// Describes the compaction of the session with this key in a sentence.
    pub fn sentence(&self, key: &str) -> String {
        let by = self.by.as_ref().map_or_else(|| "by an extract, without a model".to_owned(), |by| format!("by {by}"));
        format!("the history of {key} was compacted: about {} → {} tokens, {by}", self.before, self.after)
    }
}

/// Parameters of `sessions.uncompact`: the session whose last compaction is undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UncompactParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
}

/// Result of `sessions.uncompact`: what is in force again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Uncompacted {
    /// The key of the session.
    pub session_key: String,
    /// The number of messages and results that are sent to the model again.
    pub items: usize,
    /// The estimated number of tokens of the history now.
    pub tokens: u64,
}

/// Parameters of `sessions.context`: the session, and whether to show its next request or the replaced items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Show the items that the last summary replaced instead.
    #[serde(default)]
    pub dropped: bool,
}
