//! How Ollama's chat API writes a request.

use engine::{Candidate, Thinking, ToolSpec};
use serde::Serialize;

use crate::conversation::{BodyFormat, Conversation, ResultFiles, ResultMessage};
use crate::endpoint::Api;
use crate::files::Shown;
use crate::model::{AssistantMessage, CallOf, File, Request};
use crate::normalize;
use crate::rendering::List;
use crate::sampling::decimal;
use crate::wire::{Json, Tool};

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    /// A conversation that does not fit is to be an error: by default its beginning is dropped without a notice.
    truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    options: Options,
}

/// Yes or no, or a level for models that take only these.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Think {
    Whether(bool),
    Level(&'static str),
}

#[derive(Serialize)]
struct Options {
    num_ctx: u64,
    num_predict: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Default, Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    /// Base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: String,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: Json,
}

/// The largest window that is asked for, tokens: the server makes room for all of it when it loads the model. Its own default,
/// a few thousand, is less than a conversation with tools needs.
const MOST_CONTEXT: u64 = 262_144;

/// The images that the server can read; others end the request.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp"];

/// Models that think by level and cannot be kept from it.
const BY_LEVEL: &str = "gpt-oss";

/// The request as JSON.
pub(super) fn render(request: &Request) -> Vec<u8> {
    Conversation::render(&Ollama, request).document(&head(&request.candidate), "messages")
}

fn head(candidate: &Candidate) -> Head<'_> {
    Head {
        model: &candidate.model,
        stream: true,
        truncate: false,
        think: candidate.thinking.map(|level| think(&candidate.model, level)),
        options: Options {
            num_ctx: candidate.context_window.min(MOST_CONTEXT),
            num_predict: candidate.max_output,
            temperature: decimal(candidate.sampling.temperature),
            top_p: decimal(candidate.sampling.top_p),
        },
    }
}

fn think(model: &str, level: Thinking) -> Think {
    if !model.rsplit('/').next().unwrap_or(model).starts_with(BY_LEVEL) {
        return Think::Whether(level != Thinking::Off);
    }
    Think::Level(match level {
        Thinking::Off | Thinking::Minimal | Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High | Thinking::Xhigh => "high",
    })
}

fn text_message<'a>(role: &'static str, text: &str) -> WireMessage<'a> {
    WireMessage { role, content: text.to_owned(), ..WireMessage::default() }
}

fn user<'a>(text: &str, files: &[File]) -> WireMessage<'a> {
    let mut message = text_message("user", text);
    for file in files {
        let shown = match file.shown() {
            Shown::Image(image) if IMAGES.contains(&&*image.media_type) => {
                message.images.push(image.base64());
                continue;
            }
            Shown::Text(text) => text,
            Shown::Image(file) | Shown::Document(file) => file.note(),
        };
        if !message.content.is_empty() {
            message.content.push('\n');
        }
        message.content.push_str(&shown);
    }
    message
}

struct Ollama;

impl BodyFormat for Ollama {
    const API: Api = Api::Ollama;
    const RESULT_FILES: ResultFiles = ResultFiles::AfterResults;

    fn details(&self) -> String {
        String::new()
    }

    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>) {
        for tool in tools {
            list.value(&Tool::from(tool));
        }
    }

    fn system(&self, system: &str, list: &mut List<'_>) {
        write(&text_message("system", system), list);
    }

    fn user(&self, text: &str, files: &[File], list: &mut List<'_>) {
        write(&user(text, files), list);
    }

    /// The reasoning of a turn goes back with its calls, as the API documents it; alone it is of no use.
    fn assistant(&self, answer: &AssistantMessage, repeat: usize, list: &mut List<'_>) {
        let tool_calls: Vec<_> = answer.calls().map(|call| wire_call(call, repeat)).collect();
        let thinking = if tool_calls.is_empty() { String::new() } else { answer.reasoning() };
        write(&WireMessage { thinking, tool_calls, ..text_message("assistant", &answer.text()) }, list);
    }

    fn result(&self, result: &ResultMessage<'_>, repeat: usize, list: &mut List<'_>) {
        let tool_call_id = Some(normalize::id(result.provider_id, repeat));
        write(&WireMessage { tool_name: Some(result.tool), tool_call_id, ..text_message("tool", result.text) }, list);
    }
}

/// An empty message says nothing and is left out; an empty result is an answer to its call.
fn write(message: &WireMessage<'_>, list: &mut List<'_>) {
    let says = !message.content.is_empty() || !message.images.is_empty() || !message.tool_calls.is_empty();
    if says || message.tool_name.is_some() {
        list.value(message);
    }
}

fn wire_call(call: &CallOf, repeat: usize) -> WireCall<'_> {
    let function = WireFunction { name: &call.tool, arguments: Json::arguments(&call.arguments) };
    WireCall { id: normalize::id(&call.provider_id, repeat), function }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r69_thinking_is_yes_or_no_or_a_level_by_model() {
        let table = [
            ("qwen3:8b", Thinking::Off, Think::Whether(false)),
            ("qwen3:8b", Thinking::Minimal, Think::Whether(true)),
            ("gpt-oss:20b", Thinking::Off, Think::Level("low")),
            ("library/gpt-oss:120b-cloud", Thinking::Medium, Think::Level("medium")),
            ("gpt-oss", Thinking::Xhigh, Think::Level("high")),
        ];
        for (model, level, expected) in table {
            assert_eq!(think(model, level), expected, "{model} {level:?}");
        }
    }
}
