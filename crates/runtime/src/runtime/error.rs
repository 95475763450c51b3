//! What can go wrong.

use engine::Refusal;

/// What can go wrong with a session or the home.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What was read does not fold.
    #[error("session {key} does not read ({error}), nothing was changed: `limulus doctor` says what can be done")]
    Damaged {
        /// The session's key.
        key: String,
        /// What is wrong.
        error: engine::RecoverError,
    },
    /// The command was not carried out.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The runtime is shutting down, and takes up nothing new.
    #[error("the process that owns this home is leaving, nothing was changed: ask again, the next owner answers")]
    Leaving,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal,
            error => Self::Unavailable { reason: error.to_string() },
        }
    }
}
