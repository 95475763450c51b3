//! The methods on sessions.

use engine::tables::transitions::RunState;
use engine::{Outcome, RunId, SessionId};
use protocol::method::{
    AbortParams, Agent, AgentAnswer, AgentParams, CompactParams, DeleteParams, LabelParams, RunsAbort, SessionsCompact,
    SessionsDelete, SessionsLabel, SessionsList, SessionsListParams,
};
use protocol::show::{RunStory, RunSummary, SessionSummary};
use protocol::{ClientError, ErrorCode};
use serde_json::{Value, json};
use views::SessionKey;

use super::trouble::Trouble;
use super::{Operator, history, server};

/// Sessions of a list without a limit, and how many are looked through for a filter.
const USUAL: u64 = 100;
const LOOKED_AT: usize = 1_000;
/// Characters of a title.
const TITLE_CHARS: usize = 200;

/// The settings of a session that it has besides its label, each with the command that sets it.
const SETTINGS: [(&str, &str); 3] = [("model", "/model"), ("thinkingLevel", "/think"), ("verboseLevel", "/verbose")];
/// What else its clients set, and limulus has not.
const UNKNOWN_SETTINGS: [&str; 13] = [
    "reasoningLevel",
    "responseUsage",
    "elevatedLevel",
    "execHost",
    "execSecurity",
    "execAsk",
    "execNode",
    "fastMode",
    "sendPolicy",
    "groupActivation",
    "spawnedBy",
    "spawnDepth",
    "traceLevel",
];

/// The key of a session in this parameter.
pub(super) fn key(params: &Value, name: &str) -> Result<String, Trouble> {
    let text = params[name].as_str().filter(|key| !key.trim().is_empty());
    let text = text.ok_or_else(|| Trouble::invalid(format!("`{name}` is missing: the key of a session")))?;
    whole_key(text, params["agentId"].as_str())
}

/// The whole key of a session: one that names no agent is of this one.
pub(super) fn whole_key(text: &str, agent: Option<&str>) -> Result<String, Trouble> {
    let whole = match agent {
        Some(agent) if !text.starts_with("agent:") => format!("agent:{agent}:{text}"),
        _ => text.to_owned(),
    };
    let key = SessionKey::parse(Some(&whole)).map_err(|error| Trouble::invalid(error.to_string()))?;
    match agent.filter(|agent| *agent != key.agent) {
        Some(agent) => Err(Trouble::invalid(format!("the session {key} is none of the agent {agent}"))),
        None => Ok(key.to_string()),
    }
}

pub(super) fn agent_of(key: &str) -> &str {
    key.strip_prefix("agent:").and_then(|rest| rest.split(':').next()).unwrap_or(server::MAIN)
}

/// A run, as a list or a story has it.
pub(super) trait RunShown {
    fn summary(&self) -> &RunSummary;
}

impl RunShown for RunSummary {
    fn summary(&self) -> &RunSummary {
        self
    }
}

impl RunShown for RunStory {
    fn summary(&self) -> &RunSummary {
        &self.summary
    }
}

/// A session as a row of a list.
pub(super) fn row<R: RunShown, Q>(session: &SessionSummary<R, Q>) -> Value {
    let run = session.run.as_ref().map(RunShown::summary);
    let is_active = session.run_state != RunState::Idle;
    let (provider, model) = run.and_then(|run| run.model.split_once('/')).unzip();
    let mut row = json!({
        "key": session.key, "kind": "direct", "chatType": "direct", "agentId": session.agent,
        "sessionId": session.session, "createdAt": session.created_at.0, "updatedAt": session.last_activity.0,
        "lastActivityAt": session.last_activity.0, "archived": session.archived, "systemSent": session.messages > 0,
        "hasActiveRun": is_active, "abortedLastRun": session.last_outcome == Some(Outcome::Aborted),
        "modelProvider": provider, "model": model, "estimatedCostUsd": session.cost as f64 / 1e6,
    });
    if let Some(title) = &session.title {
        row["displayName"] = title.as_str().into();
        row["derivedTitle"] = title.as_str().into();
    }
    if let Some(run) = run {
        let usage = server::counts(&run.usage);
        row["inputTokens"] = usage["input"].clone();
        row["outputTokens"] = usage["output"].clone();
        row["totalTokens"] = usage["total"].clone();
        row["startedAt"] = run.started_at.map(|at| at.0).into();
        row["endedAt"] = run.ended_at.map(|at| at.0).into();
        row["status"] = match run.outcome {
            None => "running",
            Some(Outcome::Completed) => "done",
            Some(Outcome::Aborted | Outcome::Interrupted) => "killed",
            Some(Outcome::TimedOut | Outcome::Stalled) => "timeout",
            Some(Outcome::Failed) => "failed",
        }
        .into();
    }
    row
}

