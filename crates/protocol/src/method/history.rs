//! What the methods take and give that are about a session's history: how it is made shorter, and what the model sees of it.
//! Names are camelCase here.

use engine::RunId;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `sessions.compact` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompactParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// What the summary is to keep above all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// What `sessions.compact` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    /// The session.
    pub session_key: String,
    /// The run that does it: one of its own, or the one that is under way.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run_id: Option<RunId>,
    /// What became of it; none where the run that is under way does it before its next request.
    pub done: Option<Shorter>,
}

/// A history that is shorter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Shorter {
    /// About how many tokens it had.
    pub before: u64,
    /// And has now.
    pub after: u64,
    /// The model that summarised, `PROVIDER/MODEL`; none = an extract stands for the older part.
    pub by: Option<String>,
}

impl Shorter {
    /// Of the session of this key, as a sentence.
    pub fn sentence(&self, key: &str) -> String {
        let by = self.by.as_ref().map_or_else(|| "an extract, without a model".to_owned(), |by| format!("by {by}"));
        format!("the history of {key} is shorter: about {} → {} tokens, {by}", self.before, self.after)
    }
}

/// What `sessions.uncompact` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UncompactParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
}

/// What `sessions.uncompact` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Uncompacted {
    /// The session.
    pub session_key: String,
    /// Messages and results that are told again.
    pub items: usize,
    /// About how many tokens the history has now.
    pub tokens: u64,
}

/// What `sessions.context` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Show what the last summary stands for instead.
    #[serde(default)]
    pub dropped: bool,
}
