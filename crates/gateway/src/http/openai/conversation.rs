//! What a request of chat completions says, as a message to an agent.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Hash, Thinking};
use protocol::method::{AgentParams, Attachment};
use serde::Deserialize;
use serde_json::Value;

use crate::http::problem::Problem;

/// Names that stand before that of an agent.
const PREFIXES: [&str; 4] = ["agent:", "limulus/", "openclaw/", "openclaw:"];
/// Images of a request.
const IMAGES: usize = 8;

/// The body of a request. Other fields are of no use here and are not refused: SDKs send many.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ChatRequest {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    background: Option<bool>,
    tools: Option<Vec<Value>>,
    functions: Option<Vec<Value>>,
    user: Option<String>,
    response_format: Option<Value>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    reasoning_effort: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Option<ChatContent>,
    tool_calls: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ChatContent {
    Text(String),
    Parts(Vec<Value>),
}

/// The session that a client names, or none: then each request is one of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Named<'a> {
    /// The header with a key.
    pub(super) session: Option<&'a str>,
    /// The idempotency key of the request.
    pub(super) key: &'a str,
}

/// The name of the agent that a model is.
pub(super) fn agent_of(model: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| model.strip_prefix(prefix)).unwrap_or(model)
}

impl ChatRequest {
    /// Whether the answer is sent as it is written.
    pub(super) fn is_streamed(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false)
    }

    /// The name of the agent that the model names.
    pub(super) fn agent(&self) -> &str {
        agent_of(self.model.as_deref().unwrap_or("main"))
    }

    /// The message to the agent.
    pub(super) fn message(&self, named: Named<'_>) -> Result<AgentParams, Problem> {
        self.must_be_possible()?;
        let agent = self.agent();
        let session_key = match (named.session, self.user.as_deref().filter(|user| !user.is_empty())) {
            (Some(session), _) => whole_key(agent, session)?,
            (None, Some(user)) => format!("agent:{agent}:http-user-{}", plain(user)),
            (None, None) => format!("agent:{agent}:http-{}", plain(named.key)),
        };
        let is_alone = named.session.is_none() && self.user.as_deref().is_none_or(str::is_empty);
        let (mut system, mut said) = (vec![], vec![]);
        for (at, message) in self.messages.iter().enumerate() {
            match message.role.as_str() {
                "system" | "developer" => system.push(message.text(at)?),
                "user" | "assistant" | "tool" | "function" => said.push((at, message)),
                other => {
                    let message = format!("messages[{at}].role `{}` is unknown", other.escape_debug());
                    return Err(Problem::invalid(message));
                }
            }
        }
        let last = said.iter().rposition(|(_, message)| message.role == "user");
        let last = last.ok_or_else(|| Problem::invalid("`messages` has no message of the user"))?;
        let (at, current) = said[last];
        let (text, attachments) = (current.text(at)?, current.images(at)?);
        if text.trim().is_empty() && attachments.is_empty() {
            return Err(Problem::invalid(format!("messages[{at}].content is empty")));
        }
        let before = if is_alone { history(&said[..last])? } else { String::new() };
        let text = if text.trim().is_empty() { "(an image)".to_owned() } else { text };
        let message = if before.is_empty() { text } else { format!("{before}\nThe user says now:\n{text}") };
        let system = system.into_iter().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
        Ok(AgentParams {
            message,
            session_key,
            idempotency_key: named.key.to_owned(),
            append_system: (!system.is_empty()).then_some(system),
            output_schema: self.schema()?,
            thinking: self.thinking()?,
            max_output: self.max_output()?,
            temperature: self.temperature,
            top_p: self.top_p,
            attachments,
            ..AgentParams::default()
        })
    }

    /// Refuses what an agent does not do.
    fn must_be_possible(&self) -> Result<(), Problem> {
        let has = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if has(&self.tools) || has(&self.functions) {
            return Err(Problem::invalid("`tools` of the client are not supported: the agent has its own")
                .with_hint("leave `tools` out; `limulus skills` and the configuration give an agent more"));
        }
        if self.background.unwrap_or(false) {
            return Err(Problem::invalid("`background` is not supported").with_hint("POST /v1/runs begins a run"));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(Problem::invalid("`n` must be 1: an agent answers once"));
        }
        Ok(())
    }

    /// The most tokens of an answer.
    fn max_output(&self) -> Result<Option<NonZeroU32>, Problem> {
        let Some(most) = self.max_completion_tokens.or(self.max_tokens) else { return Ok(None) };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        NonZeroU32::new(most).map(Some).ok_or_else(|| Problem::invalid("an answer has at least one token"))
    }

    /// How much the model thinks.
    fn thinking(&self) -> Result<Option<Thinking>, Problem> {
        let Some(effort) = self.reasoning_effort.as_deref() else { return Ok(None) };
        let level = if effort == "none" { "off" } else { effort };
        let unknown = |_| Problem::invalid(format!("the effort `{}` is unknown", level.escape_debug()));
        serde_json::from_value(Value::String(level.to_owned())).map(Some).map_err(unknown)
    }

    /// The JSON schema that the answer is to fit.
    fn schema(&self) -> Result<Option<Value>, Problem> {
        let Some(format) = &self.response_format else { return Ok(None) };
        match format["type"].as_str() {
            None | Some("text") => Ok(None),
            Some("json_object") => Ok(Some(serde_json::json!({ "type": "object" }))),
            Some("json_schema") if format["json_schema"]["schema"].is_object() => {
                Ok(Some(format["json_schema"]["schema"].clone()))
            }
            Some(_) => Err(Problem::invalid("`response_format` is text, json_object or json_schema with a schema")),
        }
    }
}

