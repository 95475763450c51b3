//! What its clients ask of the service itself: how it is, its agents and models, and what it has not.

use std::sync::Arc;

use engine::{Hash, Overrides, Settings, Usage};
use protocol::method::{
    AgentsList, NoParams, SessionsList, SessionsListParams, SessionsListed, UsageBy, UsageGet, UsageParams, UsageRow,
};
use runtime::SessionContext;
use serde_json::{Value, json};

use super::Operator;
use super::trouble::Trouble;
use crate::http::App;
use crate::methods;

/// The agent that is meant if none is named.
pub(super) const MAIN: &str = "main";
/// Sessions that `health` and `status` show.
const RECENT: usize = 10;

/// Which agent and session are meant if none is named.
pub(super) fn session_defaults() -> Value {
    json!({ "defaultAgentId": MAIN, "mainKey": "main", "mainSessionKey": "agent:main:main", "scope": "per-sender" })
}

/// How the service is, without its sessions.
pub(super) fn health(app: &App) -> Value {
    let health = methods::health(&app.service);
    json!({
        "ok": health.ok, "ts": app.service.runtime.clock().now().0, "durationMs": 0,
        "channels": {}, "channelOrder": [], "channelLabels": {}, "heartbeatSeconds": 0,
        "defaultAgentId": MAIN, "agents": [{ "agentId": MAIN, "isDefault": true }],
        "sessions": { "path": app.service.home().display().to_string(), "count": 0, "recent": [] },
    })
}

/// What a run of this agent would be asked with, if its configuration can be used. It is read on a thread that may block.
pub(super) async fn settings(operator: &Operator, agent: &str) -> Option<Settings> {
    let (service, agent) = (Arc::clone(&operator.app.service), agent.to_owned());
    let resolving = move || {
        let resolver = service.runtime.resolver();
        resolver.settings(&agent, SessionContext::default(), &Overrides::default()).ok()
    };
    tokio::task::spawn_blocking(resolving).await.ok().flatten()
}

/// The model of an agent: its provider, its name and what it can see.
pub(super) async fn defaults(operator: &Operator, agent: &str) -> Value {
    let settings = settings(operator, agent).await;
    let first = settings.as_ref().and_then(|settings| settings.candidates.first());
    json!({
        "modelProvider": first.map(|first| first.provider.as_str()),
        "model": first.map(|first| first.model.as_str()),
        "contextTokens": first.map(|first| first.context_window),
        "thinkingLevels": THINKING.map(|level| json!({ "id": level, "label": level })),
        "thinkingOptions": THINKING,
    })
}

const THINKING: [&str; 6] = ["off", "minimal", "low", "medium", "high", "xhigh"];

async fn recent(operator: &Operator, limit: usize) -> Result<SessionsListed, Trouble> {
    let params = SessionsListParams { limit: Some(limit), by_activity: true, ..SessionsListParams::default() };
    Ok(operator.client.call::<SessionsList>(params).await?)
}

/// The last sessions and how many there are.
async fn sessions(operator: &Operator) -> Result<Value, Trouble> {
    let listed = recent(operator, RECENT).await?;
    let now = operator.now();
    let shown = listed.sessions.iter().map(|session| {
        let at = session.last_activity.0;
        json!({ "key": session.key, "sessionId": session.session, "updatedAt": at, "age": now.saturating_sub(at) })
    });
    let count = listed.sessions.len() as u64 + listed.more.unwrap_or_default();
    let path = operator.app.service.home().display().to_string();
    Ok(json!({ "path": path, "count": count, "recent": shown.collect::<Vec<_>>() }))
}

pub(super) async fn full_health(operator: &Operator) -> Result<Value, Trouble> {
    let mut health = health(&operator.app);
    let sessions = sessions(operator).await?;
    let agents = operator.client.call::<AgentsList>(NoParams {}).await?.agents;
    let agents = agents.into_iter().filter(|agent| agent.configured);
    let agents = agents.map(|agent| {
        let count = agent.sessions.values().sum::<usize>();
        let is_default = agent.agent == MAIN;
        json!({ "agentId": agent.agent, "isDefault": is_default, "sessions": { "count": count, "recent": [] } })
    });
    health["agents"] = agents.collect();
    health["sessions"] = sessions;
    Ok(health)
}

pub(super) async fn status(operator: &Operator) -> Result<Value, Trouble> {
    let mut sessions = sessions(operator).await?;
    let defaults = defaults(operator, MAIN).await;
    sessions["paths"] = json!([sessions["path"]]);
    sessions["defaults"] = json!({ "model": defaults["model"], "contextTokens": defaults["contextTokens"] });
    sessions["byAgent"] = json!([]);
    Ok(json!({
        "runtimeVersion": operator.app.service.version,
        "uptimeMs": operator.app.service.uptime_ms(),
        "heartbeat": { "defaultAgentId": MAIN, "agents": [] },
        "channelSummary": [], "queuedSystemEvents": [],
        "sessions": sessions,
    }))
}

pub(super) fn agents(operator: &Operator) -> Value {
    let names = operator.app.agents();
    let agents = names.iter().map(|name| json!({ "id": name, "kind": "agent", "name": name })).collect::<Vec<_>>();
    json!({ "defaultId": MAIN, "mainKey": "main", "scope": "per-sender", "agents": agents })
}

