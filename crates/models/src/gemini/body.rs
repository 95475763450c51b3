//! The body of a request. Contents of user and model come in turn; each holds the parts of one message or of several.

use std::borrow::Cow;
use std::sync::Arc;

use engine::ToolSpec;
use serde::Serialize;
use serde_json::{Value, json};

use super::schema_dialect::{Generation, SchemaDialect, ThinkingConfig, thinking};
use super::signature::{SignedPart, tail};
use crate::conversation::{BodyFormat, Conversation, ResultFiles, ResultMessage};
use crate::endpoint::Api;
use crate::files::Shown;
use crate::model::{AssistantMessage, BlockContent, CallOf, ContentBlock, File, Message, Request};
use crate::normalize;
use crate::rendering::{List, Object};
use crate::sampling::decimal;
use crate::structured::{self, GEMINI};
use crate::wire::Json;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [WirePart<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(flatten)]
    data: Data<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Text(Cow<'a, str>),
    #[serde(rename = "inlineData")]
    File(Blob<'a>),
    FunctionCall(FunctionCall<'a>),
    FunctionResponse(FunctionResponse<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: String,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: String,
    args: Json,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: String,
    response: Response,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response {
    Output(String),
    Error(String),
}

impl<'a> From<Data<'a>> for WirePart<'a> {
    fn from(data: Data<'a>) -> Self {
        Self { data, thought: None, thought_signature: None }
    }
}

/// What the API takes for a signature that is not there, for calls that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Image types that the API reads.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// The request as JSON.
pub(super) fn render(request: &Request) -> Vec<u8> {
    let conversation = Conversation::render(&SchemaDialect::of(request), request);
    let messages = &conversation.messages;
    let said = request.messages.iter().map(|message| role(message)).zip(messages);
    let said: Vec<_> = said.filter(|(_, items)| !items.is_empty()).collect();
    Object::document(&head(request), messages, |body| {
        // Tools before contents: what changes least comes first, for the provider's cache.
        conversation.write_tools(body);
        body.list("contents", |list| write_contents(&said, list));
    })
}

fn head(request: &Request) -> Head<'_> {
    let system: &str = &request.system;
    let schema = structured::schema_of(request).filter(|schema| structured::fits(schema, &GEMINI));
    let instruction = |text| SystemInstruction { parts: [Data::Text(Cow::Borrowed(text)).into()] };
    Head {
        system_instruction: (!system.is_empty()).then(|| instruction(system)),
        generation_config: GenerationConfig {
            max_output_tokens: request.candidate.max_output,
            temperature: decimal(request.candidate.sampling.temperature),
            top_p: decimal(request.candidate.sampling.top_p),
            thinking_config: thinking(&request.candidate),
            response_mime_type: schema.map(|_| "application/json"),
            response_json_schema: schema,
        },
    }
}

fn declaration(tool: &ToolSpec) -> FunctionDeclaration<'_> {
    FunctionDeclaration { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.schema }
}

const USER: &str = "user";
const MODEL: &str = "model";

fn role(message: &Message) -> &'static str {
    match message {
        Message::User { .. } | Message::Result { .. } => USER,
        Message::Assistant(_) => MODEL,
    }
}

