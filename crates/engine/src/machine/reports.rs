//! What happened. A report about an effect that is not wanted any more changes nothing and is counted.

use std::sync::Arc;

use super::Machine;
use crate::event::{CallChecked, Closed, CutCause, Failed, Outcome, OutputAdded, Reported, RunStarted, Usage};
use crate::failure::Failure;
use crate::ids::{CallId, EffectId, EffectKind, Moment};
use crate::input::{Part, Report};
use crate::settings::Settings;
use crate::state::{Call, Phase, Session};
use crate::tables::compaction::CompactionStep;

impl Machine {
    pub(super) fn handle_report(&mut self, report: Report, moment: Moment) {
        match report {
            Report::Opened { epoch, cooling } => self.opened(epoch, &cooling, moment),
            // What is left alone is asked for by nobody sooner: nothing follows before the next request is decided on.
            Report::CooldownSet { cooling } => self.leave_alone(&cooling, moment),
            Report::CooldownLifted { cleared } => self.ask_again(&cleared, moment),
            Report::OpenedToWait { epoch } => self.opened_to_wait(epoch, moment),
            Report::Closing => self.closing(moment),
            Report::Due => self.expire(moment),
            Report::Escalated { failure } => self.escalate(failure, moment),
            Report::Delivered { .. }
            | Report::DeliveryFailed { .. }
            | Report::ChildEnded { .. }
            | Report::StoreFull
            | Report::StoreFreed => self.late += 1,
            effect_report => self.handle_effect(effect_report, moment),
        }
    }

    fn handle_effect(&mut self, report: Report, moment: Moment) {
        let Some(effect) = effect_of(&report).filter(|effect| self.wants(*effect)) else {
            self.late += 1;
            return;
        };
        match report {
            Report::LaneEntered { settings, cooling, .. } => {
                self.run_started(effect, &settings, moment);
                self.leave_alone(&cooling, moment);
            }
            Report::Reported { .. } => {
                self.emit(Reported { request: EffectId { kind: EffectKind::Request, ..effect } }, moment.now);
            }
            Report::LaneRefused { settings, failure, .. } => self.run_refused(effect, &settings, failure, moment),
            Report::Prepared { prompt, .. } => self.prepared(prompt, moment),
            Report::Reserved { near, .. } => self.reserved_by_all(near, moment),
            Report::Denied { limit, until, .. } => self.denied_by_all(&limit, until, moment),
            Report::RequestOpened { .. } => self.request_opened(effect, moment),
            // The hot path: nothing can follow from a piece of text.
            Report::Said { part, .. } => return self.said_and_go_on(effect, part, moment),
            Report::RequestEnded { usage, .. } => {
                self.request_ended(effect, usage, moment);
                self.finish_answered(moment);
            }
            Report::Compacted { made, .. } => self.shortened(effect, made, moment),
            Report::RequestFailed { failure, .. } if effect.kind == EffectKind::Compact => {
                self.compaction_failed(failure, Usage::default(), moment);
            }
            Report::NotCompacted { failure, usage, .. } => self.compaction_failed(failure, usage, moment),
            Report::RequestFailed { failure, .. } => self.request_failed(effect, failure, moment),
            Report::ProcessEnded { outcome, how, .. } => self.process_ended(effect, outcome, how, moment),
            call_report => self.handle_call(effect, call_report, moment),
        }
        self.advance(moment);
    }

    fn handle_call(&mut self, effect: EffectId, report: Report, moment: Moment) {
        let Some(call) = self.call_of(effect) else { return };
        match report {
            Report::CallChecked { decision, fingerprint, evidence, reason, .. } => {
                self.call_checked(CallChecked { call, decision, fingerprint, evidence, reason }, moment);
            }
            Report::CallOutput { offset, text, .. } => {
                let expected = self.call(call).is_some_and(|call| call.output_bytes == offset);
                if expected && !text.is_empty() {
                    self.emit(OutputAdded { effect, offset, text }, moment.now);
                }
            }
            Report::CallEnded { given, .. } => self.call_ended(call, given, moment),
            Report::CallFound { found, ended, .. } => self.call_found(call, found, ended, moment),
            _ => self.late += 1,
        }
    }

