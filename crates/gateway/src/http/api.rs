//! The methods of the protocol over HTTP: each as `POST /v1/rpc/METHOD`, and those that are asked for most as resources.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{MatchedPath, Path, Query, State};
use axum::http::{HeaderMap, Method as Verb, StatusCode, Uri};
use protocol::Scope;
use protocol::method::{
    Agent, ApprovalsList, Connect, EventsSubscribe, EventsUnsubscribe, METHODS, Method, OwnerHandover, RunsList,
    RunsShow, SessionsList, SessionsShow,
};
use serde_json::{Map, Value, json};

use super::gate::Caller;
use super::problem::Problem;
use super::{App, parsed};
use crate::methods;

/// Bytes of the parameters of a method without attachments.
const PARAMS_BYTES: usize = 1 << 20;
/// The header with the idempotency key of a message.
const KEY: &str = "idempotency-key";

/// The process is there.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether it can record what it accepts.
pub(super) async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    if methods::health(&app.service).ok {
        return (StatusCode::OK, Json(json!({ "status": "ok" })));
    }
    // What prevents it may name paths: that is for those with the token.
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "unavailable" })))
}

/// Calls a method with the parameters in the body. Of `agent`, which answers twice, this is the first answer.
pub(super) async fn call(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(method): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    if [Connect::NAME, OwnerHandover::NAME].contains(&method.as_str()) {
        return Err(Problem::invalid(format!("`{method}` is for the socket")));
    }
    if [EventsSubscribe::NAME, EventsUnsubscribe::NAME].contains(&method.as_str()) {
        return Err(Problem::invalid(format!("`{method}` needs a connection that stays"))
            .with_hint("use a WebSocket, or GET /v1/runs/ID/events, /v1/sessions/KEY/events or /v1/events"));
    }
    if let Some(spec) = METHODS.iter().find(|spec| spec.name == method && !spec.is_allowed(caller.scopes())) {
        caller.must(spec.scope)?;
    }
    if body.len() > PARAMS_BYTES && method != Agent::NAME {
        let message = "the parameters are larger than 1 MiB: only a message with attachments may be";
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
    }
    let params = object(body).await?;
    asked((&app, &caller), &method, Value::Object(params)).await.map(Json)
}

/// Accepts a message. The run begins as soon as its session and its lane are free.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    caller.must(Scope::Write)?;
    let mut params = object(body).await?;
    let key = idempotency_key(&headers)?;
    params.entry("idempotencyKey").or_insert_with(|| key.into());
    params.entry("sessionKey").or_insert_with(|| "main".into());
    let accepted = asked((&app, &caller), Agent::NAME, Value::Object(params)).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// Lists or shows what a path names.
pub(super) async fn read(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: MatchedPath,
    Path(named): Path<HashMap<String, String>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Problem> {
    let (method, name) = match path.as_str() {
        "/v1/runs" => (RunsList::NAME, None),
        "/v1/runs/{id}" => (RunsShow::NAME, Some("run")),
        "/v1/sessions" => (SessionsList::NAME, None),
        "/v1/sessions/{id}" => (SessionsShow::NAME, Some("sessionKey")),
        "/v1/approvals" => (ApprovalsList::NAME, None),
        other => {
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", format!("{other} is of no method")));
        }
    };
    // Everything else is a name, also one of digits.
    let plain = |key: &str, text: String| match serde_json::from_str(&text) {
        Ok(value @ Value::Bool(_)) => value,
        Ok(value @ Value::Number(_)) if key == "limit" => value,
        _ => Value::String(text),
    };
    let query = query.into_iter().map(|(key, value)| (key.clone(), plain(&key, value)));
    let mut params: Map<String, Value> = query.collect();
    if let (Some(name), Some(id)) = (name, named.get("id")) {
        params.insert(name.to_owned(), id.as_str().into());
    }
    asked((&app, &caller), method, Value::Object(params)).await.map(Json)
}

/// What is not here.
pub(super) async fn unknown(uri: Uri) -> Problem {
    let message = format!("there is no {}", uri.path().escape_debug());
    Problem::new(StatusCode::NOT_FOUND, "not_found", message).with_hint("docs/http.md lists what there is")
}

/// What is here, but not for this verb.
pub(super) async fn not_allowed(verb: Verb, uri: Uri) -> Problem {
    let message = format!("{verb} is not for {}", uri.path().escape_debug());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "not_allowed", message).with_hint("docs/http.md lists what there is")
}

/// The idempotency key of a message; a new one if the client has none.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<String, Problem> {
    let bad = || Problem::invalid("`Idempotency-Key` is 1 to 255 visible characters");
    match headers.get(KEY) {
        None => Ok(uuid::Uuid::now_v7().to_string()),
        Some(key) => {
            let key = key.to_str().map_err(|_| bad())?.trim();
            if (1..=255).contains(&key.len()) { Ok(key.to_owned()) } else { Err(bad()) }
        }
    }
}

async fn asked((app, caller): (&Arc<App>, &Caller), method: &str, params: Value) -> Result<Value, Problem> {
    let (client, _events) = app.client(caller).await?;
    Ok(client.request(method, params).await?)
}

/// The JSON object of a body; an empty body is an empty one.
async fn object(body: Bytes) -> Result<Map<String, Value>, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    parsed(body).await.map_err(|error| Problem::invalid(format!("the body is no JSON object: {error}")))
}
