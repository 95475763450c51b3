//! The answer so far: its content, within the limits, and whether it is complete.

use std::collections::VecDeque;

use engine::{Attached, BlockOf, FailureClass, Hash, Part, StopReason, Usage};

use crate::fault::Fault;
use crate::limits::{ANSWER_BYTES, CALLS, ID_BYTES, NAME_BYTES, PART_BYTES};
use crate::model::ModelEvent;

/// The provider's finish reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The model is done, or waits for the results of its calls.
    Finished,
    /// The answer reached its output limit.
    Length,
    /// The answer filled the model's window.
    Window,
    /// A content filter stopped it.
    Filtered,
}

/// The answer that a decoder fills and the exchange forwards.
#[derive(Debug, Default)]
pub(crate) struct DecodedResponse {
    events: VecDeque<ModelEvent>,
    is_open: bool,
    stop: Option<Stop>,
    is_done: bool,
    usage: Option<Usage>,
    bytes: usize,
    calls: u32,
    /// Whether there is text, an image or a call, with which a run can end or continue.
    has_substance: bool,
}

impl DecodedResponse {
    /// Marks that a frame of the answer arrived.
    pub(crate) fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.events.push_back(ModelEvent::Opened);
        }
    }

    /// Adds text, unless it is empty.
    pub(crate) fn text(&mut self, text: String) -> Result<(), Fault> {
        self.has_substance |= !text.is_empty();
        self.say(text, Part::Text)
    }

    /// Adds reasoning, unless it is empty.
    pub(crate) fn reasoning(&mut self, text: String) -> Result<(), Fault> {
        self.say(text, Part::Reasoning)
    }

    fn say(&mut self, text: String, part: fn(String) -> Part) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        // A server may send the whole answer as one piece.
        let mut rest = text.as_str();
        while rest.len() > PART_BYTES {
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
            self.part(part(piece.to_owned()));
            rest = behind;
        }
        let last = if rest.len() == text.len() { text } else { rest.to_owned() };
        self.part(part(last));
        Ok(())
    }

    /// Adds the provider's signature of the last block of this kind.
    pub(crate) fn signature(&mut self, block: BlockOf, signature: String) -> Result<(), Fault> {
        if signature.is_empty() {
            return Ok(());
        }
        self.count(signature.len())?;
        self.part(Part::Signature { block, signature });
        Ok(())
    }

    /// Adds a whole image.
    pub(crate) fn image(&mut self, image: Attached) -> Result<(), Fault> {
        self.count(image.content.bytes.len())?;
        self.has_substance = true;
        self.part(Part::Image(image));
        Ok(())
    }

    /// Reserves the position of another call.
    pub(crate) fn place(&mut self) -> Result<u32, Fault> {
        if self.calls as usize == CALLS {
            return Err(malformed(format!("asked for more than {CALLS} calls in one answer")));
        }
        self.has_substance = true;
        self.calls += 1;
        Ok(self.calls - 1)
    }

    /// Adds the first part of a call.
    pub(crate) fn call(&mut self, index: u32, id: &str, name: String, arguments: String) -> Result<(), Fault> {
        self.count(id.len() + name.len() + arguments.len())?;
        // A longer name names no tool, and is shown and kept with each call. A longer id only has to differ from others.
        let name = if name.len() > NAME_BYTES { bounded(&name) } else { name };
        let id = if id.len() > ID_BYTES { Hash::of(id.as_bytes()).to_string() } else { id.to_owned() };
        let provider_id = Some(id).filter(|id| !id.is_empty());
        self.part(Part::Call { index, provider_id, name: Some(name), arguments });
        Ok(())
    }

    /// Adds to the arguments of a call.
    pub(crate) fn arguments(&mut self, index: u32, arguments: String) -> Result<(), Fault> {
        if arguments.is_empty() {
            return Ok(());
        }
        self.count(arguments.len())?;
        self.part(Part::Call { index, provider_id: None, name: None, arguments });
        Ok(())
    }

    /// Counts bytes that a decoder holds back.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes > ANSWER_BYTES {
            return Err(malformed(format!("sent more than {ANSWER_BYTES} bytes in one answer")));
        }
        Ok(())
    }

    fn part(&mut self, part: Part) {
        self.open();
        self.events.push_back(ModelEvent::Part(part));
    }

    /// Sets the finish reason; only the usage may follow.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// Records the end mark: nothing follows.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
    }

    /// Sets the usage that the provider reports; the last figures count.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Whether the provider reported the usage.
    pub(crate) fn is_counted(&self) -> bool {
        self.usage.is_some()
    }

    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether no frame has arrived yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_open && !self.is_done
    }

    /// Why the answer ended early.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        match self.stop? {
            Stop::Finished => None,
            Stop::Length | Stop::Window => Some(StopReason::Length),
            Stop::Filtered => Some(StopReason::ContentFilter),
        }
    }

    /// Whether the answer ended without content, and not because the conversation left no space for it.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_substance && self.stop.is_some_and(|stop| stop != Stop::Window)
    }

    /// Checks that the answer is complete; returns its usage.
    pub(crate) fn end(&self, request_bytes: usize) -> Result<Usage, Fault> {
        if self.stop.is_none() && !self.is_done {
            return Err(Fault::interrupted());
        }
        match self.stop {
            _ if self.has_substance => {}
            Some(Stop::Filtered) => {
                return Err(Fault::new(FailureClass::InvalidRequest, "withheld the answer (its content filter)"));
            }
            Some(Stop::Length) => {
                let what = "used the whole output limit without an answer; raise `max_output` of the model";
                return Err(Fault::new(FailureClass::InvalidRequest, what));
            }
            Some(Stop::Window) => {
                let what = "filled the context window without an answer";
                return Err(Fault::new(FailureClass::ContextOverflow, what));
            }
            _ => return Err(malformed("gave an empty answer")),
        }
        Ok(self.counted(request_bytes))
    }

    /// The usage: the provider's figures, else an estimate.
    pub(crate) fn counted(&self, request_bytes: usize) -> Usage {
        let tokens = |bytes: usize| engine::estimate_tokens(bytes as u64);
        let estimate = || Usage { input: tokens(request_bytes), output: tokens(self.bytes), ..Usage::default() };
        self.usage.unwrap_or_else(estimate)
    }
}

