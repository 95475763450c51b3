//! How OpenAI's chat completions write a request.

use std::borrow::Cow;

use engine::ToolSpec;
use serde::Serialize;
use serde_json::Value;

use crate::conversation::{BodyFormat, Conversation, ResultFiles, ResultMessage};
use crate::effort;
use crate::endpoint::{Api, Endpoint};
use crate::files::Shown;
use crate::model::{AssistantMessage, CallOf, File, Request};
use crate::normalize;
use crate::rendering::List;
use crate::sampling::decimal;
use crate::structured::{self, OPENAI_STRICT};
use crate::wire::Tool;

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    /// `null` for an assistant that only calls, as the providers themselves write it.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

/// Text alone, which all servers take, or parts.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Url },
    File { file: FileData<'a> },
}

#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct FileData<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: String,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: String,
    arguments: &'a str,
}

/// Servers whose thinking models want the reasoning of a turn back with its calls; others refuse a field that they do
/// not know.
const WANTS_REASONING: &[&str] = &["api.deepseek.com", "api.moonshot."];

/// Stands there for reasoning that is not known, such as another model's: these servers refuse calls without.
const NO_REASONING: &str = "(not known)";

/// The images that the API reads; others it refuses with the whole request.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Models that refuse the old name of the output limit.
const NEW_LIMIT_NAME: &[&str] = &["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// The request as JSON.
pub(super) fn render(request: &Request) -> Vec<u8> {
    let with_reasoning = WANTS_REASONING.iter().any(|host| request.endpoint.base_url.contains(host));
    Conversation::render(&Chat { with_reasoning }, request).document(&head(request), "messages")
}

fn head(request: &Request) -> Head<'_> {
    let candidate = &request.candidate;
    let new_name = wants_new_limit_name(&request.endpoint, &candidate.model);
    Head {
        model: &candidate.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: (!new_name).then_some(candidate.max_output),
        max_completion_tokens: new_name.then_some(candidate.max_output),
        temperature: decimal(candidate.sampling.temperature),
        top_p: decimal(candidate.sampling.top_p),
        // A candidate has a level only if its model is known to take one: other servers refuse the field.
        reasoning_effort: candidate.thinking.map(|level| effort::word(effort::name(&candidate.model), level)),
        response_format: structured::schema_of(request).map(response_format),
    }
}

fn response_format(schema: &Value) -> ResponseFormat<'_> {
    let strict = structured::fits(schema, &OPENAI_STRICT);
    ResponseFormat { r#type: "json_schema", json_schema: JsonSchema { name: structured::NAME, schema, strict } }
}

fn wants_new_limit_name(endpoint: &Endpoint, model: &str) -> bool {
    let name = effort::name(model);
    endpoint.base_url.contains("api.openai.com") || NEW_LIMIT_NAME.iter().any(|known| name.starts_with(known))
}

fn text_message<'a>(role: &'static str, text: &'a str) -> WireMessage<'a> {
    let content = Some(Content::Text(text.into()));
    WireMessage { role, content, reasoning_content: None, tool_calls: Vec::new(), tool_call_id: None }
}

fn user<'a>(text: &'a str, files: &'a [File]) -> WireMessage<'a> {
    let mut message = text_message("user", text);
    if !files.is_empty() {
        let text = (!text.is_empty()).then(|| WirePart::Text { text: text.into() });
        message.content = Some(Content::Parts(text.into_iter().chain(files.iter().map(wire_file)).collect()));
    }
    message
}

fn wire_file(file: &File) -> WirePart<'_> {
    match file.shown() {
        Shown::Text(text) => WirePart::Text { text: text.into() },
        Shown::Image(file) if IMAGES.contains(&&*file.media_type) => {
            WirePart::ImageUrl { image_url: Url { url: file.data_url() } }
        }
        Shown::Image(file) => WirePart::Text { text: file.note().into() },
        Shown::Document(file) => WirePart::File { file: FileData { filename: &file.name, file_data: file.data_url() } },
    }
}

/// What the rendering of a message depends on.
struct Chat {
    with_reasoning: bool,
}

impl BodyFormat for Chat {
    const API: Api = Api::OpenAiChat;
    const RESULT_FILES: ResultFiles = ResultFiles::AfterResults;

