//! `POST /v1/chat/completions`: the last message of a conversation goes to the agent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use engine::{StopReason, Usage};
use protocol::Scope;
use protocol::method::Ended;
use serde_json::{Value, json};

use super::conversation::{ChatRequest, Named};
use super::{Begun, Piece, begin, now, session, with_run};
use crate::http::api::idempotency_key;
use crate::http::events::{Gone, ToClient, response};
use crate::http::gate::Caller;
use crate::http::problem::Problem;
use crate::http::{App, parsed};

/// Answers a conversation.
pub(in crate::http) async fn chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    caller.must(Scope::Write)?;
    let request: ChatRequest =
        parsed(body).await.map_err(|error| Problem::invalid(format!("the body is no request: {error}")))?;
    let key = idempotency_key(&headers)?;
    let completion = |id: String| Completion { id, model: request.agent().to_owned(), created: now(&app) };
    let named = Named { session: session(&headers)?, key: &key };
    let started = match begin((&app, &caller), &request, named).await? {
        Begun::Run(started) => started,
        Begun::Command(text) => return Ok(completion(key.clone()).whole(&request, text)),
    };
    let (run, completion) = (started.run, completion(format!("chatcmpl-{}", started.run)));
    if !request.is_streamed() {
        let Ended { text, usage, stop_reason, .. } = started.end().await?;
        return Ok(with_run(Json(completion.object(&text, &usage, stop_reason)).into_response(), run));
    }
    let (mut to, response) = response();
    let mut reader = started.read().await?;
    let wants_usage = request.wants_usage();
    tokio::spawn(async move {
        let mut said = Said { completion, began: false };
        // A client that is gone reads nothing more; the run goes on.
        while let Ok(piece) = reader.next(&mut to).await {
            let sent = match piece {
                Piece::Text(text) => said.say(&mut to, &text).await,
                Piece::End(end) => return said.end(&mut to, (&end.usage, end.stop_reason), wants_usage).await,
                Piece::Failed(problem) => return to.data(&problem.body().to_string()).await,
            };
            sent?;
        }
        Ok(())
    });
    Ok(with_run(response, run))
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
        if !request.is_streamed() {
            return Json(self.object(&text, &usage, None)).into_response();
        }
        let (mut to, response) = response();
        let wants_usage = request.wants_usage();
        tokio::spawn(async move {
            let mut said = Said { completion: self, began: false };
            // A client that is gone reads nothing more.
            if said.say(&mut to, &text).await.is_ok() {
                let _ = said.end(&mut to, (&usage, None), wants_usage).await;
            }
        });
        response
    }
}

/// What a client was sent of a response.
struct Said {
    completion: Completion,
    began: bool,
}

impl Said {
    async fn say(&mut self, to: &mut ToClient, text: &str) -> Result<(), Gone> {
        if !std::mem::replace(&mut self.began, true) {
            let first = self.completion.chunk(&json!({ "role": "assistant", "content": "" }), None);
            to.data(&first.to_string()).await?;
        }
        to.data(&self.completion.chunk(&json!({ "content": text }), None).to_string()).await
    }

    async fn end(
        &self,
        to: &mut ToClient,
        (usage, stop): (&Usage, Option<StopReason>),
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