/// The beginning of a name.
fn bounded(name: &str) -> String {
    let mark = '…';
    format!("{}{mark}", &name[..name.floor_char_boundary(NAME_BYTES - mark.len_utf8())])
}

/// The fault for data that does not match the format.
pub(crate) fn malformed(what: impl Into<String>) -> Fault {
    Fault::new(FailureClass::Malformed, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str) -> (String, String) {
        let mut answer = DecodedResponse::default();
        answer.call(0, id, name.to_owned(), "{}".to_owned()).unwrap();
        loop {
            if let ModelEvent::Part(Part::Call { provider_id, name, .. }) = answer.next_event().expect("a call") {
                return (provider_id.unwrap_or_default(), name.unwrap_or_default());
            }
        }
    }

    #[test]
    fn r50_the_name_and_the_id_of_a_call_are_bounded() {
        assert_eq!(call("call_1", "exec"), ("call_1".to_owned(), "exec".to_owned()));
        for name in ["x".repeat(5 << 20), "好".repeat(2 << 20), format!("exec{}", " ".repeat(1 << 20))] {
            let (_, kept) = call("call_1", &name);
            assert!(kept.len() <= NAME_BYTES && kept.ends_with('…'), "{} bytes", kept.len());
        }
        let long = "i".repeat(1 << 20);
        let (kept, other) = (call(&long, "exec").0, call(&(long + "j"), "exec").0);
        assert!(kept.len() <= ID_BYTES && kept != other, "two ids stay two");
    }
}
