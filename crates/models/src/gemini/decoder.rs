//! Decodes frames into an answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Attached, BlockOf, FailureClass};

use super::frame::{Blob, Candidate, Frame, FunctionCall, Part};
use super::signature::SignedPart;
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::wire::{self, Decode, DecodedResponse, Stop, malformed};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    answer: DecodedResponse,
    images: u32,
}

impl Decode for Decoder {
    fn take(&mut self, frame: &wire::Frame<'_>) -> Result<(), Fault> {
        let data = frame.data.trim_ascii();
        // The API has no such mark, but relays add one.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let frame = serde_json::from_slice::<Frame>(data).map_err(|_| Fault::not_a_frame(data))?;
        if frame.error.is_some() {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        if frame.candidates.is_none()
            && let Some(error) = ErrorBody::of_frame(data)
        {
            return Err(Fault::in_stream(error));
        }
        self.take_frame(frame)
    }

    fn answer(&mut self) -> &mut DecodedResponse {
        &mut self.answer
    }
}

impl Decoder {
    fn take_frame(&mut self, frame: Frame) -> Result<(), Fault> {
        self.answer.open();
        if let Some(usage) = frame.usage_metadata.and_then(|usage| usage.normalised()) {
            self.answer.usage(usage);
        }
        if let Some(reason) = frame.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            let what = format!("refused the request (its content filter: {reason})");
            return Err(Fault::new(FailureClass::InvalidRequest, what));
        }
        frame.candidates.into_iter().flatten().take(1).try_for_each(|candidate| self.take_candidate(candidate))
    }

    fn take_candidate(&mut self, candidate: Candidate) -> Result<(), Fault> {
        let parts = candidate.content.and_then(|content| content.parts);
        parts.into_iter().flatten().try_for_each(|part| self.take_part(part))?;
        let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) else { return Ok(()) };
        let stop = stop(&reason).map_err(|fault| fault.with_detail(candidate.finish_message.unwrap_or_default()))?;
        self.answer.stop(stop);
        Ok(())
    }

    /// Parts of other kinds, such as code that the API runs itself, are not requested and are skipped.
    fn take_part(&mut self, part: Part) -> Result<(), Fault> {
        let signature = part.thought_signature.unwrap_or_default();
        let is_thought = part.thought.unwrap_or_default();
        match (part.function_call, part.inline_data) {
            (Some(call), _) => self.take_call(call, &signature),
            // Images in thoughts are drafts.
            (None, Some(blob)) if is_thought || !blob.mime_type.starts_with("image/") => Ok(()),
            (None, Some(blob)) => self.take_image(&blob, &signature),
            (None, None) => self.take_text(part.text.unwrap_or_default(), is_thought, &signature),
        }
    }

    fn take_text(&mut self, text: String, is_thought: bool, signature: &str) -> Result<(), Fault> {
        let signed = SignedPart::Tail(text.len());
        if is_thought {
            self.answer.reasoning(text)?;
            self.sign(BlockOf::Reasoning, signed, signature)
        } else {
            self.answer.text(text)?;
            self.sign(BlockOf::Text, signed, signature)
        }
    }

    /// A call arrives in one piece.
    fn take_call(&mut self, call: FunctionCall, signature: &str) -> Result<(), Fault> {
        let name = call.name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| malformed("asked for a call without a name"))?;
        let place = self.answer.place()?;
        let arguments = call.args.unwrap_or_default().text();
        self.answer.call(place, &call.id.unwrap_or_default(), name, arguments)?;
        self.sign(BlockOf::Call(place), SignedPart::Tail(0), signature)
    }

    fn take_image(&mut self, blob: &Blob, signature: &str) -> Result<(), Fault> {
        let bytes = STANDARD.decode(&blob.data).map_err(|_| malformed("sent an image that is not base64"))?;
        self.images += 1;
        let kind = blob.mime_type.trim_start_matches("image/");
        let name = format!("image-{}.{kind}", self.images);
        self.sign(BlockOf::Text, SignedPart::Image, signature)?;
        self.answer.image(Attached::new(&blob.mime_type, &name, bytes))
    }

    fn sign(&mut self, block: BlockOf, part: SignedPart, signature: &str) -> Result<(), Fault> {
        if signature.is_empty() { Ok(()) } else { self.answer.signature(block, part.sign(signature)) }
    }
}

/// Finish reasons of a content filter.
const FILTERED: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

/// Finish reasons of an answer that broke off in a call; a retry often succeeds.
const BROKEN: &[&str] =
    &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"];

fn stop(reason: &str) -> Result<Stop, Fault> {
    match reason {
        "MAX_TOKENS" => Ok(Stop::Length),
        reason if FILTERED.contains(&reason) => Ok(Stop::Filtered),
        reason if BROKEN.contains(&reason) => {
            Err(Fault::new(FailureClass::Server, format!("ended its answer early ({reason})")))
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            Err(Fault::new(FailureClass::InvalidRequest, "requires a signature that the conversation lacks"))
        }
        _ => Ok(Stop::Finished),
    }
}