impl ChatMessage {
    fn text(&self, at: usize) -> Result<String, Problem> {
        let parts = match &self.content {
            None => return Ok(String::new()),
            Some(ChatContent::Text(text)) => return Ok(text.clone()),
            Some(ChatContent::Parts(parts)) => parts,
        };
        let mut texts = vec![];
        for (part_at, part) in parts.iter().enumerate() {
            match part["type"].as_str() {
                Some("text" | "input_text" | "output_text") => texts.push(part["text"].as_str().unwrap_or_default()),
                Some("refusal") => texts.push(part["refusal"].as_str().unwrap_or_default()),
                Some("image_url") => {}
                other => {
                    let kind = other.unwrap_or("none").escape_debug();
                    let message = format!("messages[{at}].content[{part_at}] of type {kind} is not supported");
                    return Err(Problem::invalid(message).with_hint("text and image_url are"));
                }
            }
        }
        Ok(texts.join("\n"))
    }

    /// The images of a message, which must be in it.
    fn images(&self, at: usize) -> Result<Vec<Attachment>, Problem> {
        let Some(ChatContent::Parts(parts)) = &self.content else { return Ok(vec![]) };
        let urls = parts.iter().filter(|part| part["type"] == "image_url");
        let urls =
            urls.map(|part| part["image_url"]["url"].as_str().or(part["image_url"].as_str()).unwrap_or_default());
        let mut images = vec![];
        for url in urls {
            let bad = |what: &str| Problem::invalid(format!("an image of messages[{at}] {what}"));
            let data = url.strip_prefix("data:").ok_or_else(|| {
                bad("is not in the request").with_hint("send it as data:image/png;base64,…: limulus fetches no address")
            })?;
            let (media_type, content) =
                data.split_once(";base64,").ok_or_else(|| bad("is not data:TYPE;base64,CONTENT"))?;
            let kind = media_type.strip_prefix("image/").filter(|kind| kind.bytes().all(|b| b.is_ascii_alphanumeric()));
            let kind = kind.ok_or_else(|| bad("is of another type"))?;
            STANDARD.decode(content).map_err(|error| bad(&format!("is not base64: {error}")))?;
            images.push(Attachment { name: format!("image-{}.{kind}", images.len() + 1), content: content.to_owned() });
        }
        if images.len() > IMAGES {
            return Err(Problem::invalid(format!("messages[{at}] has more than {IMAGES} images")));
        }
        Ok(images)
    }
}

/// What was said before, for a session that does not have it.
fn history(messages: &[(usize, &ChatMessage)]) -> Result<String, Problem> {
    let mut text = String::new();
    for (at, message) in messages {
        let mut said = message.text(*at)?;
        if message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) && said.is_empty() {
            "(called tools)".clone_into(&mut said);
        }
        if !said.trim().is_empty() {
            text.extend(["[", &message.role, "]\n", said.trim(), "\n"]);
        }
    }
    Ok(if text.is_empty() { text } else { format!("What was said before:\n{text}") })
}

/// The key of a session of this agent.
fn whole_key(agent: &str, session: &str) -> Result<String, Problem> {
    let of_other = || Problem::invalid("the session is one of another agent than `model` names");
    match session.strip_prefix("agent:") {
        None => Ok(format!("agent:{agent}:{session}")),
        Some(rest) if rest.split_once(':').is_some_and(|(of, _)| of == agent) => Ok(session.to_owned()),
        Some(_) => Err(of_other()),
    }
}

