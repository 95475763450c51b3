//! The content of a session's next request, with the tokens of each part.

use engine::Seq;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of a session's next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextStory {
    /// The key of the session, agent:AGENT:NAME.
    pub key: String,
    /// The model of its last run, `PROVIDER/MODEL`; none if it has had no run.
    pub model: Option<String>,
    /// The context window of the model, tokens.
    pub window: Option<u64>,
    /// The number of tokens above which the history is compacted before a request is sent.
    pub threshold: Option<u64>,
    /// The estimated number of tokens of the next request.
    pub tokens: u64,
    /// The number of tokens that the provider counted in the last request; none if the history was changed since.
    pub counted: Option<u64>,
    /// The number of the oldest items that the request leaves out, because the agent's `history_turns` allows no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// The parts, in the order in which the model sees them.
    pub parts: Vec<ContextPart>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextPart {
    /// The kind of the part.
    pub what: ContextKind,
    /// The entry that it comes from, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub seq: Option<Seq>,
    /// The name of a part of the system prompt: `identity`, `tools`, `safety`, `workspace`, `task`, `today`, or of a bootstrap file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file that it comes from, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its estimated number of tokens.
    pub tokens: u64,
    /// Its text; for a call also its tool and arguments.
    pub text: String,
}

/// The kind of a part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextKind {
    /// A part of the system prompt that Limulus itself writes.
    System,
    /// A bootstrap file such as `AGENTS.md`, which is part of the system prompt.
    Instructions,
    /// The tools with their schemas.
    Tools,
    /// The summary that replaces the older part of the conversation.
    Summary,
    /// A note from limulus itself to the model.
    Note,
    /// A message of the user.
    User,
    /// A message of the model, with its calls.
    Assistant,
    /// The result of a call.
    Tool,
}
