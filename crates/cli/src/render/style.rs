//! How the lines of a stream are drawn.

use crate::output::Output;

/// How lines are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// One JSON object a line.
    Json,
    /// Text as it streams; retracted text is erased.
    Terminal,
    /// Each message when it is sealed.
    Plain,
    /// Nothing on stdout: only notes.
    Notes,
}

impl Style {
    /// The mode for this stdout. The texts of several sessions are never streamed into one another.
    pub(crate) fn of_stdout(json: bool, sessions: usize) -> Self {
        match (json, Output::Stdout.is_terminal() && sessions < 2) {
            (true, _) => Self::Json,
            (false, true) => Self::Terminal,
            (false, false) => Self::Plain,
        }
    }
}
