//! The errors of a client. The command line gives each a hint and an exit code.

use protocol::{ClientError, ErrorShape, FrameError};

/// Why a client cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The owner refused a request.
    #[error(transparent)]
    Refused(#[from] ErrorShape),
    /// The journal, or the service of this process.
    #[error(transparent)]
    Own(gateway::Error),
    /// A request does not fit into a frame.
    #[error("the message with its files has more than {} MiB", limit >> 20)]
    TooLarge {
        /// The most bytes of a frame.
        limit: usize,
    },
    /// The owner closed so many connections in a row before it sent anything new.
    #[error("the owner of the home closed {connections} connections in a row before it sent anything new")]
    NothingNew {
        /// How many.
        connections: u32,
    },
    /// The text is not a cursor of this session or home.
    #[error("`{cursor}` is not a cursor of this session or home")]
    Cursor {
        /// The text.
        cursor: String,
    },
    /// A bug in this program.
    #[error("{what}")]
    Bug {
        /// What happened.
        what: String,
    },
}

impl Error {
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }
}

impl From<gateway::Error> for Error {
    fn from(error: gateway::Error) -> Self {
        Self::Own(error)
    }
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Self {
        Self::Own(error.into())
    }
}

impl From<views::Error> for Error {
    fn from(error: views::Error) -> Self {
        Self::Own(error.into())
    }
}

/// The error of a request that another owner would refuse too.
impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Answered(shape) => Self::Refused(shape),
            ClientError::Frame(FrameError::TooLong { limit }) => Self::TooLarge { limit },
            error => Self::bug(error.to_string()),
        }
    }
}
