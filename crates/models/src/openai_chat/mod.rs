//! OpenAI chat completions, streamed: OpenAI itself and the many servers that speak its format.

mod body;
mod decoder;
mod frame;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format};

/// The wire format of OpenAI chat completions.
pub(crate) struct OpenAiChat;

impl Format for OpenAiChat {
    fn path(&self, _: &Candidate) -> (String, Option<&'static str>) {
        ("chat/completions".to_owned(), None)
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        body::render(request)
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decode> {
        Box::new(decoder::Decoder::default())
    }
}
