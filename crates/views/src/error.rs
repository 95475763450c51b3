//! The errors of reading a home. The gateway maps them to the wire.

use engine::RecoverError;
use protocol::limits::FRAME_BYTES;

/// Why something cannot be shown. `what` has no full stop; `hint` says what to do.
#[allow(missing_docs, reason = "the variants' fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The entries that were read do not fold.
    #[error("the journal is inconsistent: {0}")]
    Fold(#[from] RecoverError),
    /// The text is not a session key.
    #[error("`{key}` is not a session key")]
    SessionKey { key: String },
    /// The request is invalid.
    #[error("{what}")]
    Invalid { what: String, hint: String },
    /// No such session, run, message or entry exists.
    #[error("{what}")]
    NotFound {
        /// What does not exist.
        what: String,
        /// The command that lists what exists.
        hint: String,
    },
    /// The texts do not fit into a response.
    #[error("the response is larger than a frame ({} MiB)", FRAME_BYTES >> 20)]
    TooLarge,
    /// A bug in this program.
    #[error("{what}")]
    Bug {
        /// The condition that should never occur.
        what: String,
    },
}

impl Error {
    /// A shorthand for [`Error::NotFound`].
    pub(crate) fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: hint.into() }
    }

    /// A shorthand for [`Error::Bug`].
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }

    /// A shorthand for [`Error::Invalid`].
    pub(crate) fn invalid(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), hint: hint.into() }
    }
}
