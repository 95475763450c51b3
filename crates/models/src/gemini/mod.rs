//! Google Gemini, streamed: `streamGenerateContent` of the Gemini API.

mod body;
mod decoder;
mod frame;
mod schema_dialect;
mod signature;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format};

/// The wire format of the Gemini API.
pub(crate) struct Gemini;

impl Format for Gemini {
    /// A name with a folder, such as `tunedModels/x`, is used as given.
    fn path(&self, candidate: &Candidate) -> (String, Option<&'static str>) {
        let model = &candidate.model;
        let folder = if model.contains('/') { "" } else { "models/" };
        (format!("{folder}{model}:streamGenerateContent"), Some("alt=sse"))
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        body::render(request)
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decode> {
        Box::new(decoder::Decoder::default())
    }
}
