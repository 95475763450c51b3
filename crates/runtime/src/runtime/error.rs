//! The errors of the runtime.

use engine::Refusal;

/// An error of a session or the home.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The entries that were read do not fold.
    #[error("session {key} cannot be read ({error}), nothing was changed: `limulus doctor` shows what can be repaired")]
    #[allow(missing_docs, reason = "the variant's fields say it themselves")]
    Damaged { key: String, error: engine::RecoverError },
    /// The engine refused the command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The runtime is shutting down and opens nothing new.
    #[error("the process that owns this home is shutting down, nothing was changed: try again, the next owner answers")]
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
