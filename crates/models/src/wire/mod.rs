//! What all wire formats share: sending, framing, limits, ends. A format says how a request is written and what a frame
//! means; it does no I/O.
//!
//! The frames are read here and not by a client library: what counts as an end mark, how much memory a broken server
//! may take, and the status and headers of an answer are what the runtime's promises rest on.

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

/// Where most formats have the key.
pub(crate) const BEARER: (&str, &str) = ("authorization", "Bearer ");

/// A wire format.
pub(crate) trait Format: Sync {
    /// The path of the call below the base address, `chat/completions`, and its query, if it has one.
    fn path(&self, candidate: &Candidate) -> (String, Option<&'static str>);

    /// The header that carries the key, and what stands before it there.
    fn key_header(&self) -> (&'static str, &'static str) {
        BEARER
    }

    /// Headers that each request carries.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The body of a request: JSON, UTF-8.
    fn body(&self, request: &Request) -> Vec<u8>;

    /// How the answer is cut into frames.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// What reads the frames of one answer to this request.
    fn decoder(&self, request: &Request) -> Box<dyn Decode>;
}

/// How an answer is cut into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON object a line.
    Lines,
}

/// One frame: for lines without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// What follows `event:`, mostly empty.
    pub(crate) name: &'a [u8],
    /// What follows `data:`, lines joined with a newline.
    pub(crate) data: &'a [u8],
}

/// A line or an event that is longer than [`crate::limits::EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Reads the frames of one answer. Knows when it is whole; knows nothing of sockets.
pub(crate) trait Decode: Send {
    /// Takes the next frame. What it says is queued in [`Decode::answer`].
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Fault>;

    /// The answer as far as it has come.
    fn answer(&mut self) -> &mut DecodedResponse;

    /// The end of the body, or of the patience with it: is the answer whole, and what did it cost? `request_bytes` is what
    /// an estimate of the usage begins with.
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
    stream::unfold(exchange, |mut exchange| async move { exchange.next().await.map(|said| (said, exchange)) }).boxed()
}
