//! The API of OpenAI: an agent as a model, whose tools run here. SDKs and programs for that API work with it as they are.

mod chat;
mod conversation;
mod responses;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use engine::{EffectId, RunId};
use protocol::event::{AGENT_EVENT, AssistantLine, LifecycleLine, RunEnd, Stream};
use protocol::method::{Agent, AgentAnswer, Ended, EventsSubscribe, SubscribeParams};
use protocol::{Answers, Client, Event, Events, Scope};
use serde::Deserialize as _;
use serde_json::{Value, json};

use conversation::{ChatRequest, Named, agent_of};

use super::App;
use super::events::{Gone, ToClient};
use super::gate::Caller;
use super::problem::Problem;

pub(super) use chat::chat;
pub(super) use responses::respond;

/// The header with the key of a session, by its own name and by that of OpenClaw.
const SESSION: [&str; 2] = ["x-limulus-session", "x-openclaw-session-key"];
/// The header of a response with the id of the run.
const RUN: HeaderName = HeaderName::from_static("x-limulus-run");

/// The agents as models.
pub(super) async fn models(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Problem> {
    caller.must(Scope::Read)?;
    let agents = app.agents();
    Ok(Json(json!({ "object": "list", "data": agents.iter().map(|name| shown(name)).collect::<Vec<_>>() })))
}

/// One of them.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.must(Scope::Read)?;
    let agent = agent_of(&name);
    known(&app, agent)?;
    Ok(Json(shown(agent)))
}

fn shown(agent: &str) -> Value {
    json!({ "id": agent, "object": "model", "created": 0, "owned_by": "limulus" })
}

/// An error if there is no such agent.
fn known(app: &App, name: &str) -> Result<(), Problem> {
    let agents = app.agents();
    if agents.iter().any(|known| known == name) {
        return Ok(());
    }
    let message = format!("there is no agent `{}`: `model` is the name of one", name.escape_debug());
    Err(Problem::new(StatusCode::NOT_FOUND, "model_not_found", message)
        .with_hint(format!("there are {}; docs/http.md says how `model` is read", agents.join(", "))))
}

/// The key of a session in the head of a request.
fn session(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let named = SESSION.iter().find_map(|name| headers.get(*name)).map(|value| value.to_str()).transpose();
    named.map_err(|_| Problem::invalid("the header with the session is no text"))
}

/// Seconds since 1970.
fn now(app: &App) -> i64 {
    app.service.runtime.clock().now().0 / 1_000
}

/// Names the run in the head of a response.
fn with_run(mut response: Response, run: RunId) -> Response {
    if let Ok(run) = HeaderValue::from_str(&run.to_string()) {
        response.headers_mut().insert(RUN, run);
    }
    response
}

/// A run that did not complete.
fn failed(why: Option<String>) -> Problem {
    let message = why.unwrap_or_else(|| "the run did not complete".to_owned());
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "run_failed", message)
        .with_hint("`limulus runs explain` says more; the same request again would be a new run")
}

/// What became of a message.
enum Begun {
    /// A run answers it.
    Run(Started),
    /// It was a chat command, with this answer.
    Command(String),
}

/// A run that answers a message.
struct Started {
    run: RunId,
    client: Client,
    events: Events,
    answers: Answers<Agent>,
}

/// Sends the message of a request to its agent.
async fn begin((app, caller): (&Arc<App>, &Caller), request: &ChatRequest, named: Named<'_>) -> Result<Begun, Problem> {
    let message = request.message(named)?;
    known(app, request.agent())?;
    let (client, events) = app.client(caller).await?;
    let mut answers = client.ask::<Agent>(message)?;
    let run = match answers.next().await? {
        AgentAnswer::Accepted { run_id, .. } => run_id,
        AgentAnswer::Command { text } => return Ok(Begun::Command(text)),
        AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => ended.run_id,
    };
    Ok(Begun::Run(Started { run, client, events, answers }))
}

impl Started {
    /// Waits for the end of the run.
    async fn end(mut self) -> Result<Ended, Problem> {
        match self.answers.next().await? {
            AgentAnswer::Ok(ended) => Ok(ended),
            AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => Err(failed(ended.error)),
            AgentAnswer::Accepted { .. } | AgentAnswer::Command { .. } => {
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "the run was accepted twice"))
            }
        }
    }

    /// Reads its answer as it is written.
    async fn read(self) -> Result<Reader, Problem> {
        let Self { run, client, events, .. } = self;
        let params = SubscribeParams { run: Some(run.to_string()), whole: true, ..SubscribeParams::default() };
        client.call::<EventsSubscribe>(params).await?;
        Ok(Reader { run, _client: client, events, effect: None, ended: None })
    }
}

/// Reads the answer of a run.
struct Reader {
    run: RunId,
    _client: Client,
    events: Events,
    /// The request whose text came last.
    effect: Option<EffectId>,
    /// The end, if its text comes before it.
    ended: Option<RunEnd>,
}

/// What comes of an answer.
enum Piece {
    Text(String),
    End(RunEnd),
    Failed(Problem),
}

impl Reader {
    /// The next piece. `to` is kept alive meanwhile.
    async fn next(&mut self, to: &mut ToClient) -> Result<Piece, Gone> {
        if let Some(end) = self.ended.take() {
            return Ok(Piece::End(end));
        }
        while let Some(event) = to.alive(self.events.recv()).await? {
            if event.event != AGENT_EVENT {
                continue;
            }
            let Ok(line) = Event::deserialize(&event.payload) else { continue };
            let is_own = line.run == Some(self.run);
            match line.what {
                Stream::Assistant(AssistantLine::Delta(delta)) => {
                    // Each request to the model is a text of its own: what it says before its calls, and after them. One that was
                    // cut begins again; what a client was shown of it cannot be taken back.
                    let is_next = self.effect.replace(delta.effect).is_some_and(|last| last != delta.effect);
                    return Ok(Piece::Text(if is_next { format!("\n\n{}", delta.text) } else { delta.text }));
                }
                Stream::Lifecycle(LifecycleLine::End(end)) if is_own && self.effect.is_none() => {
                    let text = end.text.clone();
                    self.ended = Some(end);
                    return Ok(Piece::Text(text));
                }
                Stream::Lifecycle(LifecycleLine::End(end)) if is_own => return Ok(Piece::End(end)),
                Stream::Lifecycle(LifecycleLine::Error(RunEnd { error, .. })) if is_own => {
                    return Ok(Piece::Failed(failed(error)));
                }
                _ => {}
            }
        }
        let gone = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the service is shutting down");
        Ok(Piece::Failed(gone))
    }
}
