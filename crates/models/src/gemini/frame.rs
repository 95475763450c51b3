//! One frame of the stream: a `GenerateContentResponse` (ai.google.dev/api/generate-content). Unneeded fields are
//! skipped, and
//! `null` counts as absent.

use engine::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::wire::Json;
use crate::wire::usage::count;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Frame {
    /// The request asks for one candidate.
    pub(super) candidates: Option<Vec<Candidate>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    pub(super) usage_metadata: Option<UsageMetadata>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    pub(super) content: Option<Content>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub(super) parts: Option<Vec<Part>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) text: Option<String>,
    /// Whether the text is a summary of the reasoning.
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Option<String>,
    pub(super) function_call: Option<FunctionCall>,
    pub(super) inline_data: Option<Blob>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionCall {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) args: Option<Json>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Blob {
    pub(super) mime_type: String,
    /// The content in base64.
    pub(super) data: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
}

/// The counts as received. A float or a negative number from a faulty relay must not fail the answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageMetadata {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<f64>,
    /// Tokens that the API's own tools read, in addition to the prompt.
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_use: Option<f64>,
    /// Included in the prompt.
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<f64>,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Option<f64>,
    /// Not included in the candidates.
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<f64>,
}

impl UsageMetadata {
    /// The counts without overlap; none if the server sent none.
    pub(super) fn normalised(&self) -> Option<Usage> {
        let prompt = count(Some(self.prompt?)) + count(self.tool_use);
        let cached = count(self.cached).min(prompt);
        let reasoning = count(self.thoughts);
        Some(Usage {
            input: prompt - cached,
            cached,
            cache_written: 0,
            output: count(self.candidates) + reasoning,
            reasoning,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_what_is_cached_is_in_the_prompt_and_thoughts_are_beside_the_answer() {
        let table = [
            (r#"{"promptTokenCount":10,"candidatesTokenCount":3,"totalTokenCount":13}"#, (10, 0, 3, 0)),
            (
                r#"{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":5,"thoughtsTokenCount":20,
                   "toolUsePromptTokenCount":7}"#,
                (47, 60, 25, 20),
            ),
            (r#"{"promptTokenCount":5,"cachedContentTokenCount":50,"thoughtsTokenCount":null}"#, (0, 5, 0, 0)),
            (r#"{"promptTokenCount":-5,"candidatesTokenCount":2.0}"#, (0, 0, 2, 0)),
        ];
        for (json, expected) in table {
            let usage = serde_json::from_str::<UsageMetadata>(json).unwrap().normalised().unwrap();
            assert_eq!((usage.input, usage.cached, usage.output, usage.reasoning), expected, "{json}");
            assert_eq!(usage.cache_written, 0);
        }
        assert_eq!(UsageMetadata::default().normalised(), None);
    }
}
