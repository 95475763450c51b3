//! Decodes lines into an answer.

use super::frame::{Call, Frame, Message};
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::wire::{self, Decode, DecodedResponse, Stop, malformed};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    answer: DecodedResponse,
}

impl Decode for Decoder {
    fn take(&mut self, frame: &wire::Frame<'_>) -> Result<(), Fault> {
        if self.answer.is_done() {
            return Ok(());
        }
        let line = serde_json::from_slice::<Frame>(frame.data).map_err(|_| Fault::not_a_frame(frame.data))?;
        if line.error.is_some() {
            return Err(Fault::in_stream(ErrorBody::of_bytes(frame.data)));
        }
        if line.message.is_none()
            && let Some(error) = ErrorBody::of_frame(frame.data)
        {
            return Err(Fault::in_stream(error));
        }
        self.answer.open();
        let usage = line.usage();
        self.take_message(line.message.unwrap_or_default())?;
        if line.done.unwrap_or_default() {
            if let Some(usage) = usage {
                self.answer.usage(usage);
            }
            self.answer.stop(if line.done_reason.as_deref() == Some("length") { Stop::Length } else { Stop::Finished });
            self.answer.done();
        }
        Ok(())
    }

    fn answer(&mut self) -> &mut DecodedResponse {
        &mut self.answer
    }
}

impl Decoder {
    fn take_message(&mut self, message: Message) -> Result<(), Fault> {
        self.answer.reasoning(message.thinking.unwrap_or_default())?;
        self.answer.text(message.content.unwrap_or_default())?;
        message.tool_calls.into_iter().flatten().try_for_each(|call| self.take_call(call))
    }

    /// A call arrives in one piece.
    fn take_call(&mut self, call: Call) -> Result<(), Fault> {
        if call.function.name.is_empty() {
            return Err(malformed("asked for a call without a name"));
        }
        let place = self.answer.place()?;
        let arguments = call.function.arguments.text();
        self.answer.call(place, &call.id.unwrap_or_default(), call.function.name, arguments)
    }
}
