//! `chat.history` and `sessions.preview`: what was said in a session.

use protocol::method::{SessionParams, SessionsShow};
use protocol::show::{ItemStory, Role, Shown};
use protocol::{ClientError, ErrorCode};
use serde_json::{Value, json};

use super::trouble::Trouble;
use super::{Operator, server, sessions};

/// Messages that are returned without and with a limit.
const USUAL: u64 = 200;
const MOST: u64 = 1_000;
/// Characters of a text; a longer one is cut.
const TEXT_CHARS: usize = 12_000;
/// Bytes of all messages; the oldest are left out.
const ALL_BYTES: usize = 6 << 20;
/// Sessions of one preview, and how much of each.
const PREVIEWS: usize = 64;
const PREVIEW_ITEMS: u64 = 12;
const PREVIEW_CHARS: u64 = 240;

/// The session with this key, with its last items; none if there is no such session yet.
pub(super) async fn session(operator: &Operator, key: &str, limit: u64) -> Result<Option<Shown>, Trouble> {
    let limit = usize::try_from(limit).ok();
    let params = SessionParams { session_key: Some(key.to_owned()), limit, whole: false };
    match operator.client.call::<SessionsShow>(params).await {
        Ok(shown) => Ok(Some(shown)),
        Err(ClientError::Answered(error)) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn history(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let key = sessions::key(params, "sessionKey")?;
    let limit = params["limit"].as_u64().unwrap_or(USUAL).clamp(1, MOST);
    let shown = session(operator, &key, limit).await?;
    let agent = sessions::agent_of(&key);
    let mut history = json!({
        "sessionKey": key, "messages": [], "hasMore": false, "pendingInputs": { "items": [], "total": 0 },
        "defaults": server::defaults(operator, agent).await,
    });
    let Some(shown) = shown else { return Ok(history) };
    let items = shown.transcript.as_deref().unwrap_or_default();
    let mut messages: Vec<Value> = items.iter().filter_map(message).collect();
    let mut bytes = 0;
    let kept = messages.iter().rev().take_while(|message| {
        bytes += message.to_string().len();
        bytes <= ALL_BYTES
    });
    let left_out = messages.len() - kept.count();
    messages.drain(..left_out);
    history["hasMore"] = (left_out > 0 || items.len() as u64 >= limit).into();
    history["messages"] = messages.into();
    history["sessionId"] = shown.session.to_string().into();
    history["sessionInfo"] = sessions::row(&shown);
    Ok(history)
}

/// A message as its clients show it; none if limulus said it to the model alone.
fn message(item: &ItemStory) -> Option<Value> {
    let text = (!item.text.is_empty()).then(|| json!({ "type": "text", "text": cut(&item.text) }));
    let files = item.attachments.iter().map(|file| {
        json!({ "type": "text", "text": format!("[{} ({}, {} bytes)]", file.name, file.media_type, file.bytes) })
    });
    let mut content: Vec<Value> = text.into_iter().chain(files).collect();
    let mut message = match item.role {
        Role::Note => return None,
        Role::User => json!({ "role": "user" }),
        Role::Summary => json!({ "role": "system" }),
        Role::Assistant => {
            content.extend(item.calls.iter().map(|call| {
                let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
                json!({ "type": "toolCall", "id": call.id, "name": call.tool, "arguments": arguments })
            }));
            json!({ "role": "assistant" })
        }
        Role::Tool => json!({ "role": "toolResult", "toolCallId": item.call, "isError": item.is_error }),
    };
    message["content"] = content.into();
    if let Some(seq) = item.seq {
        message["__openclaw"] = json!({ "id": seq.0.to_string(), "seq": seq.0 });
    }
    Some(message)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((at, _)) => format!("{}\n...(truncated)...", &text[..at]),
        None => text.to_owned(),
    }
}

pub(super) async fn preview(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let keys = params["keys"].as_array().filter(|keys| keys.len() <= PREVIEWS);
    let keys = keys.ok_or_else(|| Trouble::invalid(format!("`keys` is a list of at most {PREVIEWS} sessions")))?;
    let limit = params["limit"].as_u64().unwrap_or(PREVIEW_ITEMS).clamp(1, MOST);
    let chars = params["maxChars"].as_u64().unwrap_or(PREVIEW_CHARS).clamp(1, TEXT_CHARS as u64) as usize;
    let mut previews = vec![];
    for key in keys.iter().filter_map(Value::as_str) {
        let shown = session(operator, key, limit).await;
        let items = shown.as_ref().ok().and_then(|shown| shown.as_ref()?.transcript.as_deref());
        let items: Vec<Value> = items.unwrap_or_default().iter().filter_map(|item| previewed(item, chars)).collect();
        let status = match &shown {
            Err(_) => "error",
            Ok(None) => "missing",
            Ok(Some(_)) if items.is_empty() => "empty",
            Ok(Some(_)) => "ok",
        };
        previews.push(json!({ "key": key, "status": status, "items": items }));
    }
    Ok(json!({ "ts": operator.now(), "previews": previews }))
}

fn previewed(item: &ItemStory, chars: usize) -> Option<Value> {
    let role = match item.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::Summary => "system",
        Role::Note => return None,
    };
    let text: String = item.text.trim().chars().take(chars).collect();
    (!text.is_empty()).then(|| json!({ "role": role, "text": text }))
}
