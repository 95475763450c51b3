//! Requests: sending, streaming, sealing, interrupting, failing.

use super::Machine;
use super::deliveries::TextEnds;
use super::failover::{Pick, pick};
use crate::body::{BodyKind, Content};
use crate::event::{
    BlockSigned, CallPartAdded, Failed, ImageMade, InterruptCause, MessageSealed, Next, Note, ReasoningAdded,
    RequestOpened, RequestSent, SealedCall, StopReason, StreamInterrupted, TextAdded, TextRetracted, Usage, WaitBegan,
    WaitFor,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{CallId, EffectId, EffectKind, Moment};
use crate::input::Part;
use crate::machine::model_notices::{NOT_RUN, mismatch_notice};
use crate::mutant;
use crate::settings::{Candidate, ResumeMode, ToolClass};
use crate::state::{Blocks, PartialCall, Phase, PrepareStage, Run, Session, Stream, WrapUp};
use crate::tables::limits::{CALLS_PER_MESSAGE, STREAM_BYTES, WINDOW_LEAST};

impl Machine {
    /// Sends the request that the transcript stands for now: the same request is a new try, another one a new number.
    pub(super) fn send_request(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        if let Err(unpaired) = session.conversation.transcript.check_new() {
            let message = format!("the history is not valid, so it was not sent: {unpaired}; this is a bug in limulus");
            let failure = Failure::new(FailureClass::Refused, message);
            return self.emit(Failed { request: None, failure, text: None }, moment.now);
        }
        let candidate = match self.pick(moment) {
            Pick::Ask(candidate) => candidate,
            Pick::Wait(until) => {
                return self.emit(WaitBegan { on: WaitFor::Quota, until: Some(until), limit: None }, moment.now);
            }
        };
        if let Some(failure) = self.too_small(candidate) {
            return self.emit(Failed { request: None, failure, text: None }, moment.now);
        }
        // A steer waits for the grant with its request, so that it is in no run that then ends without that request.
        if self.outgrew_grant(candidate, self.request_tokens(candidate)) && self.request_grant(moment) {
            return;
        }
        self.take_steers(moment);
        let tokens = self.request_tokens(candidate);
        let Some(session) = &self.session else { return };
        let Some(run) = session.run() else { return };
        let items = session.conversation.transcript.items().len() as u32;
        let (ordinal, try_no, _) = run.counts.request;
        let request = if self.is_sent_again() {
            run.effect(EffectKind::Request, ordinal, try_no + 1)
        } else {
            run.effect(EffectKind::Request, ordinal + 1, 1)
        };
        let (epoch, probe) = (session.account.epoch, run.counts.candidates.is_probe(candidate));
        let reserved = self.reserved(candidate, tokens, moment).filter(|_| !mutant!(BudgetNotReserved));
        self.emit(RequestSent { request, epoch, candidate, items, tokens, probe, reserved }, moment.now);
    }

    /// Whether the transcript stands for the request that was sent last.
    pub(super) fn is_sent_again(&self) -> bool {
        let Some(session) = &self.session else { return false };
        let (ordinal, _, sent_items) = session.run().map_or((0, 0, 0), |run| run.counts.request);
        ordinal > 0 && sent_items == session.conversation.transcript.items().len() as u32
    }

    /// Whether the next request asks for the rest of an answer.
    pub(super) fn continues(&self) -> bool {
        self.session.as_ref().is_some_and(Session::continues)
    }

    /// Whether the run has an answer that lacks only its rest.
    pub(super) fn has_part(&self) -> bool {
        self.session.as_ref().and_then(Session::run).is_some_and(Run::has_part)
    }

    pub(super) fn pick(&self, moment: Moment) -> Pick {
        let counters = self.session.as_ref().and_then(Session::run).map(|run| &run.counts.candidates);
        let chain = self.settings.as_ref().map_or(&[][..], |settings| &settings.candidates);
        counters.map_or(Pick::Ask(0), |counters| pick(counters, chain, &self.limits(), moment.now))
    }

    /// The context guard: an agent's request does not fit into a window that is too small.
    fn too_small(&self, candidate: u32) -> Option<Failure> {
        let Candidate { provider, model, context_window, .. } = self.settings.as_ref()?.candidate(candidate)?;
        if *context_window >= WINDOW_LEAST {
            return None;
        }
        let message = format!(
            "{provider}/{model} sees {context_window} tokens, and an agent needs {WINDOW_LEAST} at least: use another model, or set \
             `context_window` in [models.\"{provider}/{model}\"] if it sees more"
        );
        Some(Failure::new(FailureClass::Refused, message))
    }

    /// Resends a request that was in flight when its process died or the run was paused, and that had no byte yet.
    pub(super) fn send_again(&mut self, moment: Moment) {
        let run = self.session.as_ref().filter(|session| !session.account.closed).and_then(Session::run);
        let run = run.filter(|run| run.ending.is_none());
        if run.is_some_and(|run| matches!(run.phase, Phase::Compacting(Some(_)))) {
            return self.check_summary(moment);
        }
        let sent = run.is_some_and(|run| matches!(run.phase, Phase::Preparing { stage: PrepareStage::Sent(_) }));
        // The cost of the first one is unknown, so this one may exceed the budget.
        let may = |machine: &mut Self| match machine.pick(moment) {
            Pick::Ask(candidate) => machine.check_budget(candidate, moment),
            Pick::Wait(_) => true,
        };
        if sent && may(self) && !self.request_grant(moment) {
            self.send_request(moment);
        }
    }

    pub(super) fn request_opened(&mut self, request: EffectId, moment: Moment) {
        if matches!(self.phase(), Some(Phase::Preparing { .. })) {
            self.emit(RequestOpened { request }, moment.now);
            self.ask_title(moment);
        }
    }

    /// A piece of an answer.
    pub(super) fn said(&mut self, effect: EffectId, part: Part, moment: Moment) {
        self.request_opened(effect, moment);
        let Some(Phase::Streaming(stream)) = self.phase() else { return };
        let offset = stream.bytes;
        if offset > STREAM_BYTES {
            let message = format!("the answer exceeded {} MiB and was interrupted", STREAM_BYTES >> 20);
            return self.request_failed(effect, Failure::new(FailureClass::Malformed, message), moment);
        }
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Reasoning(text) if text.is_empty() => {}
            Part::Text(text) => self.emit(TextAdded { effect, offset, text }, moment.now),
            Part::Reasoning(text) => self.emit(ReasoningAdded { effect, offset, text }, moment.now),
            Part::Call { index, provider_id, name, arguments } => {
                self.emit(CallPartAdded { effect, offset, index, provider_id, name, arguments }, moment.now);
            }
            Part::Signature { signature, .. } if signature.is_empty() => {}
            Part::Signature { block, signature } => {
                self.emit(BlockSigned { effect, offset, block, signature }, moment.now);
            }
            Part::Image(image) => {
                let image = self.keep_attached(vec![image]).remove(0);
                self.emit(ImageMade { request: effect, image }, moment.now);
            }
        }
    }

    /// The provider's own end mark came.
    pub(super) fn request_ended(
        &mut self,
        request: EffectId,
        (usage, stop_reason): (Usage, Option<StopReason>),
        schema_mismatch: Option<String>,
        moment: Moment,
    ) {
        self.request_opened(request, moment);
        let Some(Phase::Streaming(stream)) = self.phase() else { return };
        if stream.calls.len() > CALLS_PER_MESSAGE {
            let message =
                format!("the answer asks for {} calls, at most {CALLS_PER_MESSAGE} are taken", stream.calls.len());
            return self.request_failed(request, Failure::new(FailureClass::Malformed, message), moment);
        }
        let run = self.session.as_ref().and_then(Session::run);
        let is_empty = stream.calls.is_empty() && stream.text.trim().is_empty() && stream.images.is_empty();
        // The continuation of an answer that is whole says nothing.
        if is_empty && !self.continues() {
            let failure = Failure::new(FailureClass::Malformed, "the model gave an empty answer");
            return self.request_failed(request, failure, moment);
        }
        let stream = stream.clone();
        let closes = run.is_some_and(|run| run.budget.wrap_up == WrapUp::Closing);
        let most = self.limits().continuations;
        let goes_on =
            stop_reason == Some(StopReason::Length) && !is_empty && run.is_some_and(|run| run.step.continued < most);
        let is_first = run.is_some_and(|run| !run.has_schema_mismatch);
        let is_passed = mutant!(SchemaMismatchOfRestPassed) && self.continues();
        let schema_mismatch = schema_mismatch
            .filter(|_| stop_reason.is_none() && (is_first || mutant!(SchemaMismatchRepeated)) && !is_passed);
        let next = match (stream.calls.is_empty(), self.steer_waits() || closes) {
            (false, _) => Next::Calls,
            (true, false) if goes_on => Next::Continue,
            (true, false) if schema_mismatch.is_some() => Next::Steer,
            (true, false) => Next::Finish,
            (true, true) => Next::Steer,
        };
        let asks_again = schema_mismatch.filter(|_| next == Next::Steer && !self.steer_waits() && !closes);
        self.send_blocks(TextEnds::before(next), moment);
        self.seal(&stream, (usage, stop_reason), next, NOT_RUN, moment);
        if let Some(why) = asks_again {
            // In one batch with the message: a crash can neither lose the second try nor make a third one.
            self.note(Note::SchemaMismatch, &mismatch_notice(&why), moment);
        }
    }

    /// Makes a message of a stream. If the stream was interrupted, complete calls are answered and incomplete ones
    /// dropped.
    fn seal(
        &mut self,
        stream: &Stream,
        (usage, stop_reason): (Usage, Option<StopReason>),
        next: Next,
        not_run: &str,
        moment: Moment,
    ) {
        let text = (!stream.text.is_empty()).then(|| self.keep_text(BodyKind::Message, &stream.text));
        let mut blocks = stream.blocks.clone();
        let reasoning =
            if next == Next::Cut { blocks.keep_signed(&stream.reasoning) } else { stream.reasoning.clone() };
        let reasoning = (!reasoning.is_empty()).then(|| self.keep_text(BodyKind::Reasoning, &reasoning));
        let mut partial: Vec<&PartialCall> = stream.calls.iter().collect();
        partial.sort_by_key(|call| call.index);
        partial.retain(|call| next != Next::Cut || is_complete(call));
        let indices: Vec<u32> = partial.iter().map(|call| call.index).collect();
        let calls = (0..partial.len())
            .map(|at| self.sealed_call(&partial, at, stop_reason, (next == Next::Cut).then_some(not_run)))
            .collect::<Vec<_>>();
        let images = stream.images.clone();
        let cost = self.candidate_in_use().map_or(0, |candidate| candidate.cost(&usage));
        if next == Next::Cut && text.is_none() && calls.is_empty() && images.is_empty() {
            return;
        }
        let blocks = blocks.sealed(|index| indices.iter().position(|known| *known == index).map(|at| at as u32));
        let blocks = blocks.map(|blocks| self.keep(Blocks { model: self.model_name(), blocks }.content()));
        let request = stream.sent.request;
        self.emit(
            MessageSealed { request, text, reasoning, calls, usage, cost, stop_reason, next, blocks, images },
            moment.now,
        );
    }

    /// The candidate that the run asks.
    fn candidate_in_use(&self) -> Option<&Candidate> {
        let run = self.session.as_ref().and_then(Session::run)?;
        self.settings.as_ref()?.candidate(run.counts.candidates.candidate)
    }

    /// The model of the request in flight, `PROVIDER/MODEL`.
    fn model_name(&self) -> String {
        let candidate = self.candidate_in_use();
        candidate.map(|candidate| format!("{}/{}", candidate.provider, candidate.model)).unwrap_or_default()
    }

    /// A call without an id, or with the id of an earlier call, gets its own: its result names it.
    fn sealed_call(
        &mut self,
        partial: &[&PartialCall],
        at: usize,
        stop_reason: Option<StopReason>,
        not_run: Option<&str>,
    ) -> SealedCall {
        let call = partial[at];
        let is_known = partial[..at].iter().any(|other| other.provider_id == call.provider_id);
        let run = self.session.as_ref().and_then(Session::run).expect("a stream belongs to a run");
        let (step, index) = (run.step.no, run.step.asked + at as u32);
        let id = CallId { run: run.id, step, index };
        let class = self.settings.as_ref().and_then(|s| s.tool(&call.name)).map_or(ToolClass::Once, |tool| tool.class);
        // The last call of an answer that was cut may lack its arguments; it must not run with none.
        let may_be_cut = stop_reason.is_some() && at + 1 == partial.len();
        let has_none = call.arguments.trim().is_empty() && !may_be_cut;
        let arguments = if has_none { "{}" } else { &call.arguments };
        let arguments = self.keep_text(BodyKind::Arguments, arguments);
        let answer = not_run.map(|sentence| self.keep_text(BodyKind::Output, sentence));
        let has_id = !call.provider_id.is_empty() && !is_known;
        let provider_id = if has_id { call.provider_id.clone() } else { format!("call_{step}_{index}") };
        SealedCall { id, provider_id, tool: call.name.clone(), class, arguments, answer }
    }

    /// Closes an open stream. The cause decides what happens to its text.
    pub(super) fn interrupt_stream(&mut self, cause: InterruptCause, moment: Moment) {
        let Some(Phase::Streaming(stream)) = self.phase() else { return };
        let stream = stream.clone();
        let request = stream.sent.request;
        let keeps = !stream.text.is_empty() && !mutant!(CutTextLost);
        let text = keeps.then(|| self.keep_text(BodyKind::Message, &stream.text));
        let restarts = match cause {
            InterruptCause::Crash | InterruptCause::Shutdown | InterruptCause::Pause => {
                self.resume_mode() == ResumeMode::Restart
            }
            InterruptCause::Steer | InterruptCause::Interrupt | InterruptCause::Abort | InterruptCause::Deadline => {
                false
            }
        };
        if !restarts {
            self.send_blocks(TextEnds::Midway, moment);
        }
        self.emit(StreamInterrupted { request, cause, text }, moment.now);
        if !restarts {
            self.seal(&stream, (Usage::default(), None), Next::Cut, self.not_run(cause), moment);
        } else if text.is_some() {
            self.emit(TextRetracted { request }, moment.now);
        }
    }

    /// A request failed, before or after its first byte. If the model is to continue from its partial text, that is a
    /// message at once; else it is kept until it is decided what follows.
    pub(super) fn request_failed(&mut self, effect: EffectId, failure: Failure, moment: Moment) {
        let stream = if let Some(Phase::Streaming(stream)) = self.phase() { Some(stream.clone()) } else { None };
        let said = stream.as_ref().map(|stream| stream.text.clone()).filter(|text| !text.is_empty());
        let text = said.map(|text| self.keep_text(BodyKind::Message, &text));
        // The calls of an answer that is itself the failure get no results.
        let go_on = self.resume_mode() == ResumeMode::Continue && failure.class != FailureClass::Malformed;
        let failure = self.named(failure);
        if go_on {
            self.send_blocks(TextEnds::Midway, moment);
        }
        self.emit(Failed { request: Some(effect), failure, text }, moment.now);
        if let Some(stream) = stream.filter(|_| go_on) {
            self.seal(&stream, (Usage::default(), None), Next::Cut, NOT_RUN, moment);
        }
    }

    /// The same for the candidate in use, if the failure names none: time runs out here, not at the provider.
    fn named(&self, failure: Failure) -> Failure {
        let run = self.session.as_ref().and_then(Session::run);
        let asked = run.and_then(|run| self.settings.as_ref()?.candidate(run.counts.candidates.candidate));
        match asked.filter(|_| failure.provider.is_none()) {
            Some(Candidate { provider, model, profile, .. }) => Failure {
                provider: Some(provider.clone()),
                model: Some(model.clone()),
                profile: profile.clone(),
                ..failure
            },
            None => failure,
        }
    }

    /// Before a failed request is sent again: its kept text is retracted, or becomes a message that the model
    /// continues.
    pub(super) fn settle_kept(&mut self, go_on: ResumeMode, moment: Moment) {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let Some(text) = run.step.kept.last().copied() else { return };
        let (ordinal, try_no, _) = run.counts.request;
        let request = run.effect(EffectKind::Request, ordinal, try_no);
        match go_on {
            ResumeMode::Restart => self.emit(TextRetracted { request }, moment.now),
            ResumeMode::Continue => {
                let sealed = MessageSealed {
                    request,
                    text: Some(text),
                    reasoning: None,
                    calls: vec![],
                    usage: Usage::default(),
                    cost: 0,
                    stop_reason: None,
                    next: Next::Cut,
                    blocks: None,
                    images: vec![],
                };
                self.emit(sealed, moment.now);
                self.send_kept(text, moment);
            }
        }
    }

    /// Text of which a block went out cannot be taken back: it is continued.
    pub(super) fn resume_mode(&self) -> ResumeMode {
        let blocks = self.session.as_ref().and_then(Session::run).and_then(|run| run.blocks.as_ref());
        if blocks.is_some_and(|blocks| blocks.taken > 0) {
            return ResumeMode::Continue;
        }
        self.settings.as_ref().map(|settings| settings.resume).unwrap_or_default()
    }

    pub(super) fn phase(&self) -> Option<&Phase> {
        self.session.as_ref().and_then(Session::run).map(|run| &run.phase)
    }

    pub(super) fn prepared(&mut self, prompt: Content, moment: Moment) {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let step = run.step.no + 1;
        let prompt = self.keep(prompt);
        self.emit(crate::event::StepBegun { step, prompt }, moment.now);
    }
}

/// Whether a call of an interrupted stream is complete: it has a name, and its arguments are a whole JSON object.
fn is_complete(call: &PartialCall) -> bool {
    let arguments = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
    !call.name.is_empty() && arguments.is_ok()
}
