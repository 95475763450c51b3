//! Anthropic Messages, streamed. The facts of the format are those of the provider's pages "Messages", "Streaming
//! messages", "Extended thinking", "Adaptive thinking", "Effort" and "Prompt caching" (platform.claude.com/docs).

mod body;
mod decoder;
mod frame;
mod thinking;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format};

/// The prefix of redacted thinking data that is kept as a signature; a real signature is base64.
const REDACTED: &str = "redacted:";

/// The wire format of Anthropic Messages.
pub(crate) struct Anthropic;

impl Format for Anthropic {
    fn path(&self, _: &Candidate) -> (String, Option<&'static str>) {
        ("messages".to_owned(), None)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        body::render(request)
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decode> {
        Box::new(decoder::Decoder::default())
    }
}
