//! Steer: a message joins the active run at its next boundary. It stays in the queue until the request that contains it
//! is sent, in the same batch, so that it cannot be lost in between.

use crate::event::{CallOutcome, InterruptCause, Leg, MessageSettled, ReceiptState, StepBegun, WaitEnded, WaitFor};
use crate::ids::{MessageId, Moment};
use crate::machine::Machine;
use crate::machine::model_notices::SKIPPED;
use crate::mutant;
use crate::state::{Phase, Session};

impl Machine {
    /// Whether a steer waits for the run.
    pub(in crate::machine) fn steer_waits(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.steers().next().is_some())
    }

    /// Makes way for a steer: calls that have not started are answered, and a wait that would continue by itself is
    /// left. Returns whether anything changed.
    pub(in crate::machine) fn make_way(&mut self, moment: Moment) -> bool {
        if !self.steer_waits() || mutant!(CallsNotSkipped) {
            return false;
        }
        match self.phase() {
            Some(Phase::ToolExec | Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer | WaitFor::Lane, .. }) => {
                let waiting = self.call_ids(|call| !call.is_out() && !call.is_settled());
                for call in &waiting {
                    self.settle_with(*call, CallOutcome::Skipped, SKIPPED, moment);
                }
                !waiting.is_empty()
            }
            Some(Phase::Awaiting { on: on @ WaitFor::Children, .. }) => {
                let on = *on;
                self.emit(WaitEnded { on }, moment.now);
                true
            }
            Some(
                Phase::Preparing { .. }
                | Phase::Streaming(_)
                | Phase::Awaiting { on: WaitFor::Quota | WaitFor::Budget | WaitFor::Retry, .. }
                | Phase::Compacting(_)
                | Phase::Error { .. }
                | Phase::Retry { .. },
            )
            | None => false,
        }
    }

    /// Takes all waiting steers into the request that is about to be sent, in order of acceptance.
    pub(in crate::machine) fn take_steers(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        let Some(run) = session.run() else { return };
        // What is answered is then the steer: the part of an answer before it is a message, and lacks nothing any more.
        let next = run.prompt.filter(|_| run.has_part()).map(|prompt| StepBegun { step: run.step.no + 1, prompt });
        let run = Some(run.id);
        let waiting: Vec<(MessageId, Option<Leg>)> =
            session.steers().map(|queued| (queued.message, queued.is_extra().then_some(Leg::Steer))).collect();
        if let Some(next) = next.filter(|_| !waiting.is_empty()) {
            self.emit(next, moment.now);
        }
        for (message, leg) in waiting {
            self.emit(
                MessageSettled { message, state: ReceiptState::Steered, run, leg, in_next_run: false },
                moment.now,
            );
        }
    }

    /// The incoming answer is interrupted for a steer; its text is a message.
    pub(super) fn interrupt_for_steer(&mut self, moment: Moment) {
        self.interrupt_stream(InterruptCause::Steer, moment);
    }

    /// The run is about to end: the followup leg of a message takes over from a steer leg that is too late for the run.
    pub(in crate::machine) fn miss_steers(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        let late = session.steers().filter(|queued| queued.is_extra());
        let missed: Vec<MessageSettled> = late.map(|queued| missed(session, queued.message)).collect();
        for settled in missed {
            self.emit(settled, moment.now);
        }
    }
}

/// How a leg ends that no run takes: in the run of the other leg, or with that leg if it no longer waits.
pub(super) fn missed(session: &Session, message: MessageId) -> MessageSettled {
    let other = session.conversation.queue.iter().any(|queued| queued.message == message && !queued.is_extra());
    let (state, run) =
        if other { (ReceiptState::Merged, Some(message.into())) } else { (ReceiptState::Cancelled, None) };
    MessageSettled { message, state, run, leg: Some(Leg::Steer), in_next_run: false }
}
