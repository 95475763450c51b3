//! From frames to what is said. Knows when an answer is whole; knows nothing of sockets.

use std::collections::VecDeque;

use engine::{FailureClass, Part, Usage};

use super::frame::{CallDelta, Choice, Frame};
use crate::classify::ErrorBody;
use crate::fault::Fault;
use crate::limits::{ANSWER_BYTES, CALLS};
use crate::model::Said;
use crate::sse::Event;

/// The answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    said: VecDeque<Said>,
    opened: bool,
    calls: Vec<OpenCall>,
    finish: Option<Finish>,
    done: bool,
    usage: Option<Usage>,
    bytes: usize,
    /// There is text or a call: something that a run can end or go on with.
    has_substance: bool,
}

/// How the provider says that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Stop,
    Length,
    Filter,
}

#[derive(Debug)]
struct OpenCall {
    /// The index on the wire, which need not be dense, or unique, or there.
    wire_index: u64,
    id: String,
    named: bool,
    /// Arguments that came before the name.
    held: String,
}

impl Decoder {
    pub(super) fn next_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// The end mark `[DONE]` came: nothing follows.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The provider said why it stopped; only the usage may follow.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// No frame has come yet.
    pub(super) fn is_untouched(&self) -> bool {
        !self.opened && !self.done
    }

    pub(super) fn take_event(&mut self, event: &Event<'_>) -> Result<(), Fault> {
        let data = event.data.trim_ascii();
        if data.is_empty() || self.done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        let frame = serde_json::from_slice::<Frame>(data).map_err(|_| not_a_frame(data))?;
        self.take_frame(frame, data)
    }

    fn take_frame(&mut self, frame: Frame, data: &[u8]) -> Result<(), Fault> {
        if frame.error.is_some() || frame.object.as_deref() == Some("error") {
            return Err(Fault::in_stream(ErrorBody::of_bytes(data)));
        }
        if !std::mem::replace(&mut self.opened, true) {
            self.said.push_back(Said::Opened);
        }
        let usage = frame.usage.or(frame.x_groq.and_then(|tail| tail.usage));
        if let Some(usage) = usage.and_then(|usage| usage.normalised()) {
            self.usage = Some(usage);
        }
        frame.choices.into_iter().flatten().take(1).try_for_each(|choice| self.take_choice(choice))
    }

    fn take_choice(&mut self, choice: Choice) -> Result<(), Fault> {
        if let Some(delta) = choice.delta {
            let reasoning = delta.reasoning_content.or(delta.reasoning).unwrap_or(delta.content.reasoning);
            self.say(reasoning, Part::Reasoning)?;
            for text in [delta.content.text, delta.refusal.unwrap_or_default()] {
                self.has_substance |= !text.is_empty();
                self.say(text, Part::Text)?;
            }
            delta.tool_calls.into_iter().flatten().try_for_each(|call| self.take_call(call))?;
        }
        self.finish = match choice.finish_reason.as_deref() {
            None | Some("") => self.finish,
            Some("length") => Some(Finish::Length),
            Some("content_filter") => Some(Finish::Filter),
            Some("error") => return Err(Fault::in_stream(ErrorBody::default())),
            Some(_) => Some(Finish::Stop),
        };
        Ok(())
    }

    fn say(&mut self, text: String, part: fn(String) -> Part) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        self.said.push_back(Said::Part(part(text)));
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes > ANSWER_BYTES {
            return Err(Fault::new(
                FailureClass::Malformed,
                format!("sent more than {ANSWER_BYTES} bytes in one answer"),
            ));
        }
        Ok(())
    }

    fn take_call(&mut self, delta: CallDelta) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.filter(|name| !name.is_empty());
        let at = self.call_at(delta.index, &id, name.is_some())?;
        let arguments = function.arguments.0;
        self.count(arguments.len() + id.len() + name.as_ref().map_or(0, String::len))?;
        self.has_substance = true;

        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        let part = match name {
            // The id may come again with every frame, the name too: they are told once, with the first part.
            Some(name) if !call.named => {
                call.named = true;
                let provider_id = Some(call.id.clone()).filter(|id| !id.is_empty());
                let arguments = std::mem::take(&mut call.held) + &arguments;
                Part::Call { index: at as u32, provider_id, name: Some(name), arguments }
            }
            _ if !call.named => {
                call.held.push_str(&arguments);
                return Ok(());
            }
            _ if arguments.is_empty() => return Ok(()),
            _ => Part::Call { index: at as u32, provider_id: None, name: None, arguments },
        };
        self.said.push_back(Said::Part(part));
        Ok(())
    }

    /// Which call a delta belongs to. An index that comes again with another id is another call (Gemini's compatible API
    /// gives 0 to all); without an index an id or a name begins one.
    fn call_at(&mut self, index: Option<u64>, id: &str, has_name: bool) -> Result<usize, Fault> {
        let same = |call: &OpenCall| match index {
            Some(index) => call.wire_index == index && (id.is_empty() || call.id.is_empty() || call.id == id),
            None if !id.is_empty() => call.id == id,
            None => !has_name,
        };
        if let Some(at) = self.calls.iter().rposition(same) {
            return Ok(at);
        }
        if self.calls.len() == CALLS {
            return Err(Fault::new(
                FailureClass::Malformed,
                format!("asked for more than {CALLS} calls in one answer"),
            ));
        }
        let wire_index = index.unwrap_or(self.calls.len() as u64);
        self.calls.push(OpenCall { wire_index, id: String::new(), named: false, held: String::new() });
        Ok(self.calls.len() - 1)
    }

    /// The end of the body, or of the patience with it. `request_bytes` is what an estimate of the usage begins with.
    pub(super) fn end(&mut self, request_bytes: usize) -> Result<Usage, Fault> {
        if self.finish.is_none() && !self.done {
            return Err(Fault::cut());
        }
        if self.calls.iter().any(|call| !call.named) {
            return Err(Fault::new(FailureClass::Malformed, "asked for a call without a name"));
        }
        match self.finish {
            _ if self.has_substance => {}
            Some(Finish::Filter) => {
                return Err(Fault::new(FailureClass::InvalidRequest, "withheld the answer (its content filter)"));
            }
            Some(Finish::Length) => {
                let what = "used the whole output limit without an answer; raise `max_output` of the model";
                return Err(Fault::new(FailureClass::InvalidRequest, what));
            }
            _ => return Err(Fault::new(FailureClass::Malformed, "gave an empty answer")),
        }
        let tokens = |bytes: usize| engine::estimate_tokens(bytes as u64);
        let estimate = || Usage { input: tokens(request_bytes), output: tokens(self.bytes), ..Usage::default() };
        Ok(self.usage.unwrap_or_else(estimate))
    }
}

fn not_a_frame(data: &[u8]) -> Fault {
    let begins = String::from_utf8_lossy(&data[..data.len().min(80)]).into_owned();
    Fault::new(FailureClass::Malformed, "sent something that is not its format").with_detail(begins)
}
