//! What a subscription that asks for chat is told instead of lines: the answer so far, now and then, and the whole at the end.

use engine::{RunId, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::notice::Notice;
#[cfg(feature = "schema")]
use crate::show::names;

/// The least time between two deltas of a run, milliseconds.
pub const CHAT_DELTA_MS: u64 = 150;

impl Notice for Chat {
    const NAME: &'static str = "chat";
}

/// The answer of a run, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// What a subscriber that has read this comes back with.
    pub cursor: String,
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The session's key.
    pub session_key: String,
    /// How far it is.
    pub state: ChatState,
    /// The whole text so far; none where there is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<ChatMessage>,
    /// Why there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What the run took, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::UsageShape>"))]
    pub usage: Option<Usage>,
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatState {
    /// There may be more.
    Delta,
    /// It is whole.
    Final,
    /// The run was aborted or interrupted: this is what had come.
    Aborted,
    /// The run failed: this is what had come.
    Error,
}

/// What the assistant says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ChatMessage {
    /// `assistant`.
    pub role: String,
    /// One part, with the text.
    pub content: Vec<ChatPart>,
    /// When the last of it came.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub timestamp: Timestamp,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    /// Text.
    Text {
        /// All of it so far.
        text: String,
    },
}

impl ChatMessage {
    /// What the assistant has said by then.
    pub fn said(text: String, timestamp: Timestamp) -> Self {
        Self { role: "assistant".to_owned(), content: vec![ChatPart::Text { text }], timestamp }
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.content.iter().map(|ChatPart::Text { text }| text.as_str()).collect()
    }
}
