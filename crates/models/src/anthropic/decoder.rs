//! Decodes events into an answer.

use std::collections::BTreeMap;

use engine::{BlockOf, FailureClass, Usage};

use super::REDACTED;
use super::frame::{ContentBlock, Delta, Event, StopDetails, WireUsage};
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::wire::{self, Decode, DecodedResponse, Stop, malformed};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    answer: DecodedResponse,
    /// The open blocks whose state is needed until they end, by index.
    open: BTreeMap<u64, Open>,
    /// The call of the last block, if that ended without any input. Only what follows says whether it has none, or was cut.
    bare: Option<u32>,
    usage: Option<Usage>,
    refusal: Option<StopDetails>,
}

#[derive(Debug)]
enum Open {
    /// The signature is reported when it is complete.
    Thinking { signature: String },
    /// A call at this position in the answer.
    Call { place: u32, input: Input },
}

/// The received part of a call's input.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    Parts,
    /// The start event contained the whole input.
    Whole,
}

impl Decode for Decoder {
    fn take(&mut self, frame: &wire::Frame<'_>) -> Result<(), Fault> {
        let data = frame.data.trim_ascii();
        if data.is_empty() || self.answer.is_done() {
            return Ok(());
        }
        if frame.name == b"error" {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        let event = serde_json::from_slice::<Event>(data).map_err(|_| Fault::not_a_frame(data))?;
        if event.r#type.as_deref() == Some("error") {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        if let Some(error) = ErrorBody::of_event(event.r#type.as_deref(), data) {
            return Err(Fault::in_stream(error));
        }
        self.take_event(event)
    }

    fn answer(&mut self) -> &mut DecodedResponse {
        &mut self.answer
    }

    fn end(&mut self, request_bytes: usize) -> Result<Usage, Fault> {
        match self.refusal.take() {
            // The partial text must not be continued: the model would refuse again.
            Some(details) => Err(refused(details)),
            None => self.answer.end(request_bytes),
        }
    }
}

impl Decoder {
    fn take_event(&mut self, event: Event) -> Result<(), Fault> {
        let index = event.index.unwrap_or_default();
        match event.r#type.as_deref().unwrap_or_default() {
            "message_start" => {
                self.answer.open();
                self.count(event.message.and_then(|message| message.usage));
                Ok(())
            }
            "content_block_start" => self.begin(index, event.content_block.unwrap_or_default()),
            "content_block_delta" => self.add(index, event.delta.unwrap_or_default()),
            "content_block_stop" => self.close(index),
            "message_delta" => {
                self.count(event.usage);
                self.stop(event.delta.unwrap_or_default())
            }
            "message_stop" => {
                self.answer.done();
                Ok(())
            }
            // Pings are no sign of progress. The format requires that clients skip unknown events.
            _ => Ok(()),
        }
    }

    fn count(&mut self, usage: Option<WireUsage>) {
        if let Some(usage) = usage {
            let usage = usage.with(self.usage.unwrap_or_default());
            self.usage = Some(usage);
            self.answer.usage(usage);
        }
    }

    fn begin(&mut self, index: u64, block: ContentBlock) -> Result<(), Fault> {
        self.has_no_input()?;
        match block.r#type.as_deref().unwrap_or_default() {
            "text" => self.answer.text(block.text.unwrap_or_default()),
            "thinking" => {
                self.answer.reasoning(block.thinking.unwrap_or_default())?;
                self.keep(index, Open::Thinking { signature: block.signature.unwrap_or_default() })
            }
            "redacted_thinking" => {
                let data = block.data.filter(|data| !data.is_empty());
                let signature = data.map(|data| format!("{REDACTED}{data}"));
                self.answer.signature(BlockOf::Reasoning, signature.unwrap_or_default())
            }
            "tool_use" => self.begin_call(index, block),
            _ => Ok(()),
        }
    }

    fn begin_call(&mut self, index: u64, block: ContentBlock) -> Result<(), Fault> {
        let name =
            block.name.filter(|name| !name.is_empty()).ok_or_else(|| malformed("asked for a call without a name"))?;
        let place = self.answer.place()?;
        let whole = block.input.filter(|input| !input.is_empty());
        let input = if whole.is_some() { Input::Whole } else { Input::Nothing };
        let arguments = whole.map(|input| serde_json::Value::Object(input).to_string());
        self.answer.call(place, &block.id.unwrap_or_default(), name, arguments.unwrap_or_default())?;
        self.keep(index, Open::Call { place, input })
    }

    /// The size limit of an answer bounds the memory.
    fn keep(&mut self, index: u64, block: Open) -> Result<(), Fault> {
        self.answer.count(size_of::<(u64, Open)>())?;
        self.open.insert(index, block);
        Ok(())
    }

    fn add(&mut self, index: u64, delta: Delta) -> Result<(), Fault> {
        self.answer.text(delta.text.unwrap_or_default())?;
        self.answer.reasoning(delta.thinking.unwrap_or_default())?;
        match (self.open.get_mut(&index), delta.signature, delta.partial_json) {
            (Some(Open::Thinking { signature }), Some(received), _) => {
                self.answer.count(received.len())?;
                *signature = received;
                Ok(())
            }
            (Some(Open::Call { place, input }), _, Some(part)) if !part.is_empty() && *input != Input::Whole => {
                *input = Input::Parts;
                self.answer.arguments(*place, part)
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, index: u64) -> Result<(), Fault> {
        match self.open.remove(&index) {
            Some(Open::Thinking { signature }) => self.answer.signature(BlockOf::Reasoning, signature),
            Some(Open::Call { place, input: Input::Nothing }) => {
                self.bare = Some(place);
                Ok(())
            }
            Some(Open::Call { .. }) | None => Ok(()),
        }
    }

    /// The answer went on behind the last call: if that has no input, its tool takes none.
    fn has_no_input(&mut self) -> Result<(), Fault> {
        match self.bare.take() {
            Some(place) => self.answer.arguments(place, "{}".to_owned()),
            None => Ok(()),
        }
    }

    fn stop(&mut self, delta: Delta) -> Result<(), Fault> {
        match delta.stop_reason.as_deref() {
            None | Some("") => {}
            // A block that the limit cuts ends like any other.
            Some("max_tokens") => self.answer.stop(Stop::Length),
            Some("model_context_window_exceeded") => self.answer.stop(Stop::Window),
            Some("refusal") => {
                self.refusal = Some(delta.stop_details.unwrap_or_default());
                self.answer.stop(Stop::Filtered);
            }
            // end_turn, stop_sequence, tool_use; pause_turn comes only with the provider's own tools, which are not
            // requested.
            Some(_) => {
                self.has_no_input()?;
                self.answer.stop(Stop::Finished);
            }
        }
        Ok(())
    }
}

fn refused(details: StopDetails) -> Fault {
    let detail = details.explanation.or(details.category);
    Fault::new(FailureClass::InvalidRequest, "refused to answer").with_detail(detail.unwrap_or_default())
}
