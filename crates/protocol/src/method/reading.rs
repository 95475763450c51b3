//! What the methods that only read take and give. The shapes themselves are in `show`: their names are as `--json` prints
//! them, those of parameters and results camelCase as everywhere.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::show::{AuditLine, Listed, RunSummary, TraceLine, Verification};

/// Which run: by its id, or the active, else last one of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunParams {
    /// The run's id, or as much of its beginning as is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose active, else last run is meant, where no run is named; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What `runs.list` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunsListParams {
    /// The session; without it those of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// At most so many, the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The page after the one that gave this as `next`: what stands before it in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What `runs.list` gives, in the order in which they started; those that wait for a place to begin are the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunsListed {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// What the next page is asked for with, which has older ones; none where there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What `runs.trace` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Traced {
    /// A line for each entry of the run.
    pub lines: Vec<TraceLine>,
}

/// What `sessions.list` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsListParams {
    /// At most so many, those that were made last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The page after the one that gave this as `next`: what stands before it in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What `sessions.list` gives, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionsListed {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// What the next page is asked for with, which has older ones; none where there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What `sessions.show` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// At most so many items of the conversation, the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// What `sessions.audit` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// A branch that the session has left, or that no session goes on in, instead of the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The first entry of the current branch that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// At most so many lines, the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Whether hashes, chain and state are recomputed.
    #[serde(default)]
    pub verify: bool,
}

/// What `sessions.audit` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Audited {
    /// The session's key.
    pub session_key: String,
    /// A line for each entry.
    pub lines: Vec<AuditLine>,
    /// What was recomputed, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verification>,
    /// The first entry that is damaged, `BRANCH@SEQ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged_from: Option<String>,
}

/// What `sessions.state` takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// A branch that the session has left, or that no session goes on in, instead of the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The entry, `[BRANCH@]SEQ`.
    pub at: String,
}

/// What `receipts.get` takes: an id or a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptParams {
    /// The message's id, or that of the run that it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The key that it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session that a key is looked for in; without it in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}