    fn details(&self) -> String {
        if self.with_reasoning { "with reasoning" } else { "" }.to_owned()
    }

    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>) {
        for tool in tools {
            list.value(&Tool::from(tool));
        }
    }

    fn system(&self, system: &str, list: &mut List<'_>) {
        if !system.is_empty() {
            list.value(&text_message("system", system));
        }
    }

    fn user(&self, text: &str, files: &[File], list: &mut List<'_>) {
        list.value(&user(text, files));
    }

    /// Nothing of an assistant without text and calls: providers refuse an empty message.
    fn assistant(&self, answer: &AssistantMessage, repeat: usize, list: &mut List<'_>) {
        let text = answer.text();
        let tool_calls: Vec<_> = answer.calls().map(|call| wire_call(call, repeat)).collect();
        if text.is_empty() && tool_calls.is_empty() {
            return;
        }
        let reasoning = || Some(answer.reasoning()).filter(|text| !text.is_empty());
        let wants_reasoning = self.with_reasoning && !tool_calls.is_empty();
        list.value(&WireMessage {
            role: "assistant",
            content: (!text.is_empty()).then_some(Content::Text(text.into())),
            reasoning_content: wants_reasoning.then(|| reasoning().unwrap_or_else(|| NO_REASONING.to_owned())),
            tool_calls,
            tool_call_id: None,
        });
    }

    fn result(&self, result: &ResultMessage<'_>, repeat: usize, list: &mut List<'_>) {
        let tool_call_id = Some(normalize::id(result.provider_id, repeat));
        list.value(&WireMessage { tool_call_id, ..text_message("tool", result.text) });
    }
}

