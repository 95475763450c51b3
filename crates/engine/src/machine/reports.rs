//! Reports. A report about an effect that is no longer wanted changes nothing and is counted.

use std::sync::Arc;

use super::Machine;
use super::deliveries::TextEnds;
use super::processes::ProcessEnd;
use crate::event::{
    CallChecked, Closed, Failed, InterruptCause, Outcome, OutputAdded, Reported, RunStarted, Usage, WaitEnded, WaitFor,
};
use crate::failure::Failure;
use crate::ids::{CallId, EffectId, EffectKind, Moment};
use crate::input::{Part, Report};
use crate::settings::Settings;
use crate::state::{Call, Phase, Session};
use crate::tables::compaction::CompactionStep;

impl Machine {
    pub(super) fn handle_report(&mut self, report: Report, moment: Moment) {
        if about(&report).is_some_and(|(effect, kinds)| !kinds.contains(&effect.kind) || !self.wants(effect)) {
            self.late += 1;
            return;
        }
        match report {
            Report::Opened { epoch, cooling } => return self.opened(epoch, &cooling, moment),
            // A candidate in cooldown is asked no sooner: nothing follows before the next request is decided on.
            Report::CooldownSet { cooling } => return self.learn_cooldowns(&cooling, moment),
            Report::CooldownLifted { cleared } => return self.lift_cooldowns(&cleared, moment),
            Report::OpenedToWait { epoch } => return self.opened_to_wait(epoch, moment),
            Report::Closing => return self.closing(moment),
            Report::Due => return self.expire(moment),
            Report::Escalated { failure, repair } => return self.escalate(failure, repair, moment),
            Report::Delivered { effect } => self.delivered(effect, moment),
            Report::DeliveryFailed { effect, why, fault } => self.delivery_failed(effect, why, fault, moment),
            Report::ChildEnded { .. } | Report::StoreFull | Report::StoreFreed => {
                self.late += 1;
                return;
            }
            Report::LaneChecked { is_free } => return self.lane_checked(is_free),
            Report::BudgetShared => return self.budget_shared = true,
            Report::LaneEntered { effect, settings, cooling } => {
                self.lane_entered(effect, &settings, moment);
                self.learn_cooldowns(&cooling, moment);
            }
            Report::Reported { effect } => {
                self.emit(Reported { request: EffectId { kind: EffectKind::Request, ..effect } }, moment.now);
            }
            Report::LaneRefused { effect, settings, failure } => self.run_refused(effect, &settings, failure, moment),
            Report::Prepared { prompt, .. } => self.prepared(prompt, moment),
            Report::Reserved { near, .. } => self.reserved_by_all(near, moment),
            Report::Denied { limit, until, .. } => self.denied_by_all(&limit, until, moment),
            Report::RequestOpened { effect } => self.request_opened(effect, moment),
            // The hot path: nothing can follow from a piece of text.
            Report::Streamed { effect, part } => return self.part_came(effect, part, moment),
            Report::RequestEnded { effect, usage, stop_reason, schema_mismatch } => {
                self.request_ended(effect, (usage, stop_reason), schema_mismatch, moment);
                self.finish_answered(moment);
            }
            Report::Compacted { effect, made } => self.compacted(effect, made, moment),
            Report::Titled { title, by, usage, .. } => self.titled(title, by, usage, moment),
            Report::RequestFailed { effect, failure } if effect.kind == EffectKind::Compact => {
                self.compaction_failed(failure, Usage::default(), moment);
            }
            Report::NotCompacted { failure, usage, .. } => self.compaction_failed(failure, usage, moment),
            Report::RequestFailed { effect, failure } => self.request_failed(effect, failure, moment),
            Report::ProcessEnded { effect, outcome, how, changes } => {
                self.process_ended(effect, ProcessEnd { outcome, how, changes }, moment);
            }
            Report::Undone { effect, left } => self.undone(effect, left, moment),
            Report::Erased { effect, result } => self.erased(effect, result, moment),
            Report::CallChecked { effect, decision, fingerprint, evidence, reason, timeout_ms, grant, question } => {
                if let Some(call) = self.call_of(effect) {
                    let checked = CallChecked { call, decision, fingerprint, evidence, reason, timeout_ms, grant };
                    self.call_checked(checked, question, moment);
                }
            }
            Report::CallOutput { effect, offset, text } => self.call_output(effect, offset, text, moment),
            Report::CallEnded { effect, given } => {
                if let Some(call) = self.call_of(effect) {
                    self.call_ended(call, given, moment);
                }
            }
            Report::CallFound { effect, found, ended } => {
                if let Some(call) = self.call_of(effect) {
                    self.call_found(call, found, ended, moment);
                }
            }
        }
        self.advance(moment);
    }

    fn call_output(&mut self, effect: EffectId, offset: u64, text: String, moment: Moment) {
        let call = self.call_of(effect).and_then(|call| self.call(call));
        if call.is_some_and(|call| call.output_bytes == offset) && !text.is_empty() {
            self.emit(OutputAdded { effect, offset, text }, moment.now);
        }
    }

    fn call_of(&self, effect: EffectId) -> Option<CallId> {
        let run = self.session.as_ref().and_then(Session::run)?;
        let same = |call: &&Call| call.ordinal == effect.ordinal && call.effect(effect.kind) == effect;
        run.step.calls.iter().find(same).map(|call| call.id)
    }

