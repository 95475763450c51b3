//! Decodes events into an answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Attached, BlockOf};

use super::frame::{Event, Item, Kind, Response};
use super::item::{self, BETWEEN};
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::wire::{Decode, DecodedResponse, Frame, Stop, malformed};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    answer: DecodedResponse,
    open: Vec<OpenItem>,
}

/// An open item of the answer.
#[derive(Debug, Default)]
struct OpenItem {
    /// Its index in the answer; servers that omit it have one open item at a time.
    output_index: Option<u64>,
    /// Whether pieces of it were emitted already, so that its end does not emit it again.
    was_streamed: bool,
    call: Option<Call>,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    /// Its name is not known yet.
    Nameless,
    /// Its position among the calls.
    Reported(u32),
}

impl Decode for Decoder {
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        let data = frame.data.trim_ascii();
        // Some servers end with the mark of chat completions, which says nothing about the answer.
        if data.is_empty() || data == b"[DONE]" || self.answer.is_done() {
            return Ok(());
        }
        let read = serde_json::from_slice::<Event<'_>>(data);
        let mut event = match read {
            Ok(event) => event,
            Err(_) if is_other(frame, data) => return Ok(()),
            Err(_) => return Err(Fault::not_a_frame(data)),
        };
        if event.r#type.is_empty() {
            event.r#type = String::from_utf8_lossy(frame.name);
        }
        if event.r#type.is_empty() {
            // An error of a relay, or another format.
            return Err(Fault::not_a_frame(data));
        }
        self.take_event(event, data)
    }

    fn answer(&mut self) -> &mut DecodedResponse {
        &mut self.answer
    }
}

/// Every event that is handled; others are skipped.
const READ: &[&str] = &[
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
];

/// Whether an event that cannot be parsed is one that is skipped anyway.
fn is_other(frame: &Frame<'_>, data: &[u8]) -> bool {
    let kind = serde_json::from_slice::<Kind<'_>>(data).unwrap_or_default().r#type;
    let kind = if kind.is_empty() { String::from_utf8_lossy(frame.name) } else { kind };
    !kind.is_empty() && !READ.contains(&&*kind)
}

