//! The data of an item that a block stores as its signature, so that the item is sent back unchanged.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The separator of two parts of a summary.
pub(super) const BETWEEN: &str = "\n\n";

/// The whole reasoning item as it is sent back: the signature of reasoning.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "reasoning")]
pub(super) struct Reasoning {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) summary: Vec<Text>,
    /// Only from servers that do not encrypt it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) content: Vec<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) encrypted_content: Option<String>,
}

/// A part of a reasoning.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Text {
    SummaryText { text: String },
    ReasoningText { text: String },
}

/// The data that is sent back with a message or a call: the signature of a text or a call.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Whether the message is commentary or the answer; models end too early if it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
}

/// The text of a signature.
pub(super) fn signature(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("strings can be written")
}

/// Parses a signature; none if it is of another format.
pub(super) fn read<T: DeserializeOwned>(signature: Option<&str>) -> Option<T> {
    serde_json::from_str(signature?).ok()
}
