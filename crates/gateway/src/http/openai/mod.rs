//! The API of OpenAI: an agent as a model, whose tools run here. SDKs and programs for that API work with it as they are.

mod conversation;

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use engine::{EffectId, RunId, StopReason, Usage};
use protocol::event::{AGENT_EVENT, AssistantLine, LifecycleLine, RunEnd, Stream};
use protocol::method::{Agent, AgentAnswer, AgentsList, Ended, EventsSubscribe, NoParams, SubscribeParams};
use protocol::{Client, Event, Events};
use serde::Deserialize as _;
use serde_json::{Value, json};

use conversation::{ChatRequest, Named, agent_of};

use super::App;
use super::api::idempotency_key;
use super::events::{Gone, ToClient, response};
use super::peer::Peer;
use super::problem::Problem;

/// The header with the key of a session, by its own name and by that of OpenClaw.
const SESSION: [&str; 2] = ["x-limulus-session", "x-openclaw-session-key"];
/// The header of a response with the id of the run.
const RUN: HeaderName = HeaderName::from_static("x-limulus-run");

/// The agents as models.
pub(super) async fn models(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Arc<Peer>>,
) -> Result<Json<Value>, Problem> {
    let agents = agents(&app, &peer).await?;
    Ok(Json(json!({ "object": "list", "data": agents.iter().map(|name| shown(name)).collect::<Vec<_>>() })))
}

/// One of them.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Arc<Peer>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let agent = agent_of(&name);
    known((&app, &peer), agent).await?;
    Ok(Json(shown(agent)))
}

fn shown(agent: &str) -> Value {
    json!({ "id": agent, "object": "model", "created": 0, "owned_by": "limulus" })
}

async fn agents(app: &Arc<App>, peer: &Arc<Peer>) -> Result<Vec<String>, Problem> {
    let (client, _events) = app.client(peer).await?;
    let listed = client.call::<AgentsList>(NoParams {}).await?;
    Ok(listed.agents.into_iter().filter(|agent| agent.configured).map(|agent| agent.agent).collect())
}

/// An error if there is no such agent.
async fn known((app, peer): (&Arc<App>, &Arc<Peer>), name: &str) -> Result<(), Problem> {
    let agents = agents(app, peer).await?;
    if agents.iter().any(|known| known == name) {
        return Ok(());
    }
    let message = format!("there is no agent `{}`: `model` is the name of one", name.escape_debug());
    Err(Problem::new(StatusCode::NOT_FOUND, "model_not_found", message)
        .with_hint(format!("there are {}; docs/http.md says how `model` is read", agents.join(", "))))
}

/// Answers a conversation.
pub(super) async fn chat(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let request: ChatRequest =
        serde_json::from_slice(&body).map_err(|error| Problem::invalid(format!("the body is no request: {error}")))?;
    let key = idempotency_key(&headers)?;
    let session = SESSION.iter().find_map(|name| headers.get(*name));
    let session = session.map(|value| value.to_str()).transpose();
    let session = session.map_err(|_| Problem::invalid("the header with the session is no text"))?;
    let message = request.message(Named { session, key: &key })?;
    known((&app, &peer), request.agent()).await?;
    let (client, events) = app.client(&peer).await?;
    let mut answers = client.ask::<Agent>(message)?;
    let run = match answers.next().await? {
        AgentAnswer::Accepted { run_id, .. } => run_id,
        // A chat command, which has no run.
        AgentAnswer::Command { text } => {
            let reply = Completion { id: key, model: request.agent().to_owned(), created: now(&app) };
            return Ok(reply.whole(&request, text));
        }
        AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => ended.run_id,
    };
    let completion =
        Completion { id: format!("chatcmpl-{run}"), model: request.agent().to_owned(), created: now(&app) };
    let mut response = if request.stream.unwrap_or(false) {
        completion.streamed((client, events), run, request.wants_usage()).await?
    } else {
        match answers.next().await? {
            AgentAnswer::Ok(Ended { text, usage, stop_reason, .. }) => {
                Json(completion.object(&text, &usage, stop_reason)).into_response()
            }
            AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => failed(ended.error).into_response(),
            AgentAnswer::Accepted { .. } | AgentAnswer::Command { .. } => {
                return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "the run was accepted twice"));
            }
        }
    };
    if let Ok(run) = HeaderValue::from_str(&run.to_string()) {
        response.headers_mut().insert(RUN, run);
    }
    Ok(response)
}

/// Seconds since 1970.
fn now(app: &App) -> i64 {
    app.service.runtime.clock().now().0 / 1_000
}

