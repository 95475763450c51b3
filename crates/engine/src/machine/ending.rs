//! Ending a run: the outcome is decided first, and the run ends when none of its effects is in flight.

use super::Machine;
use crate::decide::Decide as _;
use crate::event::{CallOutcome, EndingCause, EndingSet, InterruptCause, Outcome, Reset, RunEnded, StopReason};
use crate::failure::{Failure, FailureClass};
use crate::ids::Moment;
use crate::mutant;
use crate::state::{Call, Phase, Run, Session, Stage};
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

impl Machine {
    /// Decides the outcome of the run: its stream is interrupted and kept, calls that have not started are answered,
    /// and started ones are ended.
    pub(super) fn begin_ending(&mut self, outcome: Outcome, cause: InterruptCause, moment: Moment) {
        self.decide_end(EndingSet { outcome, terminate: false, reset: false }, cause, moment);
    }

    /// Decides that the session terminates with its run, whose outcome may be decided already.
    pub(super) fn begin_terminating(&mut self, moment: Moment) {
        let ending = self.session.as_ref().and_then(Session::run).and_then(|run| run.ending);
        let outcome = ending.map_or(Outcome::Aborted, |ending| ending.outcome);
        self.decide_end(EndingSet { outcome, terminate: true, reset: false }, InterruptCause::Abort, moment);
    }

    /// Decides that a new conversation starts after the run, whose outcome may be decided already.
    pub(super) fn begin_reset(&mut self, moment: Moment) {
        let ending = self.session.as_ref().and_then(Session::run).and_then(|run| run.ending);
        let outcome = ending.map_or(Outcome::Aborted, |ending| ending.outcome);
        let terminate = ending.is_some_and(|ending| ending.terminate);
        self.decide_end(EndingSet { outcome, terminate, reset: true }, InterruptCause::Abort, moment);
    }

    fn decide_end(&mut self, end: EndingSet, cause: InterruptCause, moment: Moment) {
        self.emit(end, moment.now);
        self.interrupt_stream(cause, moment);
        for call in self.call_ids(|call| matches!(call.stage, Stage::Started { .. })) {
            self.end_call(call, EndingCause::Run, moment);
        }
        self.skip_calls(moment);
    }

    /// Answers the calls that have not started.
    fn skip_calls(&mut self, moment: Moment) {
        let sentence = self.not_run(InterruptCause::Interrupt);
        for call in self.call_ids(|call| !call.is_out() && !call.is_settled()) {
            self.settle_with(call, CallOutcome::Skipped, sentence, moment);
        }
    }

    /// Advances an ending run; ends it when no call is in flight. Returns whether it did.
    pub(super) fn advance_ending(&mut self, outcome: Outcome, moment: Moment) -> bool {
        self.skip_calls(moment);
        for call in self.call_ids(|call| matches!(call.stage, Stage::Started { .. })) {
            self.end_call(call, EndingCause::Run, moment);
        }
        let out =
            self.session.as_ref().and_then(Session::run).is_some_and(|run| run.step.calls.iter().any(Call::is_out));
        if !out {
            self.settle_kept(crate::settings::ResumeMode::Continue, moment);
            self.end_run(outcome, None, moment);
        }
        !out
    }

    /// Ends the run with a failure, or because a limit leaves too little for its next request. If its answer was cut at
    /// its output limit, only the rest is missing: what came is worth more than a failed run.
    pub(super) fn fail_run(&mut self, failure: Failure, moment: Moment) {
        let outcome = if self.has_part() { Outcome::Completed } else { Outcome::Failed };
        self.end_run(outcome, Some(failure), moment);
    }

    /// The one terminal event, and the session's termination with it, if that was decided.
    pub(super) fn end_run(&mut self, outcome: Outcome, failure: Option<Failure>, moment: Moment) {
        let routes = self.reply_routes();
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let terminate = run.ending.is_some_and(|ending| ending.terminate);
        let reset = run.ending.is_some_and(|ending| ending.reset);
        let stalled = || self.stalled().filter(|_| outcome == Outcome::Stalled);
        let failure = failure.or_else(|| unended(run).filter(|_| outcome != Outcome::Completed)).or_else(stalled);
        let part = self.has_part().then_some(StopReason::Length);
        let stop_reason = run.step.stop_reason.or(part).filter(|_| outcome == Outcome::Completed);
        let (run, text, usage) = (run.id, run.step.segments.clone(), run.usage);
        self.give_up_title("its run ended before the title came", moment);
        self.miss_steers(moment);
        let head = self.session.as_ref().map(|session| session.account.head);
        let checkpoint = head.filter(|_| outcome == Outcome::Interrupted);
        let compacted = self.phase().is_some_and(|phase| matches!(phase, Phase::Compacting(_)));
        let compacted = compacted && outcome == Outcome::Completed;
        let verbose = self.shows_detail();
        let ended = RunEnded { run, outcome, failure, text, usage, checkpoint, stop_reason, compacted, verbose };
        self.emit(ended.clone(), moment.now);
        if !compacted {
            self.deliver_reply(run, routes, moment);
        }
        if mutant!(TerminalTwice) {
            let again = ended.into();
            self.apply(&again, moment.now);
            self.record(again, moment.now);
        }
        self.settings = None;
        if reset && !mutant!(ResetForgotten) {
            self.emit(Reset {}, moment.now);
        }
        if terminate {
            self.end_session(moment);
        }
    }

    /// Whether the reply names the calls of the run.
    fn shows_detail(&self) -> bool {
        let of_run = self.settings.as_ref().and_then(|settings| settings.reply.verbose);
        let of_session = self.session.as_ref().and_then(|session| session.account.verbose);
        of_run.or(of_session).unwrap_or(false)
    }

    /// The failure of a run that made no progress.
    fn stalled(&self) -> Option<Failure> {
        let message = format!("no progress for {} s (`runs.stall_s`)", self.limits().stall_ms? / 1_000);
        Some(Failure::new(FailureClass::Stalled, message))
    }

    /// Terminates a session without a run. Its processes end after that.
    pub(super) fn end_session(&mut self, moment: Moment) {
        self.end_processes(moment);
        self.change_lifecycle(LifecycleKind::Terminated, LifecycleCause::Terminate, moment);
    }
}

/// The report of calls that could not be ended.
fn unended(run: &Run) -> Option<Failure> {
    let calls: Vec<String> = run.unended.iter().map(ToString::to_string).collect();
    let message = format!("could not be ended and may still be running: call {}", calls.join(", call "));
    (!calls.is_empty()).then(|| Failure::new(FailureClass::Tool, message))
}