impl Decoder {
    fn take_event(&mut self, event: Event<'_>, data: &[u8]) -> Result<(), Fault> {
        let Event { r#type, output_index, summary_index, delta, item, response } = event;
        let delta = delta.unwrap_or_default();
        match &*r#type {
            "response.output_item.added" => self.begin(output_index, item.unwrap_or_default()),
            "response.output_item.done" => self.finish(output_index, item.unwrap_or_default()),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.report_delta(output_index, &delta)?;
                self.answer.text(delta)
            }
            "response.reasoning_summary_part.added" if summary_index.is_some_and(|index| index > 0) => {
                self.answer.reasoning(BETWEEN.to_owned())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.report_delta(output_index, &delta)?;
                self.answer.reasoning(delta)
            }
            "response.function_call_arguments.delta" => self.take_arguments(output_index, delta),
            "response.completed" => self.stop(Stop::Finished, response.unwrap_or_default()),
            "response.incomplete" => {
                let response = response.unwrap_or_default();
                self.stop(why(&response), response)
            }
            "response.failed" => Err(Fault::in_stream(failed(data))),
            "error" => Err(Fault::in_stream(ErrorBody::of_bytes(data))),
            other => ErrorBody::of_event(Some(other), data).map_or(Ok(()), |error| Err(Fault::in_stream(error))),
        }
    }

    fn stop(&mut self, stop: Stop, response: Response) -> Result<(), Fault> {
        if self.open.iter().any(|open| matches!(open.call, Some(Call::Nameless))) {
            return Err(nameless());
        }
        if let Some(usage) = response.usage.and_then(|usage| usage.normalised()) {
            self.answer.usage(usage);
        }
        self.answer.stop(stop);
        self.answer.done();
        Ok(())
    }

    fn begin(&mut self, output_index: Option<u64>, mut item: Item) -> Result<(), Fault> {
        let was_streamed = !item.arguments.as_deref().unwrap_or_default().is_empty();
        let call = if item.r#type == "function_call" { Some(self.notify_call(&mut item)?) } else { None };
        *self.open(output_index)? = OpenItem { output_index, was_streamed: was_streamed && call.is_some(), call };
        Ok(())
    }

    /// The open item with this index, created if there is none.
    fn open(&mut self, output_index: Option<u64>) -> Result<&mut OpenItem, Fault> {
        if let Some(at) = self.find(output_index) {
            return Ok(&mut self.open[at]);
        }
        self.answer.count(size_of::<OpenItem>())?;
        self.open.push(OpenItem { output_index, ..OpenItem::default() });
        Ok(self.open.last_mut().expect("it was just pushed"))
    }

    fn close(&mut self, output_index: Option<u64>) -> OpenItem {
        self.find(output_index).map(|at| self.open.swap_remove(at)).unwrap_or_default()
    }

    fn find(&self, output_index: Option<u64>) -> Option<usize> {
        self.open.iter().rposition(|open| output_index.is_none() || open.output_index == output_index)
    }

    fn report_delta(&mut self, output_index: Option<u64>, delta: &str) -> Result<(), Fault> {
        self.open(output_index)?.was_streamed |= !delta.is_empty();
        Ok(())
    }

    /// Reports the id, the name and the arguments so far; nothing without the name.
    fn notify_call(&mut self, item: &mut Item) -> Result<Call, Fault> {
        let Some(name) = item.name.take().filter(|name| !name.is_empty()) else { return Ok(Call::Nameless) };
        let (place, arguments) = (self.answer.place()?, item.arguments.take().unwrap_or_default());
        self.answer.call(place, item.call_id(), name, arguments)?;
        Ok(Call::Reported(place))
    }

    fn take_arguments(&mut self, output_index: Option<u64>, delta: String) -> Result<(), Fault> {
        let open = self.open(output_index)?;
        match open.call {
            Some(Call::Reported(place)) => {
                open.was_streamed |= !delta.is_empty();
                self.answer.arguments(place, delta)
            }
            // The end of the item repeats them with the name.
            Some(Call::Nameless) | None => self.answer.count(delta.len()),
        }
    }

    /// Handles a complete item: reports the parts that were not reported, and its signature.
    fn finish(&mut self, output_index: Option<u64>, item: Item) -> Result<(), Fault> {
        let OpenItem { was_streamed, call, .. } = self.close(output_index);
        match &*item.r#type {
            "message" => self.finish_message(was_streamed, item),
            "reasoning" => self.finish_reasoning(was_streamed, item),
            "function_call" => self.finish_call(was_streamed, call, item),
            "image_generation_call" => self.image(&item),
            _ => Ok(()),
        }
    }

    fn finish_message(&mut self, was_streamed: bool, item: Item) -> Result<(), Fault> {
        let text = if was_streamed { String::new() } else { item.text() };
        if !was_streamed && text.is_empty() {
            return Ok(());
        }
        self.answer.text(text)?;
        self.answer.signature(BlockOf::Text, item::signature(&item.mark()))
    }

    fn finish_reasoning(&mut self, was_streamed: bool, item: Item) -> Result<(), Fault> {
        if !was_streamed {
            self.answer.reasoning(item.reasoning())?;
        }
        let reasoning = item.into_reasoning().map(|reasoning| item::signature(&reasoning));
        self.answer.signature(BlockOf::Reasoning, reasoning.unwrap_or_default())
    }

    fn finish_call(&mut self, was_streamed: bool, call: Option<Call>, mut item: Item) -> Result<(), Fault> {
        let place = match call {
            Some(Call::Reported(place)) => {
                let arguments = item.arguments.take().filter(|_| !was_streamed);
                self.answer.arguments(place, arguments.unwrap_or_default())?;
                place
            }
            Some(Call::Nameless) | None => match self.notify_call(&mut item)? {
                Call::Reported(place) => place,
                Call::Nameless => return Err(nameless()),
            },
        };
        self.answer.signature(BlockOf::Call(place), item::signature(&item.mark()))
    }

    fn image(&mut self, item: &Item) -> Result<(), Fault> {
        let Some(result) = item.result.as_ref().filter(|result| !result.is_empty()) else { return Ok(()) };
        let bytes = STANDARD.decode(result).map_err(|_| malformed("sent an image that is not base64"))?;
        let (media_type, name) = item.image_type();
        self.answer.image(Attached::new(media_type, name, bytes))
    }
}

/// Why an answer is incomplete.
fn why(response: &Response) -> Stop {
    let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
    if reason == Some("content_filter") { Stop::Filtered } else { Stop::Length }
}

/// The error of a response that failed.
fn failed(data: &[u8]) -> ErrorBody {
    let event = serde_json::from_slice::<serde_json::Value>(data).unwrap_or_default();
    event.pointer("/response/error").map(ErrorBody::of_json).unwrap_or_default()
}

fn nameless() -> Fault {
    malformed("asked for a call without a name")
}
