//! Google Gemini, streamed: `streamGenerateContent` of the Gemini API.

mod body;
mod decoder;
mod frame;
mod schema_dialect;
mod signature;

use engine::Candidate;

use crate::model::Request;
use crate::wire::{Decode, Format};

/// The format.
pub(crate) struct Gemini;

impl Format for Gemini {
    /// A name with a folder in it, `tunedModels/x`, is taken as it stands.
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
