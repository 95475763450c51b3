//! How Anthropic's Messages API writes a request.

use std::sync::Arc;

use engine::{Sampling, Thinking as Level, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::{REDACTED, thinking};
use crate::conversation::{BodyFormat, Conversation, ResultFiles, ResultMessage};
use crate::endpoint::Api;
use crate::files::Shown;
use crate::model::{AssistantMessage, BlockContent, CallOf, ContentBlock, File, Message, Request};
use crate::normalize::{self, Turn};
use crate::rendering::{List, Object};
use crate::sampling::decimal;
use crate::structured;

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    stream: bool,
    #[serde(flatten)]
    asked: thinking::Asked<'a>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
struct Role {
    role: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "str::is_empty")]
        title: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: String,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: String,
}

/// What the API takes as an image.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The text of a failed call that has none, or that has images: the API takes an error only with text, and only as text.
const FAILED: &str = "The call failed.";

/// The mark behind which the provider keeps what it has read. At most four are taken, and four are set.
const BREAKPOINT: &str = r#""cache_control":{"type":"ephemeral"}"#;

/// The request as JSON.
pub(super) fn render(request: &Request) -> Vec<u8> {
    let model = normalize::model_of(&request.candidate);
    let can_begin = |messages: &[Arc<[u8]>]| can_begin_thinking(request, messages, &model);
    let Conversation { tools, system, messages, .. } =
        Conversation::render(&Messages { model: model.clone() }, request);
    let go_on = serde_json::to_vec(&Part::Text { text: normalize::GO_ON }).expect("strings can be written");
    let turns = normalize::turns(&request.messages, &messages, &go_on);
    Object::document(&head(request, can_begin(&messages)), &messages, |body| {
        // The API reads tools, system, messages in this order, and a breakpoint covers all that is before it: what a changed system
        // prompt leaves are the tools.
        if !tools.is_empty() {
            body.list("tools", |list| write_marked(&tools, true, list));
        }
        if !system.is_empty() {
            body.list("system", |list| write_marked(&system, true, list));
        }
        body.list("messages", |list| write_turns(&turns, list));
    })
}

fn head(request: &Request, can_begin: bool) -> Head<'_> {
    let candidate = &request.candidate;
    // Thinking allows none of it.
    let thinks = candidate.thinking.is_some_and(|level| level != Level::Off);
    let sampling = if thinks { Sampling::default() } else { candidate.sampling };
    Head {
        model: &candidate.model,
        max_tokens: candidate.max_output,
        temperature: decimal(sampling.temperature),
        top_p: decimal(sampling.top_p),
        stream: true,
        asked: thinking::asked(candidate, can_begin).with_schema(structured::schema_of(request)),
    }
}

/// Whether the turn that is gone on with began with thinking that this model can read, or a new one begins. What a user
/// says right behind results is in one message with them: it begins none.
fn can_begin_thinking(request: &Request, rendered: &[Arc<[u8]>], model: &str) -> bool {
    let (mut first, mut behind_results) = (None, false);
    let said = request.messages.iter().zip(rendered).filter(|(_, items)| !items.is_empty());
    for (message, _) in said {
        match &**message {
            Message::User { .. } if !behind_results => first = None,
            Message::User { .. } => {}
            Message::Result { .. } => behind_results = true,
            Message::Assistant(answer) => {
                behind_results = false;
                first = first.or(Some(answer));
            }
        }
    }
    first.is_none_or(|answer| {
        let thought =
            |block: &ContentBlock| matches!(block.held, BlockContent::Reasoning(_)) && block.signature.is_some();
        *answer.model == *model && answer.blocks.first().is_some_and(thought)
    })
}

