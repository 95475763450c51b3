//! The `chat` events: a subscription that asks for them receives the answer so far from time to time, and the whole
//! answer at the end, instead of single lines.

use engine::{RunId, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::notice::Notice;
#[cfg(feature = "schema")]
use crate::show::names;

/// The shortest time between two deltas of a run, milliseconds.
pub const CHAT_DELTA_MS: u64 = 150;

impl Notice for Chat {
    const NAME: &'static str = "chat";
}

/// The answer of a run so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// The cursor with which a subscriber resumes after this event.
    pub cursor: String,
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// Whether the answer is complete.
    pub state: ChatState,
    /// The whole text so far; none if there is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<ChatMessage>,
    /// Why the run failed or was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The token usage of the run; only at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::UsageShape>"))]
    pub usage: Option<Usage>,
}

/// Whether an answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatState {
    /// More text may follow.
    Delta,
    /// The answer is complete.
    Final,
    /// The run was aborted or interrupted. The event carries the text up to then.
    Aborted,
    /// The run failed. The event carries the text up to then.
    Error,
}

/// A message of the assistant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ChatMessage {
    /// Always `assistant`.
    pub role: String,
    /// One part, with the text.
    pub content: Vec<ChatPart>,
    /// When its last piece came, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub timestamp: Timestamp,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    /// A text.
    Text {
        /// The whole text so far.
        text: String,
    },
}

impl ChatMessage {
    /// A message of the assistant with this text.
    pub fn said(text: String, timestamp: Timestamp) -> Self {
        Self { role: "assistant".to_owned(), content: vec![ChatPart::Text { text }], timestamp }
    }

    /// The text of all its parts.
    pub fn text(&self) -> String {
        self.content.iter().map(|ChatPart::Text { text }| text.as_str()).collect()
    }
}
