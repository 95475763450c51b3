//! Why a request was not carried out.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame, the method or its parameters make no sense.
    InvalidRequest,
    /// There is nothing of that name.
    NotFound,
    /// The same key was used for another message.
    Conflict,
    /// The state does not allow it; nothing was changed.
    Refused,
    /// The answer does not fit into a frame.
    TooLarge,
    /// It cannot be had just now.
    Unavailable,
    /// The configuration of the owner.
    Config,
    /// The journal is not what it should be.
    Damaged,
    /// The journal cannot be read or written.
    Store,
    /// A bug in limulus.
    Bug,
}

/// Why a request was not carried out, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error("{message}")]
pub struct ErrorShape {
    /// What kind.
    pub code: ErrorCode,
    /// What happened, for people.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When to try again, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What a client shows beside the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Details {
    /// What to do.
    pub hint: String,
    /// What a command line ends with.
    pub exit: u8,
}
