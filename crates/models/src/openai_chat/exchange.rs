//! One request and its answer: send, read, decode, end. Dropping it closes the connection, which cancels the request.

use engine::{Failure, FailureClass};
use reqwest::{Response, header};
use tokio::time::{Instant, timeout, timeout_at};

use super::body;
use super::client::{Clients, broken};
use super::decoder::Decoder;
use crate::classify::ErrorBody;
use crate::fault::{Fault, Subject};
use crate::limits::{BODY_BYTES, DRAIN, EVENT_BYTES, TAIL};
use crate::model::{Request, Said};
use crate::sse::{SseReader, TooLong};

/// ```text
/// Ready ──sent──▶ Reading ──end mark, end of the body──▶ Closing ──▶ Over
///   └───────────────┴──fault──▶ Closing (what was said before it goes first)
/// ```
enum Stage {
    Ready(Vec<u8>),
    Reading(Box<Reading>),
    Closing(Result<Said, Fault>),
    Over,
}

impl Stage {
    fn reading(response: Response) -> Self {
        let reading = Reading { response, reader: SseReader::default(), head: Vec::new(), patience: None };
        Self::Reading(Box::new(reading))
    }
}

struct Reading {
    response: Response,
    reader: SseReader,
    /// The beginning of the body until its first event, to tell what it is if it has none.
    head: Vec<u8>,
    /// When to stop waiting for what may follow the finish reason.
    patience: Option<Instant>,
}

pub(super) struct Exchange {
    clients: Clients,
    subject: Subject,
    request_bytes: usize,
    decoder: Decoder,
    stage: Stage,
}

impl Exchange {
    pub(super) fn new(clients: Clients, request: Request) -> Self {
        let body = body::render(&request);
        Self {
            clients,
            request_bytes: body.len(),
            subject: Subject::new(request.candidate, request.endpoint),
            decoder: Decoder::default(),
            stage: Stage::Ready(body),
        }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Said, Failure>> {
        loop {
            if let Some(said) = self.decoder.next_said() {
                return Some(Ok(said));
            }
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Ready(body) => match self.clients.send(self.subject.endpoint(), body).await {
                    Ok(response) => Stage::reading(response),
                    Err(fault) => Stage::Closing(Err(fault)),
                },
                Stage::Reading(reading) => self.read(reading).await.unwrap_or_else(|fault| Stage::Closing(Err(fault))),
                Stage::Closing(Ok(said)) => return Some(Ok(said)),
                Stage::Closing(Err(fault)) => return Some(Err(self.subject.failure(fault))),
                Stage::Over => return None,
            };
        }
    }

    /// Takes the next bytes.
    async fn read(&mut self, mut reading: Box<Reading>) -> Result<Stage, Fault> {
        let chunk = reading.response.chunk();
        let chunk = match reading.patience {
            Some(until) => timeout_at(until, chunk).await.unwrap_or(Ok(None)),
            None => chunk.await,
        };
        match chunk {
            Ok(Some(bytes)) => {
                self.decode(&mut reading, &bytes)?;
                if self.decoder.is_done() {
                    drain(&mut reading.response).await;
                    return Ok(self.end());
                }
                if self.decoder.is_finished() && reading.patience.is_none() {
                    reading.patience = Some(Instant::now() + TAIL);
                }
                Ok(Stage::Reading(reading))
            }
            Ok(None) => self.end_of_body(&mut reading),
            // What came before the connection broke may be whole, or say what is wrong.
            Err(error) => self.end_of_body(&mut reading).map_err(|fault| match fault.class {
                FailureClass::Network => broken(&error),
                _ => fault,
            }),
        }
    }

    fn decode(&mut self, reading: &mut Reading, bytes: &[u8]) -> Result<(), Fault> {
        if self.decoder.is_untouched() && reading.head.len() < BODY_BYTES {
            reading.head.extend_from_slice(&bytes[..bytes.len().min(BODY_BYTES - reading.head.len())]);
        }
        reading.reader.push(bytes);
        while let Some(event) =
            reading.reader.next_event().map_err(|_: TooLong| too_long(reading_head(&reading.head)))?
        {
            self.decoder.take_event(&event)?;
        }
        if !self.decoder.is_untouched() {
            reading.head = Vec::new();
        }
        Ok(())
    }

    fn end_of_body(&mut self, reading: &mut Reading) -> Result<Stage, Fault> {
        if let Some(event) = reading.reader.last_event()
            && let Err(fault) = self.decoder.take_event(&event)
        {
            // An event that is not closed and cannot be read was cut, whatever it looks like.
            let is_cut = fault.class == FailureClass::Malformed && !self.decoder.is_finished();
            return Err(if is_cut { Fault::cut() } else { fault });
        }
        if self.decoder.is_untouched() {
            let content_type = reading.response.headers().get(header::CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
            return Err(not_a_stream(&reading.head, content_type));
        }
        Ok(self.end())
    }

    fn end(&mut self) -> Stage {
        Stage::Closing(self.decoder.end(self.request_bytes).map(|usage| Said::Ended { usage }))
    }
}

/// Waits a moment for the end of the body: a connection whose answer was read to its end serves the next request.
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

/// A success without a single event: what came instead?
fn not_a_stream(head: &[u8], content_type: &str) -> Fault {
    let malformed = |what: &str| Fault::new(FailureClass::Malformed, what);
    let text = head.trim_ascii();
    let is_stream = content_type.starts_with("text/event-stream")
        || [b"data".as_slice(), b"event", b"id", b"retry", b":"].iter().any(|field| text.starts_with(field));
    if text.is_empty() || (is_stream && !text.starts_with(b"<") && !text.starts_with(b"{")) {
        return Fault::cut();
    }
    if text.starts_with(b"<") {
        return malformed("answered with a web page");
    }
    match serde_json::from_slice::<serde_json::Value>(text) {
        Ok(value) if value.get("choices").is_some() => {
            malformed("answered in one piece although a stream was asked for")
        }
        Ok(value) if value.get("error").is_some() || value.get("message").is_some() => {
            Fault::in_stream(ErrorBody::of_json(&value))
        }
        _ => malformed("answered with something that is no stream").with_detail(reading_head(text)),
    }
}
