//! What follows from the state alone. Called after every input until nothing more follows.

use super::Machine;
use crate::event::{CompactionFailed, RetryScheduled, StepBegun, WaitEnded, WaitFor};
use crate::failure::{Failure, FailureClass};
use crate::ids::Moment;
use crate::settings::ResumeMode;
use crate::state::{Lifecycle, Phase, PrepareStage};
use crate::tables::recovery::{Strategy, recover};
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
        let limits = self.limits();
        let Some(run) = self.session.as_ref().and_then(crate::state::Session::run) else { return false };
        let (failed, attempt) = (run.failed, run.attempt);
        match recover(failure, failed, &limits, moment) {
            Strategy::Fail => {
                self.settle_kept(ResumeMode::Continue, moment);
                self.end_run(crate::event::Outcome::Failed, Some(failure.clone()), moment);
                true
            }
            Strategy::Retry { delay_ms } => {
                self.settle_kept(self.resume_mode(), moment);
                self.emit(RetryScheduled { until: moment.now.plus(delay_ms), try_no: attempt + 1 }, moment.now);
                if delay_ms == 0 {
                    self.emit(WaitEnded { on: WaitFor::Retry }, moment.now);
                }
                true
            }
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
