//! What goes out of sessions: replies, blocks and messages, as JSON to a webhook or a file. One try each; the engine decides about
//! the next one.

mod file;
mod webhook;

use engine::DeliveryFault;
use journal::Journal;
use runtime::{Deliver, DeliveryFuture, DeliveryRequest, DeliveryTrouble, RouteTarget};
use serde_json::{Value, json};

/// Sends to webhooks and files.
pub(crate) struct Routes {
    webhooks: webhook::Client,
}

impl Routes {
    /// Routes of this version of the program.
    pub(crate) fn new(version: &str) -> Self {
        Self { webhooks: webhook::Client::new(version) }
    }
}

impl Deliver for Routes {
    fn deliver(&self, request: DeliveryRequest) -> DeliveryFuture {
        let webhooks = self.webhooks.clone();
        Box::pin(async move {
            let (target, may_be_there) = (request.target.clone(), request.may_be_there);
            let id = request.effect.delivery_name();
            let composing = tokio::task::spawn_blocking(move || composed(&request)).await;
            let composed = composing.unwrap_or_else(|error| Err(refused(format!("it cannot be composed: {error}"))))?;
            let Some(content) = composed else { return Ok(()) };
            match target {
                RouteTarget::Webhook { url, secret, body } => {
                    let body = match body {
                        None => content.to_string(),
                        Some(template) => rendered(template, content).await?,
                    };
                    webhooks.send(&url, secret.as_ref(), &id, body).await
                }
                RouteTarget::File { path } => {
                    let line = content.to_string();
                    let writing = tokio::task::spawn_blocking(move || file::append(&path, &id, &line, may_be_there));
                    writing.await.unwrap_or_else(|error| Err(unknown(format!("the file was not written: {error}"))))
                }
            }
        })
    }
}

async fn rendered(template: runtime::BodyTemplate, content: Value) -> Result<String, DeliveryTrouble> {
    let rendering = tokio::task::spawn_blocking(move || template.render(&content)).await;
    rendering.unwrap_or_else(|error| Err(error.to_string())).map_err(|why| refused(format!("its body: {why}")))
}

/// What is sent; none if there is nothing to say.
fn composed(request: &DeliveryRequest) -> Result<Option<Value>, DeliveryTrouble> {
    let run = request.effect.run;
    let mut content = json!({
        "id": request.effect.delivery_name(),
        "type": request.kind.name(),
        "created_at": request.wanted_at.0,
        "session": request.key,
        "session_id": request.session.to_string(),
        "run_id": run.to_string(),
        "to": request.to,
    });
    if let Some(text) = &request.text {
        content["text"] = (**text).into();
        return Ok(Some(content));
    }
    let Some((reply, text)) = reply(&*request.journal, request)? else { return Ok(None) };
    content["text"] = text.into();
    content["payloads"] = reply["payloads"].clone();
    content["meta"] = reply["meta"].clone();
    Ok(Some(content))
}

/// The reply of the run, and its text.
fn reply(journal: &dyn Journal, request: &DeliveryRequest) -> Result<Option<(Value, String)>, DeliveryTrouble> {
    let unread = |error: String| refused(format!("the reply cannot be read: {error}"));
    let row = journal.run(request.effect.run).map_err(|error| unread(error.to_string()))?;
    let row = row.ok_or_else(|| unread("its run is not in the journal".to_owned()))?;
    let texts = views::texts(journal);
    let found =
        views::reply::reply_to(journal, &row, &request.to, &texts).map_err(|error| unread(error.to_string()))?;
    let found = found.ok_or_else(|| unread("the end of its run was removed".to_owned()))?;
    if found.reply.payloads.is_empty() && !found.in_blocks {
        return Ok(None);
    }
    let text = found.reply.text();
    let shown = serde_json::to_value(&found.reply).map_err(|error| unread(error.to_string()))?;
    Ok(Some((shown, text)))
}

fn refused(why: String) -> DeliveryTrouble {
    DeliveryTrouble { why, fault: DeliveryFault::Refused }
}

fn temporary(why: String) -> DeliveryTrouble {
    DeliveryTrouble { why, fault: DeliveryFault::Temporary { after_ms: None } }
}

fn unknown(why: String) -> DeliveryTrouble {
    DeliveryTrouble { why, fault: DeliveryFault::Unknown }
}