pub(super) fn identity(params: &Value) -> Value {
    let of_key = params["sessionKey"].as_str().and_then(|key| key.strip_prefix("agent:")?.split(':').next());
    let agent = params["agentId"].as_str().or(of_key).unwrap_or(MAIN);
    json!({ "agentId": agent, "name": agent })
}

/// The models of an agent: the one that it asks, and those that stand in for it.
pub(super) async fn models(operator: &Operator, params: &Value) -> Value {
    let settings = settings(operator, params["agentId"].as_str().unwrap_or(MAIN)).await;
    let candidates = settings.map(|settings| settings.candidates).unwrap_or_default();
    let mut models: Vec<Value> = vec![];
    for candidate in &candidates {
        let model = json!({
            "id": candidate.model, "name": candidate.model, "provider": candidate.provider,
            "contextWindow": candidate.context_window, "input": ["text", "image"], "available": true,
        });
        // The same model with another key is the same model.
        if !models.contains(&model) {
            models.push(model);
        }
    }
    json!({ "models": models })
}

/// The configuration as its clients read it: which agents there are. The file itself is the user's, and has other names.
pub(super) async fn config(operator: &Operator) -> Value {
    let agents = agents(operator);
    let list = agents["agents"].as_array().into_iter().flatten();
    let list: Vec<_> = list.map(|agent| json!({ "id": agent["id"], "name": agent["name"] })).collect();
    let config = json!({ "agents": { "list": list }, "session": { "mainKey": "main", "scope": "per-sender" } });
    let path = operator.app.service.home().join("config.toml");
    let reading = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || std::fs::read(path).ok())
    };
    let written = reading.await.ok().flatten();
    json!({
        "path": path.display().to_string(), "exists": written.is_some(), "raw": null,
        "parsed": config, "config": config, "runtimeConfig": config,
        "valid": true, "issues": [], "warnings": [], "legacyIssues": [],
        "hash": Hash::of(&written.unwrap_or_default()).to_string(),
    })
}

/// The commands of the chat.
pub(super) fn commands() -> Value {
    let shown = methods::chat_commands().map(|(name, about)| {
        let bare = name.trim_start_matches('/');
        json!({
            "name": bare, "nativeName": bare, "textAliases": [name], "description": about,
            "category": "session", "source": "native", "scope": "both", "acceptsArgs": true,
        })
    });
    json!({ "commands": shown.collect::<Vec<_>>() })
}

/// What the runs have used.
pub(super) async fn usage_cost(operator: &Operator) -> Result<Value, Trouble> {
    let usage = operator.client.call::<UsageGet>(UsageParams { by: UsageBy::Day, ..UsageParams::default() }).await?;
    let daily = usage.rows.iter().map(|row| {
        let mut day = totals(row);
        day["date"] = row.name.as_str().into();
        day
    });
    let daily: Vec<_> = daily.collect();
    Ok(json!({ "updatedAt": operator.now(), "days": daily.len(), "daily": daily, "totals": totals(&usage.all) }))
}

/// What each session has used.
pub(super) async fn sessions_usage(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let session_key = params["key"].as_str().map(str::to_owned);
    let params = UsageParams { by: UsageBy::Session, session_key, since: None };
    let usage = operator.client.call::<UsageGet>(params).await?;
    let sessions = usage.rows.iter().map(|row| json!({ "key": row.name, "usage": totals(row) }));
    let sessions = sessions.collect::<Vec<_>>();
    Ok(json!({ "updatedAt": operator.now(), "sessions": sessions, "totals": totals(&usage.all) }))
}

/// Tokens, and dollars.
fn totals(row: &UsageRow) -> Value {
    let mut totals = counts(&row.usage);
    totals["totalCost"] = (row.cost_micros as f64 / 1e6).into();
    totals
}

/// Tokens by kind.
pub(super) fn counts(usage: &Usage) -> Value {
    let total = usage.prompt().saturating_add(usage.output);
    json!({
        "input": usage.input, "output": usage.output, "cacheRead": usage.cached, "cacheWrite": usage.cache_written,
        "total": total, "totalTokens": total,
    })
}

/// What limulus has not: the answer is empty and true.
pub(super) fn nothing(operator: &Operator, method: &str) -> Option<Value> {
    let now = operator.now();
    Some(match method {
        "node.list" => json!({ "ts": now, "nodes": [] }),
        "node.pair.list" => json!({ "pending": [], "paired": [] }),
        "channels.status" => json!({
            "ts": now, "channelOrder": [], "channelLabels": {}, "channels": {}, "channelAccounts": {},
            "channelDefaultAccountId": {},
        }),
        "cron.list" => json!({ "jobs": [], "total": 0, "hasMore": false }),
        "cron.runs" => json!({ "entries": [] }),
        "cron.status" => json!({ "enabled": false, "jobs": 0, "nextWakeAtMs": null }),
        "skills.status" => json!({ "skills": [] }),
        "system-presence" => json!([]),
        "last-heartbeat" => Value::Null,
        "taskSuggestions.list" => json!({ "suggestions": [] }),
        "tts.status" => json!({ "enabled": false, "providers": [] }),
        "tts.providers" => json!({ "providers": [], "active": null }),
        "usage.status" => json!({ "updatedAt": now, "providers": [] }),
        "voicewake.get" => json!({ "triggers": [] }),
        _ => return None,
    })
}
