//! OpenAI Responses, streamed and not stored by the server: each request contains the whole conversation, with the
//! model's reasoning as the encrypted items that it sent.

mod body;
mod decoder;
mod frame;
mod item;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format};

/// The wire format of OpenAI responses.
pub(crate) struct OpenAiResponses;

impl Format for OpenAiResponses {
    fn path(&self, _: &Candidate) -> (String, Option<&'static str>) {
        ("responses".to_owned(), None)
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        body::render(request)
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decode> {
        Box::new(decoder::Decoder::default())
    }
}
