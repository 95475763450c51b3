//! The error of a request.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame, the method or its parameters are not valid.
    InvalidRequest,
    /// The named thing does not exist.
    NotFound,
    /// The key was already used for a different message.
    Conflict,
    /// The current state does not allow the request; nothing was changed.
    Refused,
    /// The client may not do this.
    Forbidden,
    /// The result does not fit into a frame.
    TooLarge,
    /// The request cannot be served at the moment.
    Unavailable,
    /// The configuration of the owner is not valid.
    Config,
    /// The journal is corrupt.
    Damaged,
    /// The journal cannot be read or written.
    Store,
    /// A bug in limulus.
    Bug,
}

/// Why a request failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error("{message}")]
pub struct ErrorShape {
    /// The kind of the error.
    pub code: ErrorCode,
    /// What happened, for people.
    pub message: String,
    /// What the caller can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// After how many milliseconds to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Details that a client shows with the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Details {
    /// What the caller can do.
    pub hint: String,
    /// The exit code of a command that fails with this error.
    pub exit: u8,
}