    fn call_of(&self, effect: EffectId) -> Option<CallId> {
        let run = self.session.as_ref().and_then(Session::run)?;
        let same = |call: &&Call| call.ordinal == effect.ordinal && call.effect(effect.kind) == effect;
        run.step.calls.iter().find(same).map(|call| call.id)
    }

    fn said_and_go_on(&mut self, effect: EffectId, part: Part, moment: Moment) {
        self.said(effect, part, moment);
        if !matches!(self.phase(), Some(Phase::Streaming(_))) {
            self.advance(moment);
        }
    }

    /// The head of the queue has its lane: its run starts under these settings, whatever the configuration says later.
    fn run_started(&mut self, lane: EffectId, settings: &Arc<Settings>, moment: Moment) {
        let content = settings.content();
        let hash = content.body.hash;
        self.keep(content);
        self.settings = Some(Arc::clone(settings));
        let inputs = self.take_starting(moment);
        self.emit(RunStarted { run: lane.run, inputs, settings: hash }, moment.now);
    }

    fn run_refused(&mut self, lane: EffectId, settings: &Arc<Settings>, failure: Failure, moment: Moment) {
        self.run_started(lane, settings, moment);
        self.emit(Failed { request: None, failure: failure.clone(), text: None }, moment.now);
        if matches!(self.phase(), Some(Phase::Compacting(_))) {
            self.fail_compaction(failure.clone(), CompactionStep::Nothing, moment);
        }
        self.end_run(Outcome::Failed, Some(failure), moment);
    }

    /// A message that asks for nothing is the answer.
    fn finish_answered(&mut self, moment: Moment) {
        let run = self.session.as_ref().and_then(Session::run);
        let finished = run.is_some_and(|run| run.step.answered && matches!(run.phase, Phase::Streaming(_)));
        if finished {
            self.end_run(Outcome::Completed, None, moment);
        }
    }

    /// The owner leaves in order: an open stream is cut and sealed, commands are left to their supervisors.
    fn closing(&mut self, moment: Moment) {
        let Some(session) = self.session.as_ref().filter(|session| !session.closed) else { return };
        let epoch = session.epoch;
        self.cut_stream(CutCause::Shutdown, moment);
        self.emit(Closed { epoch }, moment.now);
    }
}

/// The effect that a report is about, if it is of a kind that reports so.
fn effect_of(report: &Report) -> Option<EffectId> {
    use EffectKind::{CheckCall, Compact, EndCall, EndProcess, FindCall, HoldProcess, Lane, Prepare, Request, RunCall};
    let (effect, kinds): (_, &[EffectKind]) = match report {
        Report::LaneEntered { effect, .. } | Report::LaneRefused { effect, .. } => (effect, &[Lane]),
        Report::Prepared { effect, .. } => (effect, &[Prepare]),
        Report::Reserved { effect, .. } | Report::Denied { effect, .. } => (effect, &[EffectKind::Reserve]),
        Report::RequestOpened { effect } | Report::Said { effect, .. } | Report::RequestEnded { effect, .. } => {
            (effect, &[Request])
        }
        Report::RequestFailed { effect, .. } => (effect, &[Request, Prepare, Compact]),
        Report::Compacted { effect, .. } | Report::NotCompacted { effect, .. } => (effect, &[Compact]),
        Report::CallChecked { effect, .. } => (effect, &[CheckCall]),
        Report::CallOutput { effect, .. } => (effect, &[RunCall]),
        Report::CallEnded { effect, .. } => (effect, &[RunCall, EndCall]),
        Report::CallFound { effect, .. } => (effect, &[FindCall]),
        Report::ProcessEnded { effect, .. } => (effect, &[HoldProcess, EndProcess]),
        Report::Reported { effect } => (effect, &[EffectKind::Report]),
        _ => return None,
    };
    Some(*effect).filter(|effect| kinds.contains(&effect.kind))
}