pub(super) async fn list(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let limit = params["limit"].as_u64().unwrap_or(USUAL).clamp(1, LOOKED_AT as u64) as usize;
    let (agent, label) = (params["agentId"].as_str(), params["label"].as_str());
    let since = params["activeMinutes"].as_u64().map(|minutes| {
        let ms = i64::try_from(minutes.saturating_mul(60_000)).unwrap_or(i64::MAX);
        operator.now().saturating_sub(ms)
    });
    let is_filtered = agent.is_some() || label.is_some() || since.is_some();
    let search = params["search"].as_str().map(str::trim).filter(|words| !words.is_empty()).map(str::to_owned);
    let asked = SessionsListParams {
        limit: Some(if is_filtered { LOOKED_AT } else { limit }),
        by_activity: search.is_none(),
        archived: params["archived"] == true,
        search,
        ..SessionsListParams::default()
    };
    let listed = operator.client.call::<SessionsList>(asked).await?;
    let more = listed.more.unwrap_or_default();
    let matching = listed.sessions.iter().filter(|session| {
        agent.is_none_or(|agent| session.agent == agent)
            && label.is_none_or(|label| session.title.as_deref() == Some(label))
            && since.is_none_or(|since| session.last_activity.0 >= since)
    });
    let mut rows: Vec<Value> = matching.map(row).collect();
    let total = rows.len() as u64 + if is_filtered { 0 } else { more };
    rows.truncate(limit);
    let has_more = total > rows.len() as u64;
    Ok(json!({
        "ts": operator.now(), "path": operator.app.service.home().display().to_string(), "count": rows.len(),
        "totalCount": total, "limitApplied": limit, "hasMore": has_more, "nextOffset": null,
        "defaults": server::defaults(operator, agent.unwrap_or(server::MAIN)).await, "sessions": rows,
    }))
}

pub(super) async fn describe(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = key(params, "key")?;
    let shown = history::session(operator, &key, 1).await?;
    Ok(json!({ "session": shown.as_ref().map(row) }))
}

/// The key of the session with this id.
pub(super) async fn key_of_id(operator: &Operator, id: &str) -> Result<Option<String>, Trouble> {
    if id.parse::<SessionId>().is_err() {
        return Ok(None);
    }
    let mut after = None;
    loop {
        let params = SessionsListParams { limit: Some(LOOKED_AT), after, ..SessionsListParams::default() };
        let listed = operator.client.call::<SessionsList>(params).await?;
        if let Some(found) = listed.sessions.iter().find(|session| session.session.to_string() == id) {
            return Ok(Some(found.key.clone()));
        }
        match listed.next {
            Some(next) => after = Some(next),
            None => return Ok(None),
        }
    }
}

pub(super) async fn resolve(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let found = if params["key"].is_string() {
        let key = key(params, "key")?;
        history::session(operator, &key, 1).await?.map(|shown| shown.key)
    } else if let Some(id) = params["sessionId"].as_str() {
        key_of_id(operator, id).await?
    } else if let Some(label) = params["label"].as_str() {
        let listed = list(operator, &json!({ "label": label, "agentId": params["agentId"] })).await?;
        listed["sessions"][0]["key"].as_str().map(str::to_owned)
    } else {
        return Err(Trouble::invalid("name the session by `key`, `sessionId` or `label`"));
    };
    match found {
        Some(key) => Ok(json!({ "ok": true, "key": key })),
        None if params["allowMissing"] == true => Ok(json!({ "ok": false })),
        None => Err(Trouble::invalid("no session found: there is none with this name")),
    }
}

/// Carries out a command of the chat in a session.
pub(super) async fn command(operator: &Operator, key: &str, command: String) -> Result<String, Trouble> {
    let params = AgentParams {
        message: command,
        session_key: key.to_owned(),
        idempotency_key: uuid::Uuid::now_v7().to_string(),
        ..AgentParams::default()
    };
    match operator.client.ask::<Agent>(params)?.next().await? {
        AgentAnswer::Command { text } => Ok(text),
        _ => Err(Trouble::invalid("this is no command")),
    }
}

