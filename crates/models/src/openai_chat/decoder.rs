//! Decodes frames into an answer.

use engine::Usage;

use super::frame::{CallDelta, Choice, Frame};
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::wire::{self, Decode, DecodedResponse, Stop, malformed};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    answer: DecodedResponse,
    calls: Vec<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    /// The index on the wire, which may have gaps, repeat or be absent.
    wire_index: u64,
    /// Its position in the answer.
    place: u32,
    id: String,
    named: bool,
    /// Arguments that came before the name.
    held: String,
}

impl Decode for Decoder {
    fn take(&mut self, frame: &wire::Frame<'_>) -> Result<(), Fault> {
        let data = frame.data.trim_ascii();
        if data.is_empty() || self.answer.is_done() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.answer.done();
            return Ok(());
        }
        if frame.name == b"error" {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        let frame = serde_json::from_slice::<Frame>(data).map_err(|_| Fault::not_a_frame(data))?;
        self.take_frame(frame, data)
    }

    fn answer(&mut self) -> &mut DecodedResponse {
        &mut self.answer
    }

    fn end(&mut self, request_bytes: usize) -> Result<Usage, Fault> {
        let usage = self.answer.end(request_bytes);
        if self.has_nameless() && (self.answer.is_finished() || self.answer.is_done()) {
            return Err(nameless());
        }
        usage
    }
}

fn nameless() -> Fault {
    malformed("asked for a call without a name")
}

impl Decoder {
    fn take_frame(&mut self, frame: Frame, data: &[u8]) -> Result<(), Fault> {
        if frame.error.is_some() || frame.object.as_deref() == Some("error") {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        if frame.choices.is_none()
            && let Some(error) = ErrorBody::of_frame(data)
        {
            return Err(Fault::in_stream(error));
        }
        self.answer.open();
        let usage = frame.usage.or(frame.x_groq.and_then(|tail| tail.usage));
        if let Some(usage) = usage.and_then(|usage| usage.normalised()) {
            self.answer.usage(usage);
        }
        frame.choices.into_iter().flatten().take(1).try_for_each(|choice| self.take_choice(choice))
    }

    fn take_choice(&mut self, choice: Choice) -> Result<(), Fault> {
        if let Some(delta) = choice.delta {
            let reasoning = delta.reasoning_content.or(delta.reasoning).unwrap_or(delta.content.reasoning);
            self.answer.reasoning(reasoning)?;
            self.answer.text(delta.content.text)?;
            self.answer.text(delta.refusal.unwrap_or_default())?;
            delta.tool_calls.into_iter().flatten().try_for_each(|call| self.take_call(call))?;
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("length") => self.answer.stop(Stop::Length),
            // Zhipu's word is the second.
            Some("content_filter" | "sensitive") => self.answer.stop(Stop::Filtered),
            Some("error") => {
                let error = choice.error.as_ref().map(ErrorBody::of_json);
                return Err(Fault::in_stream(error.unwrap_or_default()));
            }
            Some(_) => self.answer.stop(Stop::Finished),
        }
        Ok(())
    }

    fn take_call(&mut self, delta: CallDelta) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.filter(|name| !name.is_empty());
        let at = self.call_at(delta.index, &id, name.is_some())?;
        let arguments = function.arguments.0;

        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        match name {
            // Every frame may repeat the id and the name; they are reported once, with the first part.
            Some(name) if !call.named => {
                call.named = true;
                let arguments = std::mem::take(&mut call.held) + &arguments;
                self.answer.call(call.place, &call.id, name, arguments)
            }
            _ if !call.named => {
                call.held.push_str(&arguments);
                self.answer.count(arguments.len())
            }
            _ => self.answer.arguments(call.place, arguments),
        }
    }

    fn has_nameless(&self) -> bool {
        self.calls.iter().any(|call| !call.named)
    }

    /// The call of a delta. The same index with another id is another call (Gemini's compatible API uses 0 for all).
    /// Without an index, an id or a name begins a call.
    fn call_at(&mut self, index: Option<u64>, id: &str, has_name: bool) -> Result<usize, Fault> {
        let same = |call: &OpenCall| match index {
            Some(index) => call.wire_index == index && (id.is_empty() || call.id.is_empty() || call.id == id),
            None if !id.is_empty() => call.id == id,
            None => !has_name,
        };
        if let Some(at) = self.calls.iter().rposition(same) {
            return Ok(at);
        }
        // Calls are reported in order, each with its name, so a call that lacks its name holds back the later ones.
        if self.has_nameless() {
            return Err(nameless());
        }
        let place = self.answer.place()?;
        let wire_index = index.unwrap_or(u64::from(place));
        self.calls.push(OpenCall { wire_index, place, id: String::new(), named: false, held: String::new() });
        Ok(self.calls.len() - 1)
    }
}
