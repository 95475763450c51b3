//! Ollama's own API, streamed: `api/chat`, a JSON object a line.

mod body;
mod decoder;
mod frame;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format, Framing};

/// The wire format of Ollama's own API.
pub(crate) struct Ollama;

impl Format for Ollama {
    fn path(&self, _: &Candidate) -> (String, Option<&'static str>) {
        ("api/chat".to_owned(), None)
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        body::render(request)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decode> {
        Box::new(decoder::Decoder::default())
    }
}
