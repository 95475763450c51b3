//! What follows from the state alone. Called after every input until nothing more follows.

use super::Machine;
use crate::event::{CandidateCooled, CompactionFailed, RetryScheduled, StepBegun, WaitBegan, WaitEnded, WaitFor};
use crate::failure::{Failure, FailureClass};
use crate::ids::{Moment, Timestamp};
use crate::settings::{ResumeMode, Thinking};
use crate::state::{Lifecycle, Phase, PrepareStage};
use crate::tables::recovery::{AtEnd, Strategy, given_up, recover, rule_of};
use crate::tables::timers::Timer;

impl Machine {
    /// Takes every step that the state allows. Each one changes the phase or is the last, so this ends.
    pub(super) fn advance(&mut self, moment: Moment) {
        while self.fault.is_none() && self.step_once(moment) {}
    }

    /// Takes one step; says whether another may follow.
    fn step_once(&mut self, moment: Moment) -> bool {
        let Some(session) = self.session.as_ref().filter(|session| !session.closed) else { return false };
        let Lifecycle::Active(run) = &session.lifecycle else {
            self.advance_queue(moment);
            return false;
        };
        if let Some(ending) = run.ending {
            return self.advance_ending(ending.outcome, moment);
        }
        if self.stop_in_state(moment) {
            return false;
        }
        if self.make_way(moment) {
            return true;
        }
        let Some(phase) = self.phase() else { return false };
        match phase {
            Phase::Preparing { stage: PrepareStage::Gathering } => self.advance_preparing(moment),
            Phase::ToolExec | Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer, .. } => {
                let waited = matches!(phase, Phase::Awaiting { .. });
                self.advance_calls(moment);
                // A wait is a state to stop in as well.
                !waited && matches!(self.phase(), Some(Phase::Awaiting { .. }))
            }
            Phase::Error { failure } => {
                let failure = failure.clone();
                self.advance_error(&failure, moment)
            }
            Phase::Compacting { .. } => {
                self.fail_compaction(moment);
                true
            }
            Phase::Preparing { .. } | Phase::Streaming(_) | Phase::Awaiting { .. } | Phase::Retry { .. } => false,
        }
    }

    /// The next step of the run, or its first once the prompt is there.
    fn advance_preparing(&mut self, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(crate::state::Session::run) else { return false };
        let Some(prompt) = run.prompt else { return false };
        if run.step.answered {
            let step = run.step.no + 1;
            self.emit(StepBegun { step, prompt }, moment.now);
        }
        self.send_request(moment);
        // A request that was refused here is decided on like any failure.
        matches!(self.phase(), Some(Phase::Error { .. }))
    }

    fn advance_error(&mut self, failure: &Failure, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(crate::state::Session::run) else { return false };
        let counters = run.counters.clone();
        let chain = self.settings.as_ref().map_or(&[][..], |settings| &settings.candidates);
        let given_up = given_up(failure, &counters, chain);
        match recover(failure, &counters, chain, &self.limits(), moment) {
            Strategy::Fail => {
                let failure = all_failed(failure, &run.trace);
                self.settle_kept(ResumeMode::Continue, moment);
                self.end_run(crate::event::Outcome::Failed, Some(failure), moment);
            }
            Strategy::Hold => {
                // Whoever takes it up again tries again.
                self.try_again(0, None, None, moment);
                self.escalate(failure.clone(), moment);
            }
            Strategy::Retry { delay_ms } => self.try_again(delay_ms, None, None, moment),
            Strategy::LowerThinking { level } => self.try_again(0, None, Some(level), moment),
            Strategy::Rotate { candidate, cooling } => {
                self.give_up(&given_up, cooling, moment);
                self.try_again(0, Some(candidate), None, moment);
            }
            Strategy::Wait { until, cooling } => {
                self.settle_kept(self.resume_mode(), moment);
                self.give_up(&given_up, cooling, moment);
                self.emit(WaitBegan { on: WaitFor::Quota, until: Some(until) }, moment.now);
            }
        }
        true
    }

    fn give_up(&mut self, candidates: &[u32], until: Option<Timestamp>, moment: Moment) {
        for candidate in candidates {
            let model = self.name_of(*candidate);
            self.emit(CandidateCooled { candidate: *candidate, model, until }, moment.now);
        }
    }

    fn name_of(&self, candidate: u32) -> String {
        let of = self.settings.as_ref().and_then(|settings| settings.candidate(candidate));
        of.map(ToString::to_string).unwrap_or_default()
    }

    fn try_again(&mut self, delay_ms: u64, candidate: Option<u32>, thinking: Option<Thinking>, moment: Moment) {
        self.settle_kept(self.resume_mode(), moment);
        let Some(run) = self.session.as_ref().and_then(crate::state::Session::run) else { return };
        let (until, try_no) = (moment.now.plus(delay_ms), run.attempt + 1);
        let model = candidate.map(|candidate| self.name_of(candidate));
        self.emit(RetryScheduled { until, try_no, candidate, model, thinking }, moment.now);
        if delay_ms == 0 {
            self.emit(WaitEnded { on: WaitFor::Retry }, moment.now);
        }
    }

    /// Until histories can be summarised, an overflow is a readable end.
    pub(super) fn fail_compaction(&mut self, moment: Moment) {
        let said =
            self.session.as_ref().and_then(|s| s.run()).and_then(|run| run.trace.last()).map(ToString::to_string);
        let message = format!(
            "the conversation is longer than the model's window ({}); start a new session with `--session NAME`, or use a model with a larger window",
            said.unwrap_or_default()
        );
        let failure = Failure::new(FailureClass::ContextOverflow, message);
        self.emit(CompactionFailed { failure }, moment.now);
    }

    /// Everything whose time has come, soonest first.
    pub(super) fn expire(&mut self, moment: Moment) {
        while self.fault.is_none() {
            let Some(session) = self.session.as_ref().filter(|session| !session.closed) else { return };
            let due = self.timers(session).into_iter().filter(|(at, _)| *at <= moment.now).min();
            let Some((_, timer)) = due else { return };
            self.expire_one(timer, moment);
            self.advance(moment);
        }
    }

    fn expire_one(&mut self, timer: Timer, moment: Moment) {
        use crate::event::{CutCause, EndingCause, Outcome, ProcessCause};
        let limits = self.limits();
        match timer {
            Timer::RunDeadline => self.begin_ending(Outcome::TimedOut, CutCause::Deadline, moment),
            Timer::FirstByte => {
                let message = format!("no answer within {} s (`requests.first_byte_s`)", limits.first_byte_ms / 1000);
                self.request_expired(Failure::new(FailureClass::Timeout, message), moment);
            }
            Timer::Silent => {
                let message = format!("the answer stopped for {} s (`requests.silent_s`)", limits.silent_ms / 1000);
                self.request_expired(Failure::new(FailureClass::Stalled, message), moment);
            }
            Timer::CallLimit(call) => self.end_call(call, EndingCause::Limit, moment),
            Timer::RetryDue => self.emit(WaitEnded { on: WaitFor::Retry }, moment.now),
            Timer::QuotaReset => self.emit(WaitEnded { on: WaitFor::Quota }, moment.now),
            Timer::EndGrace => self.give_up_calls(moment),
            // The group at the head is completed by what follows from the state.
            Timer::GroupDue => {}
            Timer::ProcessLimit(process) => self.end_process(process, ProcessCause::Limit, moment),
        }
    }

    fn request_expired(&mut self, failure: Failure, moment: Moment) {
        let request = self.session.as_ref().and_then(|s| s.run()).and_then(|run| run.sent()).map(|sent| sent.request);
        if let Some(request) = request {
            self.request_failed(request, failure, moment);
        }
    }
}

/// The failure that a run ends with: where several candidates were tried, what became of each, a line each.
fn all_failed(last: &Failure, trace: &[Failure]) -> Failure {
    let who = |failure: &Failure| (failure.provider.clone(), failure.model.clone(), failure.profile.clone());
    let mut tried: Vec<&Failure> = vec![];
    for failure in trace {
        tried.retain(|before| who(before) != who(failure));
        tried.push(failure);
    }
    if tried.len() < 2 || rule_of(last.class).at_end == AtEnd::End {
        return last.clone();
    }
    let lines = tried.iter().map(|failure| {
        let name = |part: &Option<String>| part.clone().unwrap_or_else(|| "?".to_owned());
        let profile = failure.profile.as_ref().map(|profile| format!(" ({profile})")).unwrap_or_default();
        format!("\n{}/{}{profile}: {failure}", name(&failure.provider), name(&failure.model))
    });
    let message = format!("All models failed ({}):{}", tried.len(), lines.collect::<String>());
    Failure { message, ..last.clone() }
}
