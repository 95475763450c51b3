//! One request and its answer: sends, reads, decodes and ends it. Dropping it closes the connection, which cancels the
//! request.

use engine::{Failure, FailureClass};
use reqwest::{Response, header};
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{Clients, broken};
use super::lines::LineReader;
use super::sse::SseReader;
use super::{Decode, Format, Frame, Framing, TooLong};
use crate::classify::ErrorBody;
use crate::fault::{Fault, Subject};
use crate::limits::{BODY_BYTES, DRAIN, EVENT_BYTES, TAIL};
use crate::login::Logins;
use crate::model::{ModelEvent, Request};

/// ```text
/// Ready ──sent──▶ Reading ──end mark──▶ Draining ──end of the body──▶ Closing ──▶ Over
///   └───────────────┴──fault, end of the body──▶ Closing (events before the fault are sent first)
/// ```
enum Stage {
    Ready(Vec<u8>),
    Reading(Box<Reading>),
    Draining(Box<Reading>),
    Closing(Result<ModelEvent, Fault>),
    Over,
}

impl Stage {
    fn reading(response: Response, framing: Framing) -> Self {
        let reader = match framing {
            Framing::Events => Reader::Events(SseReader::default()),
            Framing::Lines => Reader::Lines(LineReader::default()),
        };
        let reading = Reading { response, reader, head: Vec::new(), patience: None };
        Self::Reading(Box::new(reading))
    }
}

struct Reading {
    response: Response,
    reader: Reader,
    /// The beginning of the body until its first event, to describe a body without events.
    head: Vec<u8>,
    /// When to stop waiting for frames after the finish reason.
    patience: Option<Instant>,
}

/// Splits the body into frames.
enum Reader {
    Events(SseReader),
    Lines(LineReader),
}

impl Reader {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Events(reader) => reader.push(bytes),
            Self::Lines(reader) => reader.push(bytes),
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        match self {
            Self::Events(reader) => reader.next_frame(),
            Self::Lines(reader) => reader.next_frame(),
        }
    }

    fn last_frame(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::Events(reader) => reader.last_frame(),
            Self::Lines(reader) => reader.last_frame(),
        }
    }
}

pub(super) struct Exchange {
    clients: Clients,
    logins: Logins,
    format: &'static dyn Format,
    subject: Subject,
    request_bytes: usize,
    /// Whether an answer without content is whole ([`Request::continues`]).
    may_be_empty: bool,
    decoder: Box<dyn Decode>,
    stage: Stage,
}

