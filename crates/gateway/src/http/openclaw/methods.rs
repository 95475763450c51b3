//! The methods that its clients may call, each with what it needs.

use std::sync::atomic::Ordering;

use protocol::Scope;
use protocol::method::{Connect, METHODS as OWN, Method as _, OwnerHandover};
use serde_json::{Value, json};

use super::approvals::{self, Kind};
use super::connect::scope_name;
use super::trouble::Trouble;
use super::{Operator, devices, history, runs, server, sessions};

use Scope::{Admin, Approve, Read, Write};

/// The methods of OpenClaw. Beside them, each of our own that has no namesake here may be called by its name.
const METHODS: [(&str, Scope); 57] = [
    ("health", Read),
    ("status", Read),
    ("models.list", Read),
    ("agents.list", Read),
    ("agent.identity.get", Read),
    ("commands.list", Read),
    ("config.get", Read),
    ("sessions.list", Read),
    ("sessions.describe", Read),
    ("sessions.preview", Read),
    ("sessions.resolve", Read),
    ("sessions.usage", Read),
    ("sessions.subscribe", Read),
    ("sessions.unsubscribe", Read),
    ("sessions.messages.subscribe", Read),
    ("sessions.messages.unsubscribe", Read),
    ("chat.history", Read),
    ("usage.cost", Read),
    ("usage.status", Read),
    ("question.list", Read),
    ("question.get", Read),
    ("node.list", Read),
    ("node.pair.list", Read),
    ("device.pair.list", Read),
    ("channels.status", Read),
    ("cron.list", Read),
    ("cron.runs", Read),
    ("cron.status", Read),
    ("skills.status", Read),
    ("system-presence", Read),
    ("last-heartbeat", Read),
    ("taskSuggestions.list", Read),
    ("tts.status", Read),
    ("tts.providers", Read),
    ("voicewake.get", Read),
    ("agent", Write),
    ("agent.wait", Write),
    ("chat.send", Write),
    ("chat.abort", Write),
    ("sessions.create", Write),
    ("sessions.send", Write),
    ("sessions.abort", Write),
    ("sessions.patch", Write),
    ("question.resolve", Write),
    ("exec.approval.list", Approve),
    ("exec.approval.get", Approve),
    ("exec.approval.resolve", Approve),
    ("plugin.approval.list", Approve),
    ("plugin.approval.resolve", Approve),
    ("approval.get", Approve),
    ("approval.resolve", Approve),
    ("device.pair.approve", Admin),
    ("device.pair.reject", Admin),
    ("device.pair.remove", Admin),
    ("sessions.reset", Admin),
    ("sessions.delete", Admin),
    ("sessions.compact", Admin),
];

/// Methods that wait for the end of a run, or for a client. All others hold a place until their response is sent.
const WAITING: [&str; 4] = ["agent", "agent.wait", "chat.send", "sessions.send"];

/// Characters of a name that is repeated in an error.
const NAME_CHARS: usize = 80;

/// The names of all methods.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|(name, _)| *name).chain(own().map(|(name, _)| name))
}

/// Our own methods that have no namesake there.
fn own() -> impl Iterator<Item = (&'static str, Scope)> {
    let is_ours = |name: &str| name != Connect::NAME && name != OwnerHandover::NAME;
    let is_there = |name: &str| METHODS.iter().any(|(there, _)| *there == name);
    OWN.iter().filter(move |own| is_ours(own.name) && !is_there(own.name)).map(|own| (own.name, own.scope))
}

/// Whether a request may have attachments.
pub(super) fn takes_attachments(method: &str) -> bool {
    ["agent", "chat.send", "sessions.send"].contains(&method)
}

/// Whether it may take as long as a run.
pub(super) fn waits(method: &str) -> bool {
    WAITING.contains(&method)
}