/// Sets what a session has. Nothing is set if one of the settings is unknown.
pub(super) async fn patch(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = key(params, "key")?;
    if let Some(unknown) = UNKNOWN_SETTINGS.iter().find(|name| !params[**name].is_null()) {
        return Err(Trouble::invalid(format!("`{unknown}` is no setting of a session of limulus")));
    }
    let is_set = |name: &str| params.get(name).is_some();
    if let Some(wrong) = ["label", "model", "thinkingLevel", "verboseLevel"]
        .iter()
        .find(|name| is_set(name) && !params[**name].is_null() && !params[**name].is_string())
    {
        return Err(Trouble::invalid(format!("`{wrong}` is a text, or null")));
    }
    for (name, word) in SETTINGS.iter().filter(|(name, _)| is_set(name)) {
        let value = params[*name].as_str().map(str::trim).filter(|value| !value.is_empty()).unwrap_or("default");
        if value.contains(char::is_whitespace) {
            return Err(Trouble::invalid(format!("`{name}` is one word")));
        }
        // All that is shown at all is shown in full.
        let value = if *name == "verboseLevel" && value == "full" { "on" } else { value };
        command(operator, &key, format!("{word} {value}")).await?;
    }
    if is_set("label") || params["archived"].is_boolean() {
        let title = params["label"].as_str().map(|label| label.chars().take(TITLE_CHARS).collect());
        let title = is_set("label").then(|| title.unwrap_or_default());
        let label = LabelParams { session_key: key.clone(), title, archived: params["archived"].as_bool() };
        operator.client.call::<SessionsLabel>(label).await?;
    }
    changed(operator, &key, "patch").await;
    entry(operator, &key).await
}

/// What became of a session.
async fn entry(operator: &Operator, key: &str) -> Result<Value, Trouble> {
    let shown = history::session(operator, key, 1).await?;
    let row = shown.as_ref().map_or(Value::Null, row);
    let defaults = server::defaults(operator, agent_of(key)).await;
    let of = |name: &str| if row[name].is_null() { defaults[name].clone() } else { row[name].clone() };
    Ok(json!({
        "ok": true, "path": operator.app.service.home().display().to_string(), "key": key,
        "entry": { "sessionId": row["sessionId"], "updatedAt": row["updatedAt"] },
        "resolved": { "modelProvider": of("modelProvider"), "model": of("model") },
    }))
}

/// Shows the client that a session has changed.
pub(super) async fn changed(operator: &Operator, key: &str, reason: &str) {
    if operator.follows_sessions.load(std::sync::atomic::Ordering::Relaxed) {
        let payload = json!({ "sessionKey": key, "agentId": agent_of(key), "reason": reason, "ts": operator.now() });
        operator.event("sessions.changed", payload).await;
    }
}

/// Begins a new conversation. Its run ends, and what waits for it is cancelled.
pub(super) async fn reset(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = key(params, "key")?;
    abort(operator, &key).await?;
    command(operator, &key, "/new".to_owned()).await?;
    changed(operator, &key, if params["reason"] == "new" { "new" } else { "reset" }).await;
    entry(operator, &key).await
}

/// Ends the run of a session and cancels what waits. Returns the runs that end or will never begin.
pub(super) async fn abort(operator: &Operator, key: &str) -> Result<Vec<RunId>, Trouble> {
    let params = AbortParams { run: None, session: Some(key.to_owned()), clear: true };
    match operator.client.call::<RunsAbort>(params).await {
        Ok(aborted) => {
            let cancelled = aborted.cancelled.into_iter().map(RunId::from).filter(|run| *run != aborted.run_id);
            Ok([aborted.run_id].into_iter().chain(cancelled).collect())
        }
        Err(ClientError::Answered(error)) if error.code == ErrorCode::NotFound => Ok(vec![]),
        Err(error) => Err(error.into()),
    }
}

/// The key of a new session. Its first message creates it.
pub(super) async fn create(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let name = params["key"].as_str().map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned);
    let key = whole_key(&name, params["agentId"].as_str())?;
    if params["message"].is_string() || params["task"].is_string() {
        return Err(Trouble::invalid("send the first message with `chat.send`"));
    }
    let mut settings = json!({ "key": key });
    for name in ["label", "model", "thinkingLevel"] {
        if let Some(value) = params.get(name).filter(|value| !value.is_null()) {
            settings[name] = value.clone();
        }
    }
    if settings.as_object().is_some_and(|settings| settings.len() > 1) {
        return patch(operator, &settings).await;
    }
    entry(operator, &key).await
}

pub(super) async fn delete(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = key(params, "key")?;
    if key == "agent:main:main" {
        return Err(Trouble::invalid("the main session cannot be deleted; `sessions.reset` begins a new conversation"));
    }
    operator.client.call::<SessionsDelete>(DeleteParams { session_key: key.clone() }).await?;
    changed(operator, &key, "delete").await;
    Ok(json!({ "ok": true, "key": key, "deleted": true, "archived": [] }))
}

pub(super) async fn compact(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = key(params, "key")?;
    let compacted =
        operator.client.call::<SessionsCompact>(CompactParams { session_key: Some(key.clone()), focus: None }).await?;
    changed(operator, &key, "compact").await;
    Ok(json!({ "ok": true, "key": key, "compacted": compacted.done.is_some() }))
}