/// The user's last two turns are marked: what the request before this one had marked is found again, and the next will
/// find what this one has.
fn write_turns(turns: &[Turn<'_>], list: &mut List<'_>) {
    for (at, turn) in turns.iter().enumerate() {
        let role = if turn.is_models { "assistant" } else { "user" };
        let is_marked = !turn.is_models && at + 3 >= turns.len();
        let marked_at = if is_marked { turn.items().count() } else { 0 };
        list.object(&Role { role }, |message| {
            message.list("content", |content| {
                turn.items().zip(1..).for_each(|(items, at)| write_marked(items, at == marked_at, content));
            });
        });
    }
}

fn write_marked(items: &[u8], is_marked: bool, list: &mut List<'_>) {
    if is_marked { list.items_with(items, BREAKPOINT) } else { list.items(items) }
}

fn wire_tool(tool: &ToolSpec) -> Tool<'_> {
    Tool { name: &tool.name, description: &tool.description, input_schema: &tool.schema }
}

/// Blank text is refused.
fn write_text(text: &str, list: &mut List<'_>) {
    if !text.trim().is_empty() {
        list.value(&Part::Text { text });
    }
}

fn write_files(files: &[File], list: &mut List<'_>) {
    for file in files {
        write_file(file, list);
    }
}

fn write_file(file: &File, list: &mut List<'_>) {
    match file.shown() {
        Shown::Text(text) => write_text(&text, list),
        Shown::Image(file) if IMAGES.contains(&&*file.media_type) => list.value(&Part::Image { source: source(file) }),
        Shown::Image(file) => write_text(&file.note(), list),
        Shown::Document(file) => list.value(&Part::Document { source: source(file), title: &file.name }),
    }
}

fn source(file: &File) -> Source<'_> {
    Source { r#type: "base64", media_type: &file.media_type, data: file.base64() }
}

struct Messages {
    /// The model whose signatures can be read.
    model: String,
}

impl BodyFormat for Messages {
    const API: Api = Api::Anthropic;
    const RESULT_FILES: ResultFiles = ResultFiles::InResult;

    fn details(&self) -> String {
        self.model.clone()
    }

    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>) {
        for tool in tools {
            list.value(&wire_tool(tool));
        }
    }

    fn system(&self, system: &str, list: &mut List<'_>) {
        write_text(system, list);
    }

    fn user(&self, text: &str, files: &[File], list: &mut List<'_>) {
        write_files(files, list);
        write_text(text, list);
    }

    fn assistant(&self, answer: &AssistantMessage, repeat: usize, list: &mut List<'_>) {
        let is_own = *answer.model == *self.model;
        for ContentBlock { held, signature } in normalize::said(answer) {
            match held {
                BlockContent::Text(text) => write_text(text, list),
                BlockContent::Reasoning(text) => {
                    if let Some(signature) = signature.as_ref().filter(|_| is_own) {
                        list.value(&thought(text, signature));
                    }
                }
                BlockContent::Call(call) => write_call(call, repeat, list),
                BlockContent::Image(file) => write_text(&file.note(), list),
            }
        }
    }

    fn result(&self, result: &ResultMessage<'_>, repeat: usize, list: &mut List<'_>) {
        let ResultMessage { provider_id, text, is_error, files, .. } = *result;
        let tool_use_id = normalize::id(provider_id, repeat);
        let shows = files.iter().any(|file| matches!(file.shown(), Shown::Image(_) | Shown::Document(_)));
        let is_wordless = text.trim().is_empty();
        list.object(&Part::ToolResult { tool_use_id, is_error: is_error && !shows }, |result| {
            result.list("content", |content| {
                if is_error && (shows || is_wordless) {
                    write_text(FAILED, content);
                }
                write_text(text, content);
                write_files(files, content);
            });
        });
    }
}

fn write_call(call: &CallOf, repeat: usize, list: &mut List<'_>) {
    let part = Part::ToolUse { id: normalize::id(&call.provider_id, repeat), name: normalize::tool_name(&call.tool) };
    list.object(&part, |part| part.json("input", normalize::arguments(&call.arguments)));
}

fn thought<'a>(text: &'a str, signature: &'a str) -> Part<'a> {
    match signature.strip_prefix(REDACTED) {
        Some(data) => Part::RedactedThinking { data },
        None => Part::Thinking { thinking: text, signature },
    }
}
