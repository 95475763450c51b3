//! One event of a stream of responses. Unneeded fields are skipped, and `null` counts as absent.

use std::borrow::Cow;

use engine::Usage;
use serde::Deserialize;

use super::item::{self, Mark, Reasoning, Text};
use crate::wire::usage::{Counts, count};

/// An event. Its type decides which fields it has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    /// The index of its item in the answer.
    pub(super) output_index: Option<u64>,
    /// The part of a summary.
    pub(super) summary_index: Option<u64>,
    pub(super) delta: Option<String>,
    pub(super) item: Option<Item>,
    pub(super) response: Option<Response>,
}

/// Only the type, to decide whether an event that cannot be parsed may be skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
}

/// An item of the answer: partial when it begins, complete at its end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    pub(super) r#type: String,
    id: Option<String>,
    call_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<String>,
    phase: Option<String>,
    content: Option<Vec<Content>>,
    summary: Option<Vec<Content>>,
    encrypted_content: Option<String>,
    /// An image in base64.
    pub(super) result: Option<String>,
    output_format: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    text: Option<String>,
    refusal: Option<String>,
}

impl Item {
    /// The id that pairs a call with its result.
    pub(super) fn call_id(&self) -> &str {
        self.call_id.as_deref().or(self.id.as_deref()).unwrap_or_default()
    }

    /// The text of a message.
    pub(super) fn text(&self) -> String {
        let parts = self.content.iter().flatten();
        parts.filter_map(|part| part.text.as_deref().or(part.refusal.as_deref())).collect()
    }

    /// The summary of the reasoning, else the reasoning itself if the server sends it.
    pub(super) fn reasoning(&self) -> String {
        let texts = |parts: &Option<Vec<Content>>| {
            let texts = parts.iter().flatten().filter_map(|part| part.text.clone());
            texts.collect::<Vec<_>>().join(item::BETWEEN)
        };
        Some(texts(&self.summary)).filter(|text| !text.is_empty()).unwrap_or_else(|| texts(&self.content))
    }

    /// The data that must be sent back with a message or a call, in addition to its content.
    pub(super) fn mark(self) -> Mark {
        Mark { id: self.id, phase: self.phase }
    }

    /// The item as it is sent back; none if it has only an id, since the server stores nothing.
    pub(super) fn into_reasoning(self) -> Option<Reasoning> {
        let texts = |parts: Option<Vec<Content>>| -> Vec<String> {
            parts.into_iter().flatten().filter_map(|part| part.text).collect()
        };
        let encrypted_content = self.encrypted_content.filter(|content| !content.is_empty());
        let content = if encrypted_content.is_some() { vec![] } else { texts(self.content) };
        let is_whole = encrypted_content.is_some() || !content.is_empty();
        is_whole.then(|| Reasoning {
            id: self.id,
            summary: texts(self.summary).into_iter().map(|text| Text::SummaryText { text }).collect(),
            content: content.into_iter().map(|text| Text::ReasoningText { text }).collect(),
            encrypted_content,
        })
    }

    /// The media type of an image, and its name.
    pub(super) fn image_type(&self) -> (&'static str, &'static str) {
        match self.output_format.as_deref() {
            Some("jpeg" | "jpg") => ("image/jpeg", "image.jpg"),
            Some("webp") => ("image/webp", "image.webp"),
            _ => ("image/png", "image.png"),
        }
    }
}

/// The answer as a whole at its end; its items were reported before.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub(super) usage: Option<WireUsage>,
    pub(super) incomplete_details: Option<Incomplete>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incomplete {
    pub(super) reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<f64>,
    cache_write_tokens: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<f64>,
}

impl WireUsage {
    /// The counts without overlap; none if the server sent none.
    pub(super) fn normalised(&self) -> Option<Usage> {
        let details = self.input_tokens_details.as_ref();
        let reasoning = self.output_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let counts = Counts {
            prompt: count(self.input_tokens),
            cached: count(details.and_then(|details| details.cached_tokens)),
            cache_written: count(details.and_then(|details| details.cache_write_tokens)),
            output: count(self.output_tokens),
            reasoning: count(reasoning),
        };
        self.input_tokens.map(|_| counts.usage())
    }
}
