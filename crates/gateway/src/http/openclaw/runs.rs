//! `agent`, `agent.wait`, `chat.send` and `chat.abort`: messages and their runs.

use engine::{Address, Outcome, ReasoningMode, RunId, Thinking};
use protocol::Answers;
use protocol::method::{
    AbortParams, Agent, AgentAnswer, AgentParams, AgentWait, Attachment, Ended, ReceiptParams, ReceiptsGet, RunsAbort,
    WaitParams, WaitStatus,
};
use protocol::show::Payload;
use protocol::{ClientError, ErrorCode};
use serde_json::{Value, json};

use super::trouble::{INVALID, Trouble, UNAVAILABLE};
use super::{Operator, run_names, server, sessions};

/// How long `agent.wait` waits, milliseconds.
const WAIT_MS: u64 = 30_000;
/// Seconds of the longest time limit.
const SECONDS: u64 = 365 * 24 * 3_600;

/// The message of a request: `agent` has its settings under these names.
async fn message(operator: &Operator, params: &Value, text: String) -> Result<AgentParams, Trouble> {
    let named = |name: &str| params[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let agent = named("agentId");
    let session_key = match (named("sessionKey"), named("sessionId"), named("to")) {
        (Some(key), ..) => sessions::whole_key(key, agent)?,
        (None, Some(id), _) => match sessions::key_of_id(operator, id).await? {
            Some(key) => key,
            None => sessions::whole_key(id, Some(agent.unwrap_or(server::MAIN)))?,
        },
        (None, None, _) => sessions::whole_key("main", Some(agent.unwrap_or(server::MAIN)))?,
    };
    let idempotency_key = named("idempotencyKey").map(str::to_owned);
    let idempotency_key =
        idempotency_key.ok_or_else(|| Trouble::invalid("`idempotencyKey` is missing: one for each message"))?;
    let deliver = params["deliver"] == true;
    let channel = ["replyChannel", "channel"].into_iter().find_map(named).filter(|name| *name != "last");
    let peer = named("replyTo").map(str::to_owned);
    let reply_to = channel.map(|channel| Address { channel: channel.to_owned(), peer, ..Address::default() });
    let both = [named("extraSystemPrompt"), named("appendSystem")];
    let append_system = both.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let timeout_ms = match (params["timeout"].as_u64(), params["timeoutMs"].as_u64()) {
        (Some(seconds), _) => Some(seconds.min(SECONDS) * 1_000),
        (None, ms) => ms,
    };
    let only_if = params.get("onlyIf").filter(|only_if| !only_if.is_null()).cloned();
    let only_if = only_if.map(serde_json::from_value).transpose();
    Ok(AgentParams {
        message: text,
        session_key,
        idempotency_key,
        model: named("model").map(str::to_owned),
        // 0 is none.
        timeout_ms: timeout_ms.filter(|ms| *ms > 0),
        thinking: thinking(named("thinking"))?,
        append_system: (!append_system.is_empty()).then_some(append_system),
        system: named("system").map(str::to_owned),
        reply_to: reply_to.filter(|_| deliver).map(Box::new),
        deliver,
        verbose: named("verbose").map(|verbose| verbose != "off"),
        reasoning: reasoning(named("reasoning"))?,
        only_if: only_if.map_err(|error| Trouble::invalid(format!("`onlyIf`: {error}")))?,
        attachments: attachments(&params["attachments"])?,
        ..AgentParams::default()
    })
}

/// What the reply has of the reasoning, by its name there.
fn reasoning(name: Option<&str>) -> Result<Option<ReasoningMode>, Trouble> {
    match name {
        None => Ok(None),
        Some("off") => Ok(Some(ReasoningMode::Off)),
        Some("on" | "block") => Ok(Some(ReasoningMode::Block)),
        Some("stream") => Ok(Some(ReasoningMode::Stream)),
        Some(name) => Err(Trouble::invalid(format!("the reasoning level `{}` is unknown", name.escape_debug()))),
    }
}

/// A thinking level by its name there.
fn thinking(name: Option<&str>) -> Result<Option<Thinking>, Trouble> {
    let level = match name {
        None | Some("adaptive" | "default") => return Ok(None),
        Some("max" | "ultra") => "xhigh",
        Some(level) => level,
    };
    let unknown = |_| Trouble::invalid(format!("the thinking level `{}` is unknown", level.escape_debug()));
    serde_json::from_value(level.into()).map(Some).map_err(unknown)
}

/// The text of a message.
fn text(params: &Value) -> Result<String, Trouble> {
    let text = params["message"].as_str().unwrap_or_default();
    let has_attachments = params["attachments"].as_array().is_some_and(|list| !list.is_empty());
    if text.contains('\0') {
        return Err(Trouble::invalid("`message` has a NUL character"));
    }
    let is_shown = |c: &char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    let text: String = text.chars().filter(is_shown).collect();
    match (text.trim().is_empty(), has_attachments) {
        (true, false) => Err(Trouble::invalid("message or attachment required")),
        (true, true) => Ok("(an attachment)".to_owned()),
        (false, _) => Ok(text),
    }
}

fn attachments(list: &Value) -> Result<Vec<Attachment>, Trouble> {
    let mut files = vec![];
    for (at, file) in list.as_array().into_iter().flatten().enumerate() {
        let content = ["content", "data"].iter().find_map(|name| file[*name].as_str());
        let content = content.ok_or_else(|| Trouble::invalid(format!("attachments[{at}] has no content in base64")))?;
        let content = content.split_once(";base64,").map_or(content, |(_, content)| content);
        let kind = file["mimeType"].as_str().and_then(|kind| kind.split_once('/')).map_or("bin", |(_, kind)| kind);
        let name = ["fileName", "name"].iter().find_map(|name| file[*name].as_str());
        let name = name.map_or_else(|| format!("attachment-{}.{kind}", at + 1), str::to_owned);
        files.push(Attachment { name, content: content.to_owned() });
    }
    Ok(files)
}

/// `agent`: the response that the message is accepted is sent here; the end of the run is the result.
pub(super) async fn agent(operator: &Operator, id: &str, params: &Value) -> Result<Value, Trouble> {
    let message = message(operator, params, text(params)?).await?;
    let (key, session) = (message.idempotency_key.clone(), message.session_key.clone());
    let pending = operator.unanswered.add(&key);
    let (run, mut answers) = match begin(operator, message).await? {
        Begun::Run(run, answers) => (run, answers),
        Begun::Command(text) => return Ok(completed(&key, &[text], &json!({ "durationMs": 0 }))),
    };
    let name = operator.runs.of(&operator.client, run).await;
    let accepted = json!({
        "runId": name, "sessionKey": session, "agentId": sessions::agent_of(&session),
        "status": "accepted", "acceptedAt": operator.now(),
    });
    operator.respond(id, &Ok(accepted)).await;
    operator.until_read().await;
    drop(pending);
    let ended = match answers.next().await? {
        AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => ended,
        AgentAnswer::Accepted { .. } | AgentAnswer::Command { .. } => {
            return Err(Trouble::new(UNAVAILABLE, "the run was accepted twice"));
        }
    };
    if ended.outcome == Outcome::Completed {
        return Ok(completed(&name, &payloads(&ended), &meta(&ended)));
    }
    let summary = ended.error.clone().unwrap_or_else(|| format!("the run was {}", ended.outcome.name()));
    let payload = json!({ "runId": name, "status": "error", "summary": summary });
    Err(Trouble::new(UNAVAILABLE, summary).with_payload(payload))
}

/// What became of a message.
enum Begun {
    Run(RunId, Answers<Agent>),
    Command(String),
}

async fn begin(operator: &Operator, message: AgentParams) -> Result<Begun, Trouble> {
    let key = message.idempotency_key.clone();
    let mut answers = operator.client.ask::<Agent>(message)?;
    Ok(match answers.next().await? {
        AgentAnswer::Accepted { run_id, message, .. } => {
            if RunId::from(message) == run_id {
                operator.runs.learn(run_id, &key);
            }
            Begun::Run(run_id, answers)
        }
        AgentAnswer::Command { text } => Begun::Command(text),
        AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => {
            Begun::Run(ended.run_id, answers)
        }
    })
}

fn completed(run: &str, texts: &[String], meta: &Value) -> Value {
    let payloads: Vec<_> = texts.iter().map(|text| json!({ "text": text, "mediaUrl": null })).collect();
    json!({ "runId": run, "status": "ok", "summary": "completed", "result": { "payloads": payloads, "meta": meta } })
}

/// The texts of a reply, in order.
fn payloads(ended: &Ended) -> Vec<String> {
    let Some(reply) = &ended.reply else { return vec![ended.text.clone()] };
    let text = |payload: &Payload| match payload {
        Payload::Text { place: Some(_), .. } => Some(ended.text.clone()),
        Payload::Text { text, .. }
        | Payload::Reasoning { text }
        | Payload::ToolSummary { text }
        | Payload::Error { text } => Some(text.clone()),
        Payload::Media { .. } => None,
    };
    reply.payloads.iter().filter_map(text).collect()
}

fn meta(ended: &Ended) -> Value {
    let duration = ended.ended_at.since(ended.started_at);
    let reply = ended.reply.as_ref().map(|reply| &reply.meta);
    json!({
        "durationMs": duration,
        "agentMeta": {
            "sessionId": reply.map(|meta| meta.session.to_string()),
            "provider": reply.and_then(|meta| meta.provider.clone()),
            "model": reply.and_then(|meta| meta.model.clone()),
            "usage": server::counts(&ended.usage),
            "costUsd": reply.map(|meta| meta.cost as f64 / 1e6),
        },
        "aborted": false,
        "stopReason": if ended.stop_reason.is_some() { "length" } else { "stop" },
    })
}

/// `chat.send`: its response is sent here, and the answer comes in `chat` events behind it.
pub(super) async fn send(operator: &Operator, id: &str, params: &Value) -> Result<(), Trouble> {
    let text = text(params)?;
    sessions::key(params, "sessionKey")?;
    let message = message(operator, params, text).await?;
    let (key, session) = (message.idempotency_key.clone(), message.session_key.clone());
    if message.message.trim().eq_ignore_ascii_case("/stop") {
        operator.respond(id, &Ok(stop(operator, &session).await?)).await;
        return Ok(());
    }
    if let Some(known) = known(operator, &key, &session).await {
        operator.respond(id, &Ok(known)).await;
        return Ok(());
    }
    let pending = operator.unanswered.add(&key);
    let begun = begin(operator, message).await?;
    let name = match &begun {
        Begun::Run(run, _) => operator.runs.of(&operator.client, *run).await,
        Begun::Command(_) => key,
    };
    operator.respond(id, &Ok(json!({ "runId": name, "status": "started" }))).await;
    operator.until_read().await;
    drop(pending);
    if let Begun::Command(text) = begun {
        let content = json!([{ "type": "text", "text": text }]);
        let payload = json!({
            "runId": name, "sessionKey": session, "agentId": sessions::agent_of(&session), "seq": 0, "state": "final",
            "message": { "role": "assistant", "content": content, "timestamp": operator.now() },
        });
        operator.event("chat", payload).await;
    }
    Ok(())
}

/// What became of a message that was sent before.
async fn known(operator: &Operator, key: &str, session: &str) -> Option<Value> {
    let known = ReceiptParams { key: Some(key.to_owned()), session: Some(session.to_owned()), id: None };
    let receipt = operator.client.call::<ReceiptsGet>(known).await.ok()?;
    let name = operator.runs.of(&operator.client, receipt.run).await;
    Some(match receipt.outcome {
        None => json!({ "runId": name, "status": "in_flight" }),
        Some(Outcome::Completed) => json!({ "runId": name, "status": "ok" }),
        Some(_) => json!({ "runId": name, "status": "error", "summary": receipt.error }),
    })
}

/// `chat.abort`: the run of this name, or all of the session.
pub(super) async fn abort(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let session = sessions::key(params, "sessionKey")?;
    let Some(name) = params["runId"].as_str() else { return stop(operator, &session).await };
    let Some(run) = run_names::find(&operator.client, name, Some(&session)).await? else {
        return Ok(json!({ "ok": true, "aborted": false, "runIds": [] }));
    };
    let of_run = AbortParams { run: Some(run.to_string()), ..AbortParams::default() };
    match operator.client.call::<RunsAbort>(of_run).await {
        Ok(_) => Ok(json!({ "ok": true, "aborted": true, "runIds": [name] })),
        Err(ClientError::Answered(error)) if error.code == ErrorCode::NotFound => {
            Ok(json!({ "ok": true, "aborted": false, "runIds": [] }))
        }
        Err(error) => Err(error.into()),
    }
}

async fn stop(operator: &Operator, session: &str) -> Result<Value, Trouble> {
    let mut names = vec![];
    for run in sessions::abort(operator, session).await? {
        names.push(operator.runs.of(&operator.client, run).await);
    }
    Ok(json!({ "ok": true, "aborted": !names.is_empty(), "runIds": names }))
}

/// `agent.wait`: how a run ended, or that it has not.
pub(super) async fn wait(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let name = params["runId"].as_str().ok_or_else(|| Trouble::invalid("`runId` is missing"))?;
    let run = run_names::find(&operator.client, name, None).await?;
    let run_id = run.ok_or_else(|| Trouble::new(INVALID, "no run has this id, and no message this key"))?;
    let timeout_ms = params["timeoutMs"].as_u64().unwrap_or(WAIT_MS);
    let waited = operator.client.call::<AgentWait>(WaitParams { run_id, timeout_ms }).await?;
    let status = match waited.status {
        WaitStatus::Ok => "ok",
        WaitStatus::Error => "error",
        WaitStatus::Timeout => "timeout",
    };
    let mut answer = json!({ "runId": name, "status": status });
    let times = [("startedAt", waited.started_at), ("endedAt", waited.ended_at)];
    for (name, at) in times.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        answer[name] = at.0.into();
    }
    if let Some(error) = waited.error {
        answer["error"] = error.into();
    }
    Ok(answer)
}