/// The result of a request; none if its response is sent already.
pub(super) async fn answer(
    operator: &Operator,
    id: &str,
    (method, params): (&str, Value),
) -> Result<Option<Value>, Trouble> {
    let known = METHODS.iter().copied().chain(own()).find(|(name, _)| *name == method);
    let Some((name, scope)) = known else {
        let name: String = method.chars().take(NAME_CHARS).collect();
        return Err(Trouble::invalid(format!("unknown method: {}", name.escape_debug())));
    };
    if !operator.of.grant.scopes.allow(scope) {
        return Err(Trouble::missing_scope(scope_name(scope)));
    }
    if !params.is_null() && !params.is_object() {
        return Err(Trouble::invalid(format!("invalid {name} params: they are an object")));
    }
    let params = if ["sessions.send", "sessions.abort"].contains(&name) { with_session_key(params) } else { params };
    if ["chat.send", "sessions.send"].contains(&name) {
        return runs::send(operator, id, &params).await.map(|()| None);
    }
    let of_service = async {
        Ok(Some(match name {
            "health" => server::full_health(operator).await?,
            "status" => server::status(operator).await?,
            "models.list" => server::models(operator, &params).await,
            "agents.list" => server::agents(operator),
            "agent.identity.get" => server::identity(&params),
            "commands.list" => server::commands(),
            "config.get" => server::config(operator).await,
            "usage.cost" => server::usage_cost(operator).await?,
            "agent" => runs::agent(operator, id, &params).await?,
            "agent.wait" => runs::wait(operator, &params).await?,
            "chat.abort" => runs::abort(operator, &params).await?,
            "chat.history" => history::history(operator, &params).await?,
            "exec.approval.list" => approvals::list(operator, Kind::Command).await?,
            "exec.approval.get" => approvals::get(operator, Kind::Command, &params).await?,
            "plugin.approval.list" => approvals::list(operator, Kind::Plugin).await?,
            "approval.get" => approvals::get(operator, Kind::of(operator), &params).await?,
            "exec.approval.resolve" | "plugin.approval.resolve" | "approval.resolve" => {
                approvals::resolve(operator, &params).await?
            }
            "device.pair.list" => devices::list(operator).await?,
            "device.pair.approve" => devices::approve(operator, &params).await?,
            "device.pair.reject" => devices::revoke(operator, &params, "requestId").await?,
            "device.pair.remove" => devices::revoke(operator, &params, "deviceId").await?,
            "question.list" => approvals::questions(operator).await?,
            "question.get" => approvals::question(operator, &params).await?,
            "question.resolve" => approvals::answer_question(operator, &params).await?,
            _ => return Ok::<_, Trouble>(None),
        }))
    };
    if let Some(result) = of_service.await? {
        return Ok(Some(result));
    }
    if let Some(result) = of_sessions(operator, name, &params).await? {
        return Ok(Some(result));
    }
    match server::nothing(operator, name) {
        Some(nothing) => Ok(Some(nothing)),
        // Its lines are events of their own.
        None => Ok(Some(operator.client.request(name, params).await?)),
    }
}

async fn of_sessions(operator: &Operator, method: &str, params: &Value) -> Result<Option<Value>, Trouble> {
    let follow = |follows: bool| {
        operator.follows_sessions.store(follows, Ordering::Relaxed);
        json!({ "subscribed": follows })
    };
    Ok(Some(match method {
        "sessions.list" => sessions::list(operator, params).await?,
        "sessions.describe" => sessions::describe(operator, params).await?,
        "sessions.preview" => history::preview(operator, params).await?,
        "sessions.resolve" => sessions::resolve(operator, params).await?,
        "sessions.usage" => server::sessions_usage(operator, params).await?,
        "sessions.subscribe" => follow(true),
        "sessions.unsubscribe" => follow(false),
        // Every client receives the answers of all sessions.
        "sessions.messages.subscribe" => json!({ "subscribed": true, "key": params["key"] }),
        "sessions.messages.unsubscribe" => json!({ "subscribed": false, "key": params["key"] }),
        "sessions.create" => sessions::create(operator, params).await?,
        "sessions.abort" => runs::abort(operator, params).await?,
        "sessions.patch" => sessions::patch(operator, params).await?,
        "sessions.reset" => sessions::reset(operator, params).await?,
        "sessions.delete" => sessions::delete(operator, params).await?,
        "sessions.compact" => sessions::compact(operator, params).await?,
        _ => return Ok(None),
    }))
}

/// Methods on sessions call `key` what methods of the chat call `sessionKey`.
fn with_session_key(mut params: Value) -> Value {
    if params["sessionKey"].is_null() {
        params["sessionKey"] = params["key"].clone();
    }
    if params["idempotencyKey"].is_null() {
        params["idempotencyKey"] = uuid::Uuid::now_v7().to_string().into();
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R60: a method is named once, and our own have the scope that they have everywhere.
    #[test]
    fn r60_each_method_is_there_once() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        for ours in ["runs.list", "queue.clear", "receipts.get", "approvals.resolve", "budget.set", "runs.undo"] {
            assert!(all.contains(&ours), "{ours}");
        }
        for never in [Connect::NAME, OwnerHandover::NAME] {
            assert!(!all.contains(&never), "{never}");
        }
        let scope = |name: &str| own().find(|(own, _)| *own == name).map(|(_, scope)| scope);
        assert_eq!((scope("runs.list"), scope("budget.set")), (Some(Read), Some(Admin)));
        assert_eq!(scope("sessions.list"), None, "that is its namesake");
    }
}