/// One content for what one side said without the other; the user begins and ends.
fn write_contents(said: &[(&'static str, &Arc<[u8]>)], list: &mut List<'_>) {
    let go_on = || json!({ "role": USER, "parts": [{ "text": normalize::GO_ON }] });
    if said.first().is_none_or(|(role, _)| *role == MODEL) {
        list.value(&go_on());
    }
    for turn in said.chunk_by(|(one, _), (next, _)| one == next) {
        list.object(&json!({ "role": turn[0].0 }), |content| {
            content.list("parts", |list| turn.iter().for_each(|(_, items)| list.items(items)));
        });
    }
    if said.last().is_some_and(|(role, _)| *role == MODEL) {
        list.value(&go_on());
    }
}

/// Ids of calls that repeat are no concern here: the API pairs results with the calls right before them.
impl BodyFormat for SchemaDialect {
    const API: Api = Api::Gemini;
    const RESULT_FILES: ResultFiles = ResultFiles::InResult;

    fn details(&self) -> String {
        format!("{} {:?} {}", self.model, self.generation, self.with_ids)
    }

    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>) {
        if !tools.is_empty() {
            list.value(&Tools { function_declarations: tools.iter().map(declaration).collect() });
        }
    }

    fn user(&self, text: &str, files: &[File], list: &mut List<'_>) {
        write_text(text, list);
        for file in files {
            list.value(&WirePart::from(wire_file(file)));
        }
    }

    fn assistant(&self, answer: &AssistantMessage, _repeat: usize, list: &mut List<'_>) {
        write_answer(answer, self, list);
    }

    fn result(&self, result: &ResultMessage<'_>, _repeat: usize, list: &mut List<'_>) {
        let ResultMessage { provider_id, tool, text, is_error, files } = *result;
        let (texts, shown) = parted(text, files);
        let shown = shown.into_iter().map(WirePart::from);
        // Only the newer models look into a result; others see what stands beside it.
        let (inside, beside): (Vec<_>, Vec<_>) = shown.partition(|_| self.generation == Generation::ByLevel);
        let response = if is_error { Response::Error(texts) } else { Response::Output(texts) };
        let id = self.with_ids.then_some(provider_id);
        let result = FunctionResponse { id, name: function_name(tool), response, parts: inside };
        list.value(&WirePart::from(Data::FunctionResponse(result)));
        for part in &beside {
            list.value(part);
        }
    }
}

/// An empty part is refused.
fn write_text(text: &str, list: &mut List<'_>) {
    if !text.is_empty() {
        list.value(&WirePart::from(Data::Text(text.into())));
    }
}

fn wire_file(file: &File) -> Data<'_> {
    match file.shown() {
        Shown::Text(text) => Data::Text(text.into()),
        Shown::Image(file) if !IMAGES.contains(&&*file.media_type) => Data::Text(file.note().into()),
        Shown::Image(file) | Shown::Document(file) => {
            Data::File(Blob { mime_type: &file.media_type, data: file.base64() })
        }
    }
}

/// The text of a result with the texts of its files, and the files that are shown.
fn parted<'a>(text: &str, files: &'a [File]) -> (String, Vec<Data<'a>>) {
    let (mut texts, mut shown) = (text.to_owned(), vec![]);
    for file in files {
        match wire_file(file) {
            Data::Text(text) => texts = texts + "\n" + &text,
            data => shown.push(data),
        }
    }
    (texts, shown)
}

/// Blocks in their order. Reasoning without a signature says nothing to the API and is left out.
fn write_answer(answer: &AssistantMessage, schema_dialect: &SchemaDialect, list: &mut List<'_>) {
    let is_own = *answer.model == *schema_dialect.model;
    let signed = |block| signed(block).filter(|_| is_own);
    let of_images = |(part, signature)| (part == SignedPart::Image).then_some(signature);
    let mut of_images = answer.blocks.iter().filter_map(signed).filter_map(of_images);
    // The first call of an answer carries the signature for all that are beside it.
    let mut missing = (schema_dialect.generation == Generation::ByLevel).then_some(NO_SIGNATURE);
    for block in &answer.blocks {
        match &block.held {
            BlockContent::Text(text) => write_said(text, signed(block), list),
            BlockContent::Reasoning(text) => write_thought(text, signed(block), list),
            BlockContent::Call(call) => {
                let thought_signature = signed(block).map(|(_, signature)| signature).or(missing);
                missing = None;
                list.value(&WirePart { thought_signature, ..wire_call(call, schema_dialect).into() });
            }
            BlockContent::Image(file) => {
                list.value(&WirePart { thought_signature: of_images.next(), ..wire_file(file).into() });
            }
        }
    }
}

fn signed(block: &ContentBlock) -> Option<(SignedPart, &str)> {
    block.signature.as_deref().and_then(SignedPart::read)
}

fn write_said(text: &str, signed: Option<(SignedPart, &str)>, list: &mut List<'_>) {
    let Some((SignedPart::Tail(bytes), signature)) = signed else { return write_text(text, list) };
    let (before, tail) = tail(text, bytes);
    write_text(before, list);
    list.value(&WirePart { thought_signature: Some(signature), ..Data::Text(tail.into()).into() });
}

fn write_thought(text: &str, signed: Option<(SignedPart, &str)>, list: &mut List<'_>) {
    if let Some((SignedPart::Tail(bytes), signature)) = signed {
        let data = Data::Text(tail(text, bytes).1.into());
        list.value(&WirePart { data, thought: Some(true), thought_signature: Some(signature) });
    }
}

fn wire_call<'a>(call: &'a CallOf, schema_dialect: &SchemaDialect) -> Data<'a> {
    Data::FunctionCall(FunctionCall {
        id: schema_dialect.with_ids.then_some(&*call.provider_id),
        name: function_name(&call.tool),
        args: Json::arguments(&call.arguments),
    })
}

/// A name that the API takes, which begins with a letter.
fn function_name(tool: &str) -> String {
    let name = normalize::tool_name(tool);
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { name } else { format!("_{name}") }
}
