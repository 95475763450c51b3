//! How OpenAI's Responses API writes a request.

use std::borrow::Cow;

use engine::{Thinking, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::item::{self, Mark, Reasoning};
use crate::conversation::{BodyFormat, Conversation, ResultFiles, ResultMessage};
use crate::effort;
use crate::endpoint::Api;
use crate::files::Shown;
use crate::model::{AssistantMessage, BlockContent, CallOf, ContentBlock, File, Request};
use crate::normalize;
use crate::rendering::List;
use crate::sampling::decimal;
use crate::structured::{self, OPENAI_STRICT};

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<AnswerText<'a>>,
}

#[derive(Serialize)]
struct AnswerText<'a> {
    format: AnswerFormat<'a>,
}

#[derive(Serialize)]
struct AnswerFormat<'a> {
    r#type: &'static str,
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct Effort {
    effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        content: TextOrParts<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        call_id: String,
        name: String,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: String,
        output: TextOrParts<'a>,
    },
}

/// Text alone, or parts.
#[derive(Serialize)]
#[serde(untagged)]
enum TextOrParts<'a> {
    Text(&'a str),
    Parts(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str, annotations: [(); 0] },
    InputImage { detail: &'static str, image_url: String },
    InputFile { filename: &'a str, file_data: String },
}

/// The least output limit that the API takes.
const LEAST_OUTPUT: u64 = 16;

/// The images that it reads; others it refuses with the whole request.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Models that do not reason, and refuse to be asked for what they reasoned.
const WITHOUT_REASONING: &[&str] = &["gpt-3", "gpt-4", "gpt-5-chat", "chatgpt-"];

/// What is said of images that a model made, which this API takes only from a user.
const MADE: &str = "What you have made:";

/// The request as JSON.
pub(super) fn render(request: &Request) -> Vec<u8> {
    let model = normalize::model_of(&request.candidate);
    Conversation::render(&Responses { model }, request).document(&head(request), "input")
}

fn head(request: &Request) -> Head<'_> {
    let candidate = &request.candidate;
    let reasons = !is_one_of(WITHOUT_REASONING, effort::name(&candidate.model));
    // Nothing is switched off where there is nothing.
    let thinking = candidate.thinking.filter(|thinking| reasons || *thinking != Thinking::Off);
    Head {
        model: &candidate.model,
        stream: true,
        store: false,
        instructions: &request.system,
        max_output_tokens: candidate.max_output.max(LEAST_OUTPUT),
        temperature: decimal(candidate.sampling.temperature),
        top_p: decimal(candidate.sampling.top_p),
        include: reasons.then_some(["reasoning.encrypted_content"]),
        reasoning: thinking.map(|thinking| effort(effort::name(&candidate.model), thinking)),
        prompt_cache_key: request.cache_key.as_deref(),
        text: structured::schema_of(request).map(answer_text),
    }
}

fn answer_text(schema: &Value) -> AnswerText<'_> {
    let strict = structured::fits(schema, &OPENAI_STRICT);
    AnswerText { format: AnswerFormat { r#type: "json_schema", name: structured::NAME, schema, strict } }
}

fn is_one_of(prefixes: &[&str], name: &str) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn effort(name: &str, thinking: Thinking) -> Effort {
    let effort = effort::word(name, thinking);
    Effort { effort, summary: (effort != "none").then_some("auto") }
}

fn wire_tool(tool: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, schema, .. } = tool;
    Tool { r#type: "function", name, description, parameters: schema, strict: false }
}

struct Responses {
    /// `PROVIDER/MODEL`: whose signatures go back.
    model: String,
}

impl BodyFormat for Responses {
    const API: Api = Api::OpenAiResponses;
    const RESULT_FILES: ResultFiles = ResultFiles::InResult;

    fn details(&self) -> String {
        self.model.clone()
    }

    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>) {
        for tool in tools {
            list.value(&wire_tool(tool));
        }
    }

    fn user(&self, text: &str, files: &[File], list: &mut List<'_>) {
        user(text, files, list);
    }

    fn assistant(&self, answer: &AssistantMessage, repeat: usize, list: &mut List<'_>) {
        let is_own = *answer.model == *self.model;
        let has_calls = answer.calls().next().is_some();
        // Between a call and its result nothing may come.
        if has_calls {
            images(answer, list);
        }
        for (at, block) in answer.blocks.iter().enumerate() {
            match &block.held {
                BlockContent::Text(text) if !text.is_empty() => list.value(&said(text, mark(block, is_own))),
                BlockContent::Call(call) => list.value(&wire_call(call, repeat, mark(block, is_own))),
                BlockContent::Reasoning(_) if is_own && is_followed(&answer.blocks[at + 1..]) => {
                    if let Some(reasoning) = item::read::<Reasoning>(block.signature.as_deref()) {
                        list.value(&reasoning);
                    }
                }
                BlockContent::Text(_) | BlockContent::Reasoning(_) | BlockContent::Image(_) => {}
            }
        }
        if !has_calls {
            images(answer, list);
        }
    }

    fn result(&self, result: &ResultMessage<'_>, repeat: usize, list: &mut List<'_>) {
        let ResultMessage { provider_id, text, files, .. } = *result;
        let output = if files.is_empty() { TextOrParts::Text(text) } else { TextOrParts::Parts(parts(text, files)) };
        list.value(&Item::FunctionCallOutput { call_id: normalize::id(provider_id, repeat), output });
    }
}

fn wire_call(call: &CallOf, repeat: usize, mark: Option<Mark>) -> Item<'_> {
    Item::FunctionCall {
        id: mark.and_then(|mark| mark.id),
        call_id: normalize::id(&call.provider_id, repeat),
        name: normalize::tool_name(&call.tool),
        arguments: normalize::arguments(&call.arguments),
    }
}