    fn part_came(&mut self, effect: EffectId, part: Part, moment: Moment) {
        self.said(effect, part, moment);
        self.send_blocks(TextEnds::Not, moment);
        if !matches!(self.phase(), Some(Phase::Streaming(_))) {
            self.advance(moment);
        }
    }

    fn lane_checked(&mut self, is_free: bool) {
        self.lane_full = !is_free;
    }

    fn lane_entered(&mut self, lane: EffectId, settings: &Arc<Settings>, moment: Moment) {
        if is_again(lane) {
            self.lane_full = false;
            return self.emit(WaitEnded { on: WaitFor::Lane }, moment.now);
        }
        self.run_started(lane, settings, moment);
        self.set_first_breakpoints(lane.run, moment);
    }

    /// The head of the queue has its slot: its run starts under these settings, whatever the configuration says later.
    fn run_started(&mut self, lane: EffectId, settings: &Arc<Settings>, moment: Moment) {
        let content = settings.content();
        let hash = content.body.hash;
        self.keep(content);
        self.settings = Some(Arc::clone(settings));
        let inputs = self.take_starting(moment);
        self.state_facts(&inputs, moment);
        let blocks = self.sends_blocks(&inputs);
        self.emit(RunStarted { run: lane.run, inputs, settings: hash, blocks }, moment.now);
    }

    fn run_refused(&mut self, lane: EffectId, settings: &Arc<Settings>, failure: Failure, moment: Moment) {
        // The settings of a run that has started were resolved then.
        if is_again(lane) {
            self.late += 1;
            return;
        }
        self.run_started(lane, settings, moment);
        self.emit(Failed { request: None, failure: failure.clone(), text: None }, moment.now);
        if matches!(self.phase(), Some(Phase::Compacting(_))) {
            self.fail_compaction(failure.clone(), CompactionStep::Nothing, moment);
        }
        self.end_run(Outcome::Failed, Some(failure), moment);
    }

    /// A message without calls is the answer.
    fn finish_answered(&mut self, moment: Moment) {
        let run = self.session.as_ref().and_then(Session::run);
        let finished = run.is_some_and(|run| run.step.answered && matches!(run.phase, Phase::Streaming(_)));
        if finished {
            self.end_run(Outcome::Completed, None, moment);
        }
    }

    /// The owner shuts down in order: an open stream is interrupted and sealed, commands are left to their supervisors.
    fn closing(&mut self, moment: Moment) {
        let Some(session) = self.session.as_ref().filter(|session| !session.account.closed) else { return };
        let epoch = session.account.epoch;
        self.interrupt_stream(InterruptCause::Shutdown, moment);
        self.emit(Closed { epoch }, moment.now);
    }
}

/// Whether this effect gets a slot of the lane for a run that had one before.
fn is_again(lane: EffectId) -> bool {
    lane.ordinal > 1
}

/// The effect that a report is about, and the kinds of effect that send such reports; none for a report about no
/// effect.
fn about(report: &Report) -> Option<(EffectId, &'static [EffectKind])> {
    use EffectKind::{CheckCall, Compact, EndCall, EndProcess, FindCall, HoldProcess, Lane, Prepare, Request, RunCall};
    Some(match report {
        Report::LaneEntered { effect, .. } | Report::LaneRefused { effect, .. } => (*effect, &[Lane]),
        Report::Prepared { effect, .. } => (*effect, &[Prepare]),
        Report::Reserved { effect, .. } | Report::Denied { effect, .. } => (*effect, &[EffectKind::Reserve]),
        Report::RequestOpened { effect } | Report::Streamed { effect, .. } | Report::RequestEnded { effect, .. } => {
            (*effect, &[Request])
        }
        Report::RequestFailed { effect, .. } => (*effect, &[Request, Prepare, Compact]),
        Report::Compacted { effect, .. } | Report::NotCompacted { effect, .. } => (*effect, &[Compact]),
        Report::Titled { effect, .. } => (*effect, &[EffectKind::Title]),
        Report::CallChecked { effect, .. } => (*effect, &[CheckCall]),
        Report::CallOutput { effect, .. } => (*effect, &[RunCall]),
        Report::CallEnded { effect, .. } => (*effect, &[RunCall, EndCall]),
        Report::CallFound { effect, .. } => (*effect, &[FindCall]),
        Report::ProcessEnded { effect, .. } => (*effect, &[HoldProcess, EndProcess]),
        Report::Reported { effect } => (*effect, &[EffectKind::Report]),
        Report::Delivered { effect } | Report::DeliveryFailed { effect, .. } => (*effect, &[EffectKind::Deliver]),
        Report::Undone { effect, .. } => (*effect, &[EffectKind::Undo]),
        Report::Erased { effect, .. } => (*effect, &[EffectKind::Erase]),
        Report::Opened { .. }
        | Report::CooldownSet { .. }
        | Report::CooldownLifted { .. }
        | Report::OpenedToWait { .. }
        | Report::LaneChecked { .. }
        | Report::BudgetShared
        | Report::Closing
        | Report::Due
        | Report::Escalated { .. }
        | Report::ChildEnded { .. }
        | Report::StoreFull
        | Report::StoreFreed => return None,
    })
}