impl Exchange {
    pub(super) fn new(clients: Clients, logins: Logins, format: &'static dyn Format, request: Request) -> Self {
        let body = format.body(&request);
        Self {
            clients,
            logins,
            format,
            request_bytes: body.len(),
            may_be_empty: request.continues,
            decoder: format.decoder(&request),
            subject: Subject::new(request.candidate, request.endpoint),
            stage: Stage::Ready(body),
        }
    }

    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        loop {
            if let Some(event) = self.decoder.answer().next_event() {
                return Some(Ok(event));
            }
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Ready(body) => match self.send(body).await {
                    Ok(response) => Stage::reading(response, self.format.framing()),
                    Err(fault) => Stage::Closing(Err(fault)),
                },
                Stage::Reading(reading) => self.read(reading).await.unwrap_or_else(|fault| Stage::Closing(Err(fault))),
                Stage::Draining(mut reading) => {
                    drain(&mut reading.response).await;
                    self.end()
                }
                Stage::Closing(Ok(event)) => return Some(Ok(event)),
                Stage::Closing(Err(fault)) => {
                    self.logins.observe(self.subject.endpoint(), fault.class);
                    return Some(Err(self.subject.failure(fault)));
                }
                Stage::Over => return None,
            };
        }
    }

    async fn send(&mut self, body: Vec<u8>) -> Result<Response, Fault> {
        if let Some(login) = &self.subject.endpoint().login {
            let token = self.logins.token(login).await?;
            self.subject.set_key(token);
        }
        self.clients.send(self.format, &self.subject, body).await
    }

    /// Reads the next bytes.
    async fn read(&mut self, mut reading: Box<Reading>) -> Result<Stage, Fault> {
        let chunk = reading.response.chunk();
        let chunk = match reading.patience {
            Some(until) => timeout_at(until, chunk).await.unwrap_or(Ok(None)),
            None => chunk.await,
        };
        match chunk {
            Ok(Some(bytes)) => {
                self.decode(&mut reading, &bytes)?;
                if self.decoder.answer().is_done() {
                    return Ok(Stage::Draining(reading));
                }
                if self.decoder.answer().is_finished() && reading.patience.is_none() {
                    reading.patience = Some(Instant::now() + TAIL);
                }
                Ok(Stage::Reading(reading))
            }
            Ok(None) => self.end_of_body(&mut reading),
            // The data before the break may be a complete answer, or contain the error.
            Err(error) => self.end_of_body(&mut reading).map_err(|fault| match fault.class {
                FailureClass::Network => broken(&error),
                _ => fault,
            }),
        }
    }

    fn decode(&mut self, reading: &mut Reading, bytes: &[u8]) -> Result<(), Fault> {
        if self.decoder.answer().is_untouched() && reading.head.len() < BODY_BYTES {
            reading.head.extend_from_slice(&bytes[..bytes.len().min(BODY_BYTES - reading.head.len())]);
        }
        reading.reader.push(bytes);
        while let Some(frame) =
            reading.reader.next_frame().map_err(|_: TooLong| too_long(reading_head(&reading.head)))?
        {
            self.decoder.take(&frame)?;
        }
        if !self.decoder.answer().is_untouched() {
            reading.head = Vec::new();
        }
        Ok(())
    }

    fn end_of_body(&mut self, reading: &mut Reading) -> Result<Stage, Fault> {
        if let Some(frame) = reading.reader.last_frame() {
            let is_begun = frame.data.starts_with(b"{");
            if let Err(fault) = self.decoder.take(&frame) {
                // An unterminated frame that cannot be parsed was truncated, if it begins like a frame.
                let is_cut = fault.class == FailureClass::Malformed && !self.decoder.answer().is_finished();
                return Err(if is_cut && is_begun { Fault::interrupted() } else { fault });
            }
        }
        if self.decoder.answer().is_untouched() {
            let content_type = reading.response.headers().get(header::CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
            return Err(not_a_stream(&reading.head, content_type));
        }
        Ok(self.end())
    }

    fn end(&mut self) -> Stage {
        let end = self.decoder.end(self.request_bytes);
        let answer = self.decoder.answer();
        let end = if self.may_be_empty && answer.is_empty() { Ok(answer.counted(self.request_bytes)) } else { end };
        let (is_counted, stop_reason) = (answer.is_counted(), answer.stop_reason());
        Stage::Closing(end.map(|usage| ModelEvent::Ended { usage, is_counted, stop_reason }))
    }
}

/// Waits a moment for the end of the body: only then can the connection serve the next request.
async fn drain(response: &mut Response) {
    let _ = timeout(DRAIN, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
}

fn reading_head(head: &[u8]) -> String {
    String::from_utf8_lossy(&head[..head.len().min(80)]).into_owned()
}

fn too_long(begins: String) -> Fault {
    let what = format!("sent a line of more than {EVENT_BYTES} bytes");
    Fault::new(FailureClass::Malformed, what).with_detail(begins)
}

/// Fields that only a non-streamed answer has, in any format.
const WHOLE: &[&str] = &["choices", "stop_reason", "output", "candidates"];

/// The fault of a success without any event.
fn not_a_stream(head: &[u8], content_type: &str) -> Fault {
    let malformed = |what: &str| Fault::new(FailureClass::Malformed, what);
    let text = head.trim_ascii();
    let is_stream = content_type.starts_with("text/event-stream")
        || [b"data".as_slice(), b"event", b"id", b"retry", b":"].iter().any(|field| text.starts_with(field));
    if text.is_empty() || (is_stream && !text.starts_with(b"<") && !text.starts_with(b"{")) {
        return Fault::interrupted();
    }
    if text.starts_with(b"<") {
        return malformed("answered with a web page");
    }
    match serde_json::from_slice::<serde_json::Value>(text) {
        Ok(value) if WHOLE.iter().any(|field| value.get(field).is_some_and(|field| !field.is_null())) => {
            malformed("answered in one piece although a stream was requested")
        }
        Ok(value) if ErrorBody::is_error(&value) || value.get("message").is_some() => {
            Fault::in_stream(ErrorBody::of_json(&value))
        }
        _ => malformed("answered with something that is not a stream").with_detail(reading_head(text)),
    }
}