/// A name as a part of a key: itself, if it is plain, else its hash.
fn plain(name: &str) -> String {
    let is_plain = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    if is_plain { name.to_owned() } else { Hash::of(name.as_bytes()).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(request: Value, session: Option<&str>) -> Result<AgentParams, String> {
        let request: ChatRequest = serde_json::from_value(request).expect("a request");
        request.message(Named { session, key: "k" }).map_err(|problem| problem.message)
    }

    fn user(text: &str) -> Value {
        json!({ "role": "user", "content": text })
    }

    /// R60: without a session the message has what was said before; with one it is the last message of the user alone.
    #[test]
    fn r60_a_conversation_becomes_a_message() {
        let messages = json!([
            { "role": "system", "content": "Be brief." },
            user("one"),
            { "role": "assistant", "content": "1" },
            { "role": "assistant", "content": null, "tool_calls": [{}] },
            { "role": "developer", "content": [{ "type": "text", "text": "In French." }] },
            user("two"),
        ]);
        let request = |more: Value| {
            let mut request = json!({ "model": "limulus/helper", "messages": messages });
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            request
        };
        let alone = message(request(json!({})), None).unwrap();
        let before = "What was said before:\n[user]\none\n[assistant]\n1\n[assistant]\n(called tools)\n";
        assert_eq!(alone.message, format!("{before}\nThe user says now:\ntwo"));
        assert_eq!((alone.session_key.as_str(), alone.idempotency_key.as_str()), ("agent:helper:http-k", "k"));
        assert_eq!(alone.append_system.as_deref(), Some("Be brief.\n\nIn French."));
        let with = |more, session| message(request(more), session).map(|params| (params.session_key, params.message));
        let two = |key: &str| Ok((key.to_owned(), "two".to_owned()));
        assert_eq!(with(json!({ "user": "ada" }), None), two("agent:helper:http-user-ada"));
        assert_eq!(with(json!({ "user": "ada" }), Some("work")), two("agent:helper:work"));
        assert_eq!(with(json!({}), Some("agent:helper:work")), two("agent:helper:work"));
        assert!(with(json!({}), Some("agent:main:work")).is_err(), "another agent");
        let odd = with(json!({ "user": "a b\u{202e}" }), None).unwrap().0;
        assert!(odd.starts_with("agent:helper:http-user-") && odd.is_ascii() && !odd.contains(' '), "{odd}");
        for (model, agent) in
            [("main", "main"), ("agent:main", "main"), ("openclaw/x", "x"), ("openclaw:x", "x"), ("limulus/x", "x")]
        {
            assert_eq!(ChatRequest { model: Some(model.to_owned()), ..ChatRequest::default() }.agent(), agent);
        }
    }

    /// R60: what an agent does not do is refused with the reason.
    #[test]
    fn r60_what_an_agent_does_not_do_is_refused() {
        for (more, why) in [
            (json!({ "tools": [{ "type": "function" }] }), "`tools` of the client"),
            (json!({ "functions": [{}] }), "`tools` of the client"),
            (json!({ "n": 2 }), "`n` must be 1"),
            (json!({ "messages": [] }), "no message of the user"),
            (json!({ "messages": [{ "role": "assistant", "content": "x" }] }), "no message of the user"),
            (json!({ "messages": [user(" ")] }), "messages[0].content is empty"),
            (json!({ "messages": [{ "role": "root", "content": "x" }] }), "messages[0].role `root` is unknown"),
            (json!({ "messages": [{ "role": "user", "content": [{ "type": "audio" }] }] }), "of type audio"),
            (json!({ "response_format": { "type": "yaml" } }), "`response_format` is"),
        ] {
            let mut request = json!({ "messages": [user("x")] });
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let refused = message(request, None).unwrap_err();
            assert!(refused.contains(why), "{more}: {refused}");
        }
        let allowed = json!({ "messages": [user("x")], "tools": [], "n": 1, "temperature": 0, "user": "" });
        assert_eq!(message(allowed, None).unwrap().session_key, "agent:main:http-k");
    }

    /// R60: images travel in the request; an address is not fetched.
    #[test]
    fn r60_images_are_in_the_request() {
        let image = |url: &str| {
            let parts =
                json!([{ "type": "text", "text": "see" }, { "type": "image_url", "image_url": { "url": url } }]);
            message(json!({ "messages": [{ "role": "user", "content": parts }] }), None)
        };
        let sent = image("data:image/png;base64,aGk=").unwrap();
        assert_eq!(sent.attachments, [Attachment { name: "image-1.png".to_owned(), content: "aGk=".to_owned() }]);
        assert_eq!(sent.message, "see");
        for url in
            ["https://example.org/x.png", "data:image/png,hi", "data:text/html;base64,aGk=", "data:image/png;base64,*"]
        {
            assert!(image(url).is_err(), "{url}");
        }
    }
}
