//! What is kept of an item as a block's signature, so that it goes back as it came. What may not live here: what is said.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What stands between two parts of a summary.
pub(super) const BETWEEN: &str = "\n\n";

/// Reasoning as it goes back, whole: its signature.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "reasoning")]
pub(super) struct Reasoning {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) summary: Vec<Text>,
    /// Only of servers that do not encrypt it.
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

/// What goes back with a message or a call beside its content: the signature of a text or a call.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Whether it comments or answers; models end too early if it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
}

/// The text of a signature.
pub(super) fn signature(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("strings can be written")
}

/// Reads a signature; none if it is another format's.
pub(super) fn read<T: DeserializeOwned>(signature: Option<&str>) -> Option<T> {
    serde_json::from_str(signature?).ok()
}