/// A run that did not complete.
fn failed(why: Option<String>) -> Problem {
    let message = why.unwrap_or_else(|| "the run did not complete".to_owned());
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "run_failed", message)
        .with_hint("`limulus runs explain` says more; the same request again would be a new run")
}

/// What all parts of a response have.
struct Completion {
    id: String,
    model: String,
    created: i64,
}

impl Completion {
    fn object(&self, text: &str, usage: &Usage, stop: Option<StopReason>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": text, "refusal": null },
                "logprobs": null, "finish_reason": finish(stop),
            }],
            "usage": counts(usage),
        })
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        })
    }

    /// A text that is there at once, as the client wants it.
    fn whole(self, request: &ChatRequest, text: String) -> Response {
        let usage = Usage::default();
        if !request.stream.unwrap_or(false) {
            return Json(self.object(&text, &usage, None)).into_response();
        }
        let (mut to, response) = response();
        let wants_usage = request.wants_usage();
        tokio::spawn(async move {
            let mut said = Said { completion: self, began: false, effect: None };
            // A client that is gone reads nothing more.
            if said.say(&mut to, &text).await.is_ok() {
                let _ = said.end(&mut to, &usage, None, wants_usage).await;
            }
        });
        response
    }

    /// The text of a run as it is written, and the end.
    async fn streamed(
        self,
        (client, mut events): (Client, Events),
        run: RunId,
        wants_usage: bool,
    ) -> Result<Response, Problem> {
        let params = SubscribeParams { run: Some(run.to_string()), whole: true, ..SubscribeParams::default() };
        client.call::<EventsSubscribe>(params).await?;
        let (mut to, response) = response();
        tokio::spawn(async move {
            let _client = client;
            let said = Said { completion: self, began: false, effect: None };
            // A client that is gone reads nothing more; the run goes on.
            let _ = said.follow(&mut to, &mut events, (run, wants_usage)).await;
        });
        Ok(response)
    }
}

/// What a client was sent of a response.
struct Said {
    completion: Completion,
    began: bool,
    /// The request whose text was sent last.
    effect: Option<EffectId>,
}

impl Said {
    async fn follow(
        mut self,
        to: &mut ToClient,
        events: &mut Events,
        (run, wants_usage): (RunId, bool),
    ) -> Result<(), Gone> {
        while let Some(event) = to.alive(events.recv()).await? {
            if event.event != AGENT_EVENT {
                continue;
            }
            let Ok(line) = Event::deserialize(&event.payload) else { continue };
            match line.what {
                Stream::Assistant(AssistantLine::Delta(delta)) => {
                    // Each request to the model is a text of its own: what it says before its calls, and after them. One that was
                    // cut begins again; what a client was shown of it cannot be taken back.
                    let is_next = self.effect.replace(delta.effect).is_some_and(|last| last != delta.effect);
                    if is_next {
                        self.say(to, "\n\n").await?;
                    }
                    self.say(to, &delta.text).await?;
                }
                Stream::Lifecycle(LifecycleLine::End(end)) if line.run == Some(run) => {
                    if self.effect.is_none() {
                        self.say(to, &end.text).await?;
                    }
                    return self.end(to, &end.usage, end.stop_reason, wants_usage).await;
                }
                Stream::Lifecycle(LifecycleLine::Error(RunEnd { error, .. })) if line.run == Some(run) => {
                    return to.data(&failed(error).body().to_string()).await;
                }
                _ => {}
            }
        }
        let gone = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the service is shutting down");
        to.data(&gone.body().to_string()).await
    }

    async fn say(&mut self, to: &mut ToClient, text: &str) -> Result<(), Gone> {
        if !std::mem::replace(&mut self.began, true) {
            let first = self.completion.chunk(&json!({ "role": "assistant", "content": "" }), None);
            to.data(&first.to_string()).await?;
        }
        to.data(&self.completion.chunk(&json!({ "content": text }), None).to_string()).await
    }

    async fn end(
        &mut self,
        to: &mut ToClient,
        usage: &Usage,
        stop: Option<StopReason>,
        wants_usage: bool,
    ) -> Result<(), Gone> {
        let mut last = self.completion.chunk(&json!({}), Some(finish(stop)));
        to.data(&last.to_string()).await?;
        if wants_usage {
            last["choices"] = json!([]);
            last["usage"] = counts(usage);
            to.data(&last.to_string()).await?;
        }
        to.data("[DONE]").await
    }
}

fn finish(stop: Option<StopReason>) -> &'static str {
    match stop {
        None => "stop",
        Some(StopReason::Length) => "length",
        Some(StopReason::ContentFilter) => "content_filter",
    }
}

fn counts(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt(), "completion_tokens": usage.output,
        "total_tokens": usage.prompt().saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
