//! `POST /v1/responses`: the newer form of the API. A response that names the one before goes on in its session.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use engine::{RunId, StopReason, Usage};
use protocol::Scope;
use protocol::method::{RunParams, RunsList, RunsListParams, RunsShow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::{ChatRequest, Named};
use super::{Begun, Piece, begin, now, session, with_run};
use crate::http::api::idempotency_key;
use crate::http::events::{Gone, ToClient, response};
use crate::http::gate::Caller;
use crate::http::problem::Problem;
use crate::http::{App, parsed};

/// What stands before the id of a run in that of its response.
const ID: &str = "resp_";

/// The body of a request. Other fields are of no use here and are not refused.
#[derive(Debug, Clone, Deserialize)]
struct ResponseRequest {
    model: Option<String>,
    input: Input,
    instructions: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    previous_response_id: Option<String>,
    user: Option<String>,
    text: Option<Value>,
    tools: Option<Vec<Value>>,
    background: Option<bool>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    max_output_tokens: Option<u64>,
    reasoning: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Value>),
}

impl ResponseRequest {
    /// The same as a conversation of chat completions.
    fn as_chat(&self) -> Result<ChatRequest, Problem> {
        if self.background.unwrap_or(false) {
            return Err(Problem::invalid("`background` is not supported").with_hint("POST /v1/runs begins a run"));
        }
        let instructions = self.instructions.iter().map(|text| json!({ "role": "system", "content": text }));
        let items = match &self.input {
            Input::Text(text) => vec![json!({ "role": "user", "content": text })],
            Input::Items(items) => {
                let messages = items.iter().enumerate().map(|(at, item)| as_message(at, item));
                messages.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
        };
        let format = self.text.as_ref().map(|text| &text["format"]).filter(|format| !format.is_null());
        let schema = |format: &Value| match format["type"].as_str() {
            Some("json_schema") => json!({ "type": "json_schema", "json_schema": { "schema": format["schema"] } }),
            _ => format.clone(),
        };
        let request = json!({
            "model": self.model, "messages": instructions.chain(items).collect::<Vec<_>>(), "stream": self.stream,
            "user": self.user, "tools": self.tools, "response_format": format.map(schema),
            "temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_output_tokens,
            "reasoning_effort": self.reasoning.as_ref().and_then(|reasoning| reasoning["effort"].as_str()),
        });
        serde_json::from_value(request)
            .map_err(|error| Problem::invalid(format!("`input` is not as expected: {error}")))
    }
}

/// An item of the input as a message; none if it is of no use here.
fn as_message(at: usize, item: &Value) -> Result<Option<Value>, Problem> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let mut message = item.clone();
            for part in message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                if part["type"] == "input_image" {
                    *part = json!({ "type": "image_url", "image_url": { "url": part["image_url"] } });
                }
            }
            Ok(Some(message))
        }
        "reasoning" | "item_reference" => Ok(None),
        other => {
            let message = format!("input[{at}] of type {} is not supported", other.escape_debug());
            Err(Problem::invalid(message).with_hint("message is"))
        }
    }
}

/// Answers a request.
pub(in crate::http) async fn respond(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    caller.must(Scope::Write)?;
    let request: ResponseRequest =
        parsed(body).await.map_err(|error| Problem::invalid(format!("the body is no request: {error}")))?;
    let chat = request.as_chat()?;
    let key = idempotency_key(&headers)?;
    let before = match &request.previous_response_id {
        Some(id) => Some(session_after((&app, &caller), id).await?),
        None => None,
    };
    let named = Named { session: before.as_deref().or(session(&headers)?), key: &key };
    let of = |id: &str| Shape {
        id: format!("{ID}{id}"),
        message: format!("msg_{id}"),
        model: chat.agent().to_owned(),
        created: now(&app),
        previous: request.previous_response_id.clone(),
    };
    let started = match begin((&app, &caller), &chat, named).await? {
        Begun::Run(started) => started,
        Begun::Command(text) => return Ok(of(&key).whole(text, chat.is_streamed())),
    };
    let (run, shape) = (started.run, of(&started.run.to_string()));
    if !chat.is_streamed() {
        let ended = started.end().await?;
        let whole = shape.object(status(ended.stop_reason), Some((&ended.text, &ended.usage, ended.stop_reason)));
        return Ok(with_run(Json(whole).into_response(), run));
    }
    let (mut to, response) = response();
    let mut reader = started.read().await?;
    tokio::spawn(async move {
        let mut said = Said { shape, text: String::new(), sequence: 0 };
        said.begin(&mut to).await?;
        // A client that is gone reads nothing more; the run goes on.
        loop {
            match reader.next(&mut to).await? {
                Piece::Text(text) => said.say(&mut to, &text).await?,
                Piece::End(end) => return said.end(&mut to, (&end.usage, end.stop_reason)).await,
                Piece::Failed(problem) => return said.failed(&mut to, &problem).await,
            }
        }
    });
    Ok(with_run(response, run))
}

