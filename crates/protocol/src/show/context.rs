//! What a model sees of a session, and what each part of it costs.

use engine::Seq;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the next request of a session holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextStory {
    /// The session's key.
    pub key: String,
    /// The model that its last run was with, `PROVIDER/MODEL`; none = it has had no run.
    pub model: Option<String>,
    /// Tokens that the model can see.
    pub window: Option<u64>,
    /// A request that would hold more is not sent before the history is made shorter.
    pub threshold: Option<u64>,
    /// About how many tokens the next request holds.
    pub tokens: u64,
    /// What the provider counted of the last one, since the history was last changed.
    pub counted: Option<u64>,
    /// The parts, in the order in which the model sees them.
    pub parts: Vec<ContextPart>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextPart {
    /// What it is.
    pub what: ContextKind,
    /// The entry that it came with, where it came with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub seq: Option<Seq>,
    /// About how many tokens it is.
    pub tokens: u64,
    /// Its text; of a call its tool and arguments too.
    pub text: String,
}

/// What a part of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextKind {
    /// The system prompt.
    System,
    /// The tools with their schemas.
    Tools,
    /// What stands for the older part of the conversation.
    Summary,
    /// What limulus itself told the model.
    Note,
    /// A message of the user.
    User,
    /// What the model said, with the calls that it asked for.
    Assistant,
    /// What a call gave back.
    Tool,
}
