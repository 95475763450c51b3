//! Builds the result of a tool for the engine: text with every secret masked, and images.

use engine::{Attached, BodyKind, CallOutcome, Content, ToolResult};

use crate::error::ToolError;
use crate::limits::ERROR_BYTES;
use crate::masking::Secrets;

/// The output of a tool that runs in this process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolText {
    pub(crate) text: String,
    /// Images that the model receives with the text.
    pub(crate) shown: Vec<Attached>,
}

impl From<String> for ToolText {
    fn from(text: String) -> Self {
        Self { text, shown: vec![] }
    }
}

/// A result with this text, which must be masked already.
pub(crate) fn text(outcome: CallOutcome, text: &str) -> ToolResult {
    ToolResult::new(outcome, Content::text(BodyKind::Output, text))
}

/// The result of a tool that runs in this process.
pub(crate) fn of(secrets: &Secrets, result: Result<ToolText, ToolError>) -> ToolResult {
    match result {
        Ok(output) => ToolResult { attachments: output.shown, ..text(CallOutcome::Done, &secrets.mask(&output.text)) },
        Err(error) => failed(secrets, &error),
    }
}

/// The result of a call that failed.
pub(crate) fn failed(secrets: &Secrets, error: &ToolError) -> ToolResult {
    text(CallOutcome::Failed, &(message(secrets, error) + "\n"))
}

/// The message of an error, masked and bounded: it may repeat what the model wrote.
pub(crate) fn message(secrets: &Secrets, error: &ToolError) -> String {
    let whole = secrets.mask(&error.to_string());
    let shown = whole.floor_char_boundary(ERROR_BYTES);
    if shown == whole.len() { whole } else { format!("{}… ({} bytes more)", &whole[..shown], whole.len() - shown) }
}
