//! Parameters and results of the methods that label and delete a session. Names are camelCase.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `sessions.label`: the session, and what is to change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
    /// Its title; an empty one: the first words of its first message again. Without it the title stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is archived: not listed until a message comes. Without it, it stays where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// Result of `sessions.label`, once it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Labelled {
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
}

/// Parameters of `sessions.delete`: the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
}

/// Result of `sessions.delete`, once its content is erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionDeleted {
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// The number of texts and outputs that were erased.
    pub bodies: u64,
    /// Their size as stored, in bytes.
    pub bytes: u64,
    /// The number of contents of files that were kept for an undo and are removed.
    pub files: u64,
}