/// Nothing if there is nothing in it: an empty message is refused.
fn user<'a>(text: &'a str, files: impl IntoIterator<Item = &'a File>, list: &mut List<'_>) {
    let content = parts(text, files);
    if !content.is_empty() {
        list.value(&Item::Message {
            role: "user",
            id: None,
            status: None,
            content: TextOrParts::Parts(content),
            phase: None,
        });
    }
}

fn parts<'a>(text: &'a str, files: impl IntoIterator<Item = &'a File>) -> Vec<Content<'a>> {
    let text = (!text.is_empty()).then(|| Content::InputText { text: text.into() });
    text.into_iter().chain(files.into_iter().map(shown)).collect()
}

fn shown(file: &File) -> Content<'_> {
    match file.shown() {
        Shown::Text(text) => Content::InputText { text: text.into() },
        Shown::Image(file) if IMAGES.contains(&&*file.media_type) => {
            Content::InputImage { detail: "auto", image_url: file.data_url() }
        }
        Shown::Image(file) => Content::InputText { text: file.note().into() },
        Shown::Document(file) => Content::InputFile { filename: &file.name, file_data: file.data_url() },
    }
}

fn images(answer: &AssistantMessage, list: &mut List<'_>) {
    let images = answer.blocks.iter().filter_map(|block| match &block.held {
        BlockContent::Image(file) => Some(file),
        BlockContent::Text(_) | BlockContent::Reasoning(_) | BlockContent::Call(_) => None,
    });
    let images: Vec<_> = images.collect();
    if !images.is_empty() {
        user(MADE, images, list);
    }
}

/// The mark of a text or a call, if this model made it and it was whole.
fn mark(block: &ContentBlock, is_own: bool) -> Option<Mark> {
    item::read(block.signature.as_deref().filter(|_| is_own))
}

/// Reasoning goes back only with the whole item that followed it: alone, or with a text that was cut, it is refused.
fn is_followed(rest: &[ContentBlock]) -> bool {
    let next = rest.iter().find(|block| !matches!(block.held, BlockContent::Reasoning(_)));
    next.is_some_and(|next| mark(next, true).is_some())
}

/// Parts of an answer are an item with an id; without one it is a text that the model is said to have said.
fn said(text: &str, mark: Option<Mark>) -> Item<'_> {
    let Mark { id, phase } = mark.unwrap_or_default();
    let parts = || vec![Content::OutputText { text, annotations: [] }];
    let content = if id.is_some() { TextOrParts::Parts(parts()) } else { TextOrParts::Text(text) };
    let status = id.is_some().then_some("completed");
    Item::Message { role: "assistant", id, status, content, phase }
}
