//! One frame of a chat-completions stream. Parsing is lenient, since servers of this format differ: unneeded fields are
//! skipped and `null` counts as absent.

use std::fmt;

use engine::Usage;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::wire::usage::{Counts, count};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame {
    /// The request asks for one choice; the last frame of some servers has none.
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<WireUsage>,
    pub(super) x_groq: Option<GroqTail>,
    pub(super) error: Option<Value>,
    /// `error` if the frame itself is an error (vLLM).
    pub(super) object: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    pub(super) delta: Option<Delta>,
    pub(super) finish_reason: Option<String>,
    /// With the finish reason `error`, unless it is next to the choices (OpenRouter).
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Content,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    pub(super) arguments: Arguments,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GroqTail {
    pub(super) usage: Option<WireUsage>,
}

/// The counts as received.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Option<f64>,
    completion_tokens: Option<f64>,
    total_tokens: Option<f64>,
    /// DeepSeek's name for tokens that were read from its cache.
    prompt_cache_hit_tokens: Option<f64>,
    /// LiteLLM's and Anthropic's name for tokens that were written to the cache.
    cache_creation_input_tokens: Option<f64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<f64>,
    cache_write_tokens: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<f64>,
}

impl WireUsage {
    /// The counts without overlap; none if the server sent none.
    pub(super) fn normalised(&self) -> Option<Usage> {
        let prompt = count(Some(self.prompt_tokens?));
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|d| d.cached_tokens).or(self.prompt_cache_hit_tokens);
        let written = details.and_then(|d| d.cache_write_tokens).or(self.cache_creation_input_tokens);
        // If the total is more than the sum, the completion does not include the reasoning.
        let beyond_prompt = count(self.total_tokens).saturating_sub(prompt);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens);
        let counts = Counts {
            prompt,
            cached: count(cached),
            cache_written: count(written),
            output: count(self.completion_tokens).max(beyond_prompt),
            reasoning: count(reasoning),
        };
        Some(counts.usage())
    }
}

/// Text, or parts of text and thinking (Mistral's reasoning models).
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) reasoning: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(TextOrValue)? {
            Loose::Text(text) => Ok(Self { text, reasoning: String::new() }),
            Loose::Value(value) => {
                let mut content = Self::default();
                value.as_array().into_iter().flatten().for_each(|part| content.take_part(part));
                Ok(content)
            }
        }
    }
}

impl Content {
    fn take_part(&mut self, part: &Value) {
        self.text.push_str(part["text"].as_str().unwrap_or_default());
        for thought in part["thinking"].as_array().into_iter().flatten() {
            self.reasoning.push_str(thought["text"].as_str().unwrap_or_default());
        }
    }
}

/// An addition to a call's arguments. If a server sends an object, it is serialised.
#[derive(Debug, Default)]
pub(super) struct Arguments(pub(super) String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(TextOrValue)? {
            Loose::Text(text) => text,
            Loose::Value(value) => value.to_string(),
        }))
    }
}

enum Loose {
    Text(String),
    Value(Value),
}

struct TextOrValue;

impl<'de> Visitor<'de> for TextOrValue {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list or an object")
    }
    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Text(String::new()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<Loose, E> {
        Ok(Loose::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Loose, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(list)).map(Loose::Value)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Loose, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(object)).map(Loose::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: &str, expected: (u64, u64, u64, u64, u64)) {
        let usage = serde_json::from_str::<WireUsage>(usage).unwrap().normalised().unwrap();
        assert_eq!((usage.input, usage.cached, usage.cache_written, usage.output, usage.reasoning), expected);
    }

    #[test]
    fn c6_input_is_what_was_read_fresh() {
        check(r#"{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}"#, (10, 0, 0, 3, 0));
        check(
            r#"{"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},
               "completion_tokens_details":{"reasoning_tokens":4}}"#,
            (10, 60, 30, 9, 4),
        );
        check(r#"{"prompt_tokens":100,"prompt_cache_hit_tokens":64,"completion_tokens":null}"#, (36, 64, 0, 0, 0));
        check(r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":50}}"#, (0, 5, 0, 0, 0));
        check(r#"{"prompt_tokens":-5,"completion_tokens":2.0}"#, (0, 0, 0, 2, 0));
    }

    #[test]
    fn c6_reasoning_left_out_of_the_completion_is_found_in_the_total() {
        check(
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}"#,
            (10, 0, 0, 25, 20),
        );
    }

    #[test]
    fn content_comes_as_text_as_parts_or_not_at_all() {
        let content = |json: &str| {
            let content = serde_json::from_str::<Content>(json).unwrap();
            (content.text, content.reasoning)
        };
        assert_eq!(content(r#""a""#), ("a".to_owned(), String::new()));
        assert_eq!(content("null"), Default::default());
        let parts = r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"b"}]"#;
        assert_eq!(content(parts), ("b".to_owned(), "hm".to_owned()));
    }
}
