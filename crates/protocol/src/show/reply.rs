//! The shape of a reply (R46): what the end of a run says, and how it came about.

use engine::{FailureClass, SessionId, Thinking, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AttachedFile;
#[cfg(feature = "schema")]
use super::names;
use crate::limits::TEXT_TWICE_BYTES;

/// The reply of a run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Reply {
    /// What there is to deliver, in order; empty if the run has nothing to say.
    pub payloads: Vec<Payload>,
    /// How the reply came about.
    pub meta: ReplyMeta,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Payload {
    /// The answer of the model.
    Text {
        /// The text; empty if `ref` says where it is.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// Where the text is, if it is long and the same response holds it already.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        place: Option<TextPlace>,
    },
    /// A call of a tool in one line; only in a session that shows its runs in detail.
    ToolSummary {
        /// The tool, the beginning of its arguments, and the outcome.
        text: String,
    },
    /// The reasoning of the model before its answer; only if the reply has it (`reply.reasoning`).
    Reasoning {
        /// The text.
        text: String,
    },
    /// An image that the model made.
    Media {
        /// The file, which the journal stores under its hash.
        #[serde(rename = "ref")]
        file: AttachedFile,
    },
    /// Why the run did not complete; or that a tool failed, if there is nothing else to say.
    Error {
        /// The text of the error, for a person.
        text: String,
    },
}

/// Where a response holds the text of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TextPlace {
    /// In its field `text`.
    Text,
}

impl Reply {
    /// Its texts, each a paragraph of its own.
    #[must_use]
    pub fn text(&self) -> String {
        let text = |payload: &Payload| match payload {
            Payload::Text { text, .. }
            | Payload::Reasoning { text }
            | Payload::ToolSummary { text }
            | Payload::Error { text } => Some(text.clone()),
            Payload::Media { .. } => None,
        };
        self.payloads.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
    }

    /// Refers to a long text that the response holds beside the reply: twice it may not fit into a frame.
    #[must_use]
    pub fn beside(mut self, answer: &str) -> Self {
        if answer.len() <= TEXT_TWICE_BYTES {
            return self;
        }
        for payload in &mut self.payloads {
            if let Payload::Text { text, place } = payload
                && text == answer
            {
                (*text, *place) = (String::new(), Some(TextPlace::Text));
            }
        }
        self
    }
}

/// How a reply came about. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReplyMeta {
    /// The id of the session.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// The provider of the model that was asked last; none if no model was asked.
    pub provider: Option<String>,
    /// The name of that model at its provider.
    pub model: Option<String>,
    /// The auth profile that was used, if there is one.
    pub profile: Option<String>,
    /// Why the answer ends where it ends.
    pub stop_reason: ReplyStop,
    /// The candidates that were asked or passed over, in order. An attempt lasts until a request of it fails or is
    /// interrupted, or another candidate is asked.
    pub attempts: Vec<Attempt>,
    /// The token usage of all requests of the run.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// The cost in micro-dollars; an unknown cost counts as its reservation, an unknown price as 0.
    pub cost: u64,
    /// The time from the start of the run to its end, milliseconds.
    pub duration_ms: u64,
    /// The failure that ended the run; none if it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ReplyError>,
}

/// Why an answer ends where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplyStop {
    /// The model finished its answer.
    Stop,
    /// The answer reached its limit of output, and its rest did not come.
    Length,
    /// A content filter of the provider ended the answer.
    ContentFilter,
    /// The run only had to compact the history.
    Compacted,
    /// The run failed.
    Error,
    /// The user ended the run.
    Aborted,
    /// Another message took the place of the run.
    Interrupted,
    /// The run exceeded its time limit.
    TimedOut,
    /// The run made no progress for too long.
    Stalled,
}

/// The failure that ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReplyError {
    /// The class of the failure.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: FailureClass,
    /// What happened, and what to do.
    pub message: String,
}

/// A model with a profile that was asked, or passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Attempt {
    /// The provider's name in the configuration; empty if the settings of the run were removed.
    pub provider: String,
    /// The model's name at the provider; empty if the settings of the run were removed.
    pub model: String,
    /// The auth profile, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The thinking level; none = the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub thinking: Option<Thinking>,
    /// When it was first asked; or since when it is known that it is in cooldown.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// Whether it was asked.
    pub kind: AttemptKind,
    /// Why it gave no answer: the class of the failure, or the cause of the interruption. None if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The HTTP status of the failure, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code of the failure, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Until when it is in cooldown, if the failure began one that ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub until: Option<Timestamp>,
}

/// Whether a candidate was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// It was asked.
    Tried,
    /// It was passed over, because it was in cooldown.
    Skipped,
}

#[cfg(test)]
mod tests {
    use engine::Usage;

    use super::*;

    #[test]
    fn r46_a_long_answer_is_in_a_response_once() {
        let meta = ReplyMeta {
            session: "00000000-0000-0000-0000-000000000001".parse().unwrap(),
            provider: None,
            model: None,
            profile: None,
            stop_reason: ReplyStop::Stop,
            attempts: vec![],
            usage: Usage::default(),
            cost: 0,
            duration_ms: 0,
            error: None,
        };
        let reply =
            |text: &str| Reply { payloads: vec![Payload::Text { text: text.into(), place: None }], meta: meta.clone() };
        let long = "\u{1}".repeat(TEXT_TWICE_BYTES + 1);
        let shown = serde_json::to_value(reply(&long).beside(&long).payloads).unwrap();
        assert_eq!(shown, serde_json::json!([{ "kind": "text", "ref": "text" }]));
        assert_eq!(reply(&long).beside("another"), reply(&long), "it is nowhere else");
        assert_eq!(reply("short").beside("short"), reply("short"));
        let old: Payload = serde_json::from_str(r#"{"kind":"text","text":"short"}"#).unwrap();
        assert_eq!(vec![old], reply("short").payloads);
    }
}
