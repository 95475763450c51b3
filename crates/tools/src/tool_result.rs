//! What a tool gives back, as the engine takes it: text with every secret masked, and what the model is shown with it. What
//! may not live here: what any one tool says.

use engine::{Attached, BodyKind, CallOutcome, Content, ToolResult};

use crate::error::ToolError;
use crate::masking::Secrets;

/// What a tool of this process has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) text: String,
    /// Images that the model is shown with it.
    pub(crate) shown: Vec<Attached>,
}

impl From<String> for Told {
    fn from(text: String) -> Self {
        Self { text, shown: vec![] }
    }
}

/// An end that is told in these words.
pub(crate) fn text(outcome: CallOutcome, text: &str) -> ToolResult {
    ToolResult::new(outcome, Content::text(BodyKind::Output, text))
}

/// The end of a tool of this process.
pub(crate) fn of(secrets: &Secrets, result: Result<Told, ToolError>) -> ToolResult {
    match result {
        Ok(told) => ToolResult { attachments: told.shown, ..text(CallOutcome::Done, &secrets.mask(&told.text)) },
        Err(error) => failed(secrets, &error),
    }
}

/// A call that could not do what it was to do.
pub(crate) fn failed(secrets: &Secrets, error: &ToolError) -> ToolResult {
    text(CallOutcome::Failed, &secrets.mask(&format!("{error}\n")))
}
