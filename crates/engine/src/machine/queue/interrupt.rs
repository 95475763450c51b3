//! Interrupt: the unfinished run ends or is paused for a message, which waits at the head of the queue.

use crate::event::{CallOutcome, InterruptCause, Outcome, PauseCause, Paused, QueueMode, Resumed, WaitFor};
use crate::ids::Moment;
use crate::machine::Machine;
use crate::machine::model_notices::{NOT_RUN, SKIPPED};
use crate::queue::Interrupt;
use crate::state::Phase;

impl Machine {
    pub(super) fn interrupt(&mut self, how: Interrupt, moment: Moment) {
        match how {
            Interrupt::Replace => self.begin_ending(Outcome::Interrupted, InterruptCause::Interrupt, moment),
            Interrupt::Suspend => {
                self.interrupt_stream(InterruptCause::Interrupt, moment);
                self.withdraw(moment);
                self.emit(
                    Paused { cause: PauseCause::Interrupt, freeze: false, call: None, state: None, cleared: false },
                    moment.now,
                );
            }
        }
    }

    /// If the run waits for approval or an answer, the request is withdrawn; no call is left to start then.
    fn withdraw(&mut self, moment: Moment) {
        let waits = |phase: &Phase| matches!(phase, Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer, .. });
        if self.phase().is_some_and(waits) {
            for call in self.call_ids(|call| !call.is_out() && !call.is_settled()) {
                self.settle_with(call, CallOutcome::Skipped, SKIPPED, moment);
            }
        }
    }

    /// The notice for calls that do not run for this cause: it names a message only if one is the cause.
    pub(in crate::machine) fn not_run(&self, cause: InterruptCause) -> &'static str {
        let session = self.session.as_ref();
        let interrupts = session
            .and_then(|session| session.conversation.queue.front())
            .is_some_and(|front| front.mode == QueueMode::Interrupt);
        let aborted = session.and_then(|session| session.run()).and_then(|run| run.ending);
        let aborted = aborted.is_some_and(|ending| ending.outcome != Outcome::Interrupted);
        match cause {
            InterruptCause::Steer => SKIPPED,
            InterruptCause::Interrupt if interrupts && !aborted => SKIPPED,
            InterruptCause::Interrupt
            | InterruptCause::Crash
            | InterruptCause::Shutdown
            | InterruptCause::Pause
            | InterruptCause::Abort
            | InterruptCause::Deadline => NOT_RUN,
        }
    }

    /// The run is paused already: it ends.
    pub(super) fn end_held(&mut self, moment: Moment) {
        self.emit(Resumed {}, moment.now);
        self.begin_ending(Outcome::Interrupted, InterruptCause::Interrupt, moment);
    }
}
