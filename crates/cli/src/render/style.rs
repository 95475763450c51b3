//! How the lines of a stream are drawn.

use std::sync::OnceLock;

use crate::output::Output;

/// How answers are shown on a terminal. A pipe gets them as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MarkdownMode {
    /// Rendered.
    Auto,
    /// As they are written.
    Raw,
}

static MARKDOWN: OnceLock<Option<MarkdownMode>> = OnceLock::new();

/// Sets what the command line says, before anything is drawn.
pub(crate) fn set_markdown(mode: Option<MarkdownMode>) {
    let _ = MARKDOWN.set(mode);
}

/// What the command line says.
pub(super) fn markdown_mode() -> Option<MarkdownMode> {
    MARKDOWN.get().copied().flatten()
}

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
    /// The mode for this stdout: a dumb terminal gets what a pipe gets, escaped. The texts of several sessions are never streamed into one another.
    pub(crate) fn of_stdout(json: bool, sessions: usize) -> Self {
        match (json, Output::Stdout.can_redraw() && sessions < 2) {
            (true, _) => Self::Json,
            (false, true) => Self::Terminal,
            (false, false) => Self::Plain,
        }
    }
}
