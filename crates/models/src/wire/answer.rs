//! The answer as far as it has come: what was said, within the limits, and whether it is whole.

use std::collections::VecDeque;

use engine::{Attached, BlockOf, FailureClass, Part, Usage};

use crate::fault::Fault;
use crate::limits::{ANSWER_BYTES, CALLS};
use crate::model::ModelEvent;

/// How the provider says that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is done, or wants its calls run.
    Finished,
    /// It came to its output limit.
    Length,
    /// It filled the model's window.
    Window,
    /// A filter stopped it.
    Filtered,
}

/// What a decoder fills and the exchange hands on.
#[derive(Debug, Default)]
pub(crate) struct DecodedResponse {
    said: VecDeque<ModelEvent>,
    is_open: bool,
    stop: Option<Stop>,
    is_done: bool,
    usage: Option<Usage>,
    bytes: usize,
    calls: u32,
    /// There is text, an image or a call: something that a run can end or go on with.
    has_substance: bool,
}

impl DecodedResponse {
    /// A frame of the answer has come.
    pub(crate) fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.said.push_back(ModelEvent::Opened);
        }
    }

    /// Text; none if it is empty.
    pub(crate) fn text(&mut self, text: String) -> Result<(), Fault> {
        self.has_substance |= !text.is_empty();
        self.say(text, Part::Text)
    }

    /// Reasoning; none if it is empty.
    pub(crate) fn reasoning(&mut self, text: String) -> Result<(), Fault> {
        self.say(text, Part::Reasoning)
    }

    fn say(&mut self, text: String, part: fn(String) -> Part) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        self.part(part(text));
        Ok(())
    }

    /// The provider's signature of the last block of this kind.
    pub(crate) fn signature(&mut self, block: BlockOf, signature: String) -> Result<(), Fault> {
        if signature.is_empty() {
            return Ok(());
        }
        self.count(signature.len())?;
        self.part(Part::Signature { block, signature });
        Ok(())
    }

    /// An image, whole.
    pub(crate) fn image(&mut self, image: Attached) -> Result<(), Fault> {
        self.count(image.content.bytes.len())?;
        self.has_substance = true;
        self.part(Part::Image(image));
        Ok(())
    }

    /// A place for another call.
    pub(crate) fn place(&mut self) -> Result<u32, Fault> {
        if self.calls as usize == CALLS {
            return Err(malformed(format!("asked for more than {CALLS} calls in one answer")));
        }
        self.has_substance = true;
        self.calls += 1;
        Ok(self.calls - 1)
    }

    /// The first part of a call.
    pub(crate) fn call(&mut self, index: u32, id: &str, name: String, arguments: String) -> Result<(), Fault> {
        self.count(id.len() + name.len() + arguments.len())?;
        let provider_id = Some(id.to_owned()).filter(|id| !id.is_empty());
        self.part(Part::Call { index, provider_id, name: Some(name), arguments });
        Ok(())
    }

    /// What is added to its arguments.
    pub(crate) fn arguments(&mut self, index: u32, arguments: String) -> Result<(), Fault> {
        if arguments.is_empty() {
            return Ok(());
        }
        self.count(arguments.len())?;
        self.part(Part::Call { index, provider_id: None, name: None, arguments });
        Ok(())
    }

    /// Counts what a decoder holds back.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes > ANSWER_BYTES {
            return Err(malformed(format!("sent more than {ANSWER_BYTES} bytes in one answer")));
        }
        Ok(())
    }

    fn part(&mut self, part: Part) {
        self.open();
        self.said.push_back(ModelEvent::Part(part));
    }

    /// The provider said why it stopped; only the usage may follow.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// The end mark came: nothing follows.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
    }

    /// What it costs, as the provider counts it; the last figures stand.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Whether the provider said what it costs.
    pub(crate) fn is_counted(&self) -> bool {
        self.usage.is_some()
    }

    pub(crate) fn next_said(&mut self) -> Option<ModelEvent> {
        self.said.pop_front()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    /// No frame has come yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_open && !self.is_done
    }

    /// Whether it is whole, and what it cost.
    pub(crate) fn end(&self, request_bytes: usize) -> Result<Usage, Fault> {
        if self.stop.is_none() && !self.is_done {
            return Err(Fault::cut());
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
        let tokens = |bytes: usize| engine::estimate_tokens(bytes as u64);
        let estimate = || Usage { input: tokens(request_bytes), output: tokens(self.bytes), ..Usage::default() };
        Ok(self.usage.unwrap_or_else(estimate))
    }
}

/// Something that is not the format.
pub(crate) fn malformed(what: impl Into<String>) -> Fault {
    Fault::new(FailureClass::Malformed, what)
}
