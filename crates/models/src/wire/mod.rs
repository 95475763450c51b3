//! The shared part of all wire formats: sending, framing, limits, ends. A format renders requests and decodes frames;
//! it does no I/O.
//!
//! This module reads the frames itself, without a client library: the guarantees of the runtime depend on the end mark,
//! on bounded memory with a faulty server, and on the status and headers of a response.

mod answer;
mod client;
mod exchange;
mod function;
mod json;
mod lines;
mod sse;
pub(crate) mod tls;
pub(crate) mod usage;

use engine::{Candidate, Usage};
use futures_util::{StreamExt, stream};

pub(crate) use answer::{DecodedResponse, Stop, malformed};
pub(crate) use client::{Clients, broken, refusal, unreachable};
pub(crate) use function::Tool;
pub(crate) use json::Json;

use crate::anthropic::Anthropic;
use crate::endpoint::Api;
use crate::fault::Fault;
use crate::gemini::Gemini;
use crate::login::Logins;
use crate::model::{Request, ResponseStream};
use crate::ollama::Ollama;
use crate::openai_chat::OpenAiChat;
use crate::openai_responses::OpenAiResponses;

/// The header in which most formats send the key.
pub(crate) const BEARER: (&str, &str) = ("authorization", "Bearer ");

/// A wire format: renders requests and decodes frames.
pub(crate) trait Format: Sync {
    /// The path of the call below the base address, `chat/completions`, and its query, if it has one.
    fn path(&self, candidate: &Candidate) -> (String, Option<&'static str>);

    /// The header with the key, and the prefix of its value.
    fn key_header(&self) -> (&'static str, &'static str) {
        BEARER
    }

    /// The headers of each request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The body of a request: JSON, UTF-8.
    fn body(&self, request: &Request) -> Vec<u8>;

    /// How a response is split into frames.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// A decoder for the response to this request.
    fn decoder(&self, request: &Request) -> Box<dyn Decode>;
}

/// How a response is split into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As server-sent events.
    Events,
    /// As lines with a JSON object each.
    Lines,
}

/// One frame; lines have no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The value of `event:`, mostly empty.
    pub(crate) name: &'a [u8],
    /// The value of `data:`, with lines joined by a newline.
    pub(crate) data: &'a [u8],
}

/// A line or an event that is longer than [`crate::limits::EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Decodes the frames of one answer and knows when it is complete. It does no I/O.
pub(crate) trait Decode: Send {
    /// Decodes the next frame; its events are queued in [`Decode::answer`].
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Fault>;

    /// The answer so far.
    fn answer(&mut self) -> &mut DecodedResponse;

    /// Ends the answer at the end of the body or at a timeout: checks that it is complete and returns its usage. An
    /// estimate of the usage starts from `request_bytes`.
    fn end(&mut self, request_bytes: usize) -> Result<Usage, Fault> {
        self.answer().end(request_bytes)
    }
}

/// The format of an API; none for the offline model.
pub(crate) fn format(api: Api) -> Option<&'static dyn Format> {
    match api {
        Api::Offline => None,
        Api::OpenAiChat => Some(&OpenAiChat),
        Api::Anthropic => Some(&Anthropic),
        Api::Gemini => Some(&Gemini),
        Api::Ollama => Some(&Ollama),
        Api::OpenAiResponses => Some(&OpenAiResponses),
    }
}

/// Sends a request and reads its answer.
pub(crate) fn exchange(
    clients: &Clients,
    logins: &Logins,
    format: &'static dyn Format,
    request: Request,
) -> ResponseStream {
    let exchange = Box::new(exchange::Exchange::new(clients.clone(), logins.clone(), format, request));
    stream::unfold(exchange, |mut exchange| async move { exchange.next().await.map(|event| (event, exchange)) }).boxed()
}