fn wire_call(call: &CallOf, repeat: usize) -> WireCall<'_> {
    let (name, arguments) = (normalize::tool_name(&call.tool), normalize::arguments(&call.arguments));
    let id = normalize::id(&call.provider_id, repeat);
    WireCall { id, r#type: "function", function: WireFunction { name, arguments } }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Candidate, ToolClass};
    use serde_json::json;

    use super::*;
    use crate::model::{AssistantMessage, Message};
    use crate::rendering::Cached;

    fn request(model: &str, base_url: &str) -> Request {
        Request {
            candidate: Candidate {
                provider: "acme".to_owned(),
                model: model.to_owned(),
                profile: None,
                context_window: 1000,
                max_output: 77,
                thinking: None,
                images: true,
                structured_output: false,
                sampling: engine::Sampling::default(),
                token_rate: 1_000,
                can_refresh: false,
                levels: vec![],
                price: None,
            },
            system: Cached::from(Arc::from("")),
            messages: Vec::new(),
            tools: Cached::from(vec![]),
            endpoint: Endpoint::new(Api::OpenAiChat, base_url.to_owned(), None),
            continues: false,
            cache_key: None,
            output_schema: None,
        }
    }

    fn rendered(request: &Request) -> Value {
        serde_json::from_slice(&render(request)).unwrap()
    }

    fn cached<const N: usize>(messages: [Message; N]) -> Vec<Cached<Message>> {
        messages.into_iter().map(Cached::from).collect()
    }

    fn call(id: &str, arguments: &str) -> CallOf {
        CallOf { provider_id: id.into(), tool: "ls".into(), arguments: arguments.into() }
    }

    #[test]
    fn the_output_limit_is_always_sent_under_the_name_that_the_model_takes() {
        let cases = [
            ("m", "http://localhost/v1", "max_tokens"),
            ("gpt-4.1", "https://api.openai.com/v1", "max_completion_tokens"),
            ("openai/gpt-5.4", "https://relay/v1", "max_completion_tokens"),
            ("o4-mini", "http://localhost/v1", "max_completion_tokens"),
            ("gpt-oss-20b", "http://localhost/v1", "max_tokens"),
        ];
        for (model, base_url, name) in cases {
            let body = rendered(&request(model, base_url));
            let limits: Vec<_> = body.as_object().unwrap().iter().filter(|(key, _)| key.starts_with("max_")).collect();
            assert_eq!(limits, [(&name.to_owned(), &json!(77))], "{model}");
        }
    }

    #[test]
    fn r53_a_level_is_sent_in_the_words_of_the_model() {
        use engine::Thinking::{High, Minimal, Off};
        let sent = |model: &str, thinking| {
            let mut request = request(model, "http://localhost/v1");
            request.candidate.thinking = thinking;
            rendered(&request)["reasoning_effort"].clone()
        };
        assert_eq!(sent("m", None), Value::Null);
        assert_eq!([Some(Off), Some(Minimal), Some(High)].map(|level| sent("m", level)), ["none", "minimal", "high"]);
        assert_eq!([sent("openai/gpt-oss-20b", Some(Off)), sent("gpt-5-mini", Some(Off))], ["low", "minimal"]);
    }

    #[test]
    fn a_conversation_with_tools_is_written_as_the_api_wants_it() {
        let mut request = request("m", "http://localhost/v1");
        request.system = Cached::from(Arc::from("be brief"));
        request.tools = Cached::from(vec![ToolSpec {
            name: "ls".to_owned(),
            class: ToolClass::ReadOnly,
            description: "lists".to_owned(),
            schema: json!({ "type": "object" }),
        }]);
        request.messages = cached([
            Message::user("hi"),
            Message::Assistant(AssistantMessage::plain(
                Some("hm".into()),
                None,
                vec![call("c1", r#"{"path":1.0}"#), call("c2", "{\"pa")],
            )),
            Message::Result {
                provider_id: "c1".into(),
                tool: "ls".into(),
                text: "a\n".into(),
                is_error: false,
                files: vec![],
            },
            Message::Result {
                provider_id: "c2".into(),
                tool: "ls".into(),
                text: "not JSON".into(),
                is_error: true,
                files: vec![],
            },
            Message::Assistant(AssistantMessage::plain(None, Some("".into()), vec![])),
            Message::Assistant(AssistantMessage::plain(None, Some("done".into()), vec![])),
        ]);
        assert_eq!(
            rendered(&request),
            json!({
                "model": "m", "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 77,
                "tools": [{ "type": "function",
                            "function": { "name": "ls", "description": "lists", "parameters": { "type": "object" } } }],
                "messages": [
                    { "role": "system", "content": "be brief" },
                    { "role": "user", "content": "hi" },
                    { "role": "assistant", "content": null, "tool_calls": [
                        { "id": "c1", "type": "function", "function": { "name": "ls", "arguments": "{\"path\":1.0}" } },
                        { "id": "c2", "type": "function", "function": { "name": "ls", "arguments": "{}" } },
                    ] },
                    { "role": "tool", "tool_call_id": "c1", "content": "a\n" },
                    { "role": "tool", "tool_call_id": "c2", "content": "not JSON" },
                    { "role": "assistant", "content": "done" },
                ],
            })
        );
    }

    #[test]
    fn reasoning_goes_back_with_its_calls_where_it_is_wanted() {
        let mut request = request("deepseek-reasoner", "https://api.deepseek.com/v1");
        let reasoning = Some(Arc::from("hm"));
        request.messages =
            cached([Message::Assistant(AssistantMessage::plain(reasoning, None, vec![call("c", "{}")]))]);
        assert_eq!(rendered(&request)["messages"][0]["reasoning_content"], "hm");
        // What another model called without reasoning would be refused there for ever.
        request.messages = cached([Message::Assistant(AssistantMessage::plain(None, None, vec![call("c", "{}")]))]);
        assert_eq!(rendered(&request)["messages"][0]["reasoning_content"], NO_REASONING);
    }

    #[test]
    fn r41_ids_names_and_images_of_others_are_made_acceptable() {
        let long = "x".repeat(41);
        let odd = CallOf { tool: "a.b".into(), ..call(&long, "{}") };
        let asking = |calls| Message::Assistant(AssistantMessage::plain(None, None, calls));
        let result = |id: &str| Message::Result {
            provider_id: id.into(),
            tool: "ls".into(),
            text: "".into(),
            is_error: false,
            files: vec![],
        };
        let image = File { media_type: "image/bmp".into(), name: "a.bmp".into(), bytes: (*b"BM").into() };
        let mut request = request("m", "http://localhost/v1");
        request.messages = cached([
            Message::User { text: "".into(), files: vec![image] },
            asking(vec![odd, call("call_0", "{}")]),
            result(&long),
            result("call_0"),
            asking(vec![call("call_0", "{}")]),
            result("call_0"),
        ]);
        let body = rendered(&request);
        let note = "[image/bmp a.bmp, 2 bytes: this API cannot show it]";
        assert_eq!(body["messages"][0]["content"], json!([{ "type": "text", "text": note }]));
        assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], "a_b");
        let asked = [(1, 0), (1, 1), (4, 0)].map(|(at, call)| &body["messages"][at]["tool_calls"][call]["id"]);
        assert_eq!(asked, [2, 3, 5].map(|at| &body["messages"][at]["tool_call_id"]));
        assert!(asked[1] == "call_0" && asked[2] != "call_0", "{asked:?}");
        assert!(asked.iter().all(|id| id.as_str().is_some_and(|id| id.len() <= 40)), "{asked:?}");
    }
}