/// The session in which a response is the last one.
async fn session_after((app, caller): (&Arc<App>, &Caller), id: &str) -> Result<String, Problem> {
    let unknown = || {
        let message = format!("there is no response `{}`", id.escape_debug());
        Problem::new(StatusCode::NOT_FOUND, "previous_response_not_found", message)
    };
    let run: RunId = id.strip_prefix(ID).and_then(|run| run.parse().ok()).ok_or_else(unknown)?;
    let (client, _events) = app.client(caller).await?;
    let params = RunParams { run: Some(run.to_string()), ..RunParams::default() };
    let shown = client.call::<RunsShow>(params).await.map_err(|_| unknown())?;
    let params =
        RunsListParams { session_key: Some(shown.summary.key.clone()), limit: Some(1), ..RunsListParams::default() };
    let last = client.call::<RunsList>(params).await?.runs.into_iter().next().map(|row| row.run);
    if last == Some(run) {
        return Ok(shown.summary.key);
    }
    let message = "its session has gone on since that response";
    Err(Problem::new(StatusCode::CONFLICT, "not_the_last_response", message)
        .with_hint("name its last response in `previous_response_id`: a conversation cannot fork yet"))
}

fn status(stop: Option<StopReason>) -> &'static str {
    if stop.is_some() { "incomplete" } else { "completed" }
}

/// What all forms of a response have.
struct Shape {
    id: String,
    message: String,
    model: String,
    created: i64,
    previous: Option<String>,
}

impl Shape {
    /// A text that is there at once, as the client wants it.
    fn whole(self, text: String, is_streamed: bool) -> Response {
        if !is_streamed {
            return Json(self.object("completed", Some((&text, &Usage::default(), None)))).into_response();
        }
        let (mut to, response) = response();
        tokio::spawn(async move {
            let mut said = Said { shape: self, text: String::new(), sequence: 0 };
            said.begin(&mut to).await?;
            said.say(&mut to, &text).await?;
            // A client that is gone reads nothing more.
            said.end(&mut to, (&Usage::default(), None)).await
        });
        response
    }

    /// The response, with its text if it is there.
    fn object(&self, status: &str, whole: Option<(&str, &Usage, Option<StopReason>)>) -> Value {
        let output = whole.map(|(text, ..)| self.item(status, Some(text)));
        let why = whole.and_then(|(.., stop)| stop).map(|stop| match stop {
            StopReason::Length => "max_output_tokens",
            StopReason::ContentFilter => "content_filter",
        });
        json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status, "model": self.model,
            "output": output.into_iter().collect::<Vec<_>>(), "usage": whole.map(|(_, usage, _)| counts(usage)),
            "previous_response_id": self.previous, "error": null, "incomplete_details": why.map(|why| json!({ "reason": why })),
            "instructions": null, "metadata": {}, "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "temperature": null, "top_p": null,
        })
    }

    fn item(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<_> = text.into_iter().map(part).collect();
        json!({ "id": self.message, "type": "message", "status": status, "role": "assistant", "content": content })
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn counts(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt(), "output_tokens": usage.output,
        "total_tokens": usage.prompt().saturating_add(usage.output),
        "input_tokens_details": { "cached_tokens": usage.cached },
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

/// What a client was sent of a response.
struct Said {
    shape: Shape,
    text: String,
    sequence: u64,
}

impl Said {
    /// Sends an event with its name and number.
    async fn send(&mut self, to: &mut ToClient, name: &str, mut event: Value) -> Result<(), Gone> {
        event["type"] = name.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        to.send(None, name, &event).await
    }

    /// Sends an event about the one part of the one message.
    async fn of_part(&mut self, to: &mut ToClient, name: &str, mut event: Value) -> Result<(), Gone> {
        event["item_id"] = self.shape.message.as_str().into();
        event["output_index"] = 0.into();
        event["content_index"] = 0.into();
        self.send(to, name, event).await
    }

    async fn begin(&mut self, to: &mut ToClient) -> Result<(), Gone> {
        let response = json!({ "response": self.shape.object("in_progress", None) });
        self.send(to, "response.created", response.clone()).await?;
        self.send(to, "response.in_progress", response).await?;
        let item = json!({ "output_index": 0, "item": self.shape.item("in_progress", None) });
        self.send(to, "response.output_item.added", item).await?;
        self.of_part(to, "response.content_part.added", json!({ "part": part("") })).await
    }

    async fn say(&mut self, to: &mut ToClient, text: &str) -> Result<(), Gone> {
        self.text += text;
        self.of_part(to, "response.output_text.delta", json!({ "delta": text, "logprobs": [] })).await
    }

    async fn end(&mut self, to: &mut ToClient, (usage, stop): (&Usage, Option<StopReason>)) -> Result<(), Gone> {
        let (text, status) = (std::mem::take(&mut self.text), status(stop));
        self.of_part(to, "response.output_text.done", json!({ "text": text, "logprobs": [] })).await?;
        self.of_part(to, "response.content_part.done", json!({ "part": part(&text) })).await?;
        let item = json!({ "output_index": 0, "item": self.shape.item(status, Some(&text)) });
        self.send(to, "response.output_item.done", item).await?;
        let name = if stop.is_some() { "response.incomplete" } else { "response.completed" };
        let response = json!({ "response": self.shape.object(status, Some((&text, usage, stop))) });
        self.send(to, name, response).await
    }

    async fn failed(&mut self, to: &mut ToClient, problem: &Problem) -> Result<(), Gone> {
        let mut response = self.shape.object("failed", None);
        response["error"] = json!({ "code": "server_error", "message": problem.message });
        self.send(to, "response.failed", json!({ "response": response })).await
    }
}
