//! The commands. Each is refused before its first event, or recorded.

use super::Machine;
use super::queue::Offered;
use crate::decide::Decide as _;
use crate::event::{
    Created, Event, InterruptCause, LifecycleChanged, Outcome, OverrideSet, PauseCause, Paused, Reset, Resumed,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{Moment, RunId, Timestamp};
use crate::input::{Acknowledgement, Command, Override, Refusal};
use crate::mutant;
use crate::state::{Lifecycle, Session};
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

impl Machine {
    pub(super) fn handle_command(&mut self, command: Command, moment: Moment) -> Result<Acknowledgement, Refusal> {
        if self.session.is_none() && !matches!(command, Command::Create { .. }) {
            return Err(no_session());
        }
        match command {
            Command::Create { session, key, agent, branch } => {
                self.create(Created { session, key, agent, branch }, moment)
            }
            Command::Message { message, content, mode, queue, key, overrides, attachments, options } => {
                self.message(Offered { message, content, mode, queue, key, overrides, attachments, options }, moment)
            }
            Command::Cancel { message, leg } => self.cancel(message, leg, moment),
            Command::Clear => {
                self.clear(moment);
                Ok(Acknowledgement::Done)
            }
            Command::Abort { run } => self.abort(run, moment),
            Command::Pause { run, freeze } => self.pause(run, freeze, moment),
            Command::Resume { run, drop } => self.resume(run, drop, moment),
            Command::Answer { call, fingerprint, decision, by } => {
                self.answer((call, fingerprint), decision, by, moment)
            }
            Command::RefuseAnswer { call, by, why } => {
                self.refuse_answer(call, by, why, moment);
                Ok(Acknowledgement::Done)
            }
            Command::Break { run, at } => self.set_breakpoint(run, at, moment),
            Command::Reset => self.reset(moment),
            Command::Override(change) => self.override_one(change, moment),
            Command::Recover { force } => self.recover_lifecycle(force, moment),
            Command::Terminate => self.terminate(moment),
            Command::TerminateIdle { before } => self.terminate_idle(before, moment),
            Command::Budget { scope, change } => self.set_budget(scope, change, moment),
            Command::Compact { message, focus, queue } => self.compact(message, focus, queue, moment),
            Command::Uncompact { compaction, restored } => self.uncompact(compaction, restored, moment),
            Command::Undo { run, redo, copy, plan } => self.undo(run, (redo, copy), plan, moment),
            Command::Label { title, archived } => self.label(title, archived, moment),
            Command::Delete => self.delete(moment),
            Command::Redeliver { delivery } => self.redeliver(delivery, moment),
            Command::DropDelivery { delivery } => self.drop_delivery(delivery, moment),
            Command::Rewind => Err(Refusal::Unsupported { what: "rewind" }),
            Command::Fork => Err(Refusal::Unsupported { what: "fork" }),
        }
    }

    fn create(&mut self, created: Created, moment: Moment) -> Result<Acknowledgement, Refusal> {
        if let Some(session) = &self.session {
            return Err(state_refusal(session, "it exists already"));
        }
        let event = Event::Created(created);
        self.apply(&event, moment.now);
        self.record(event, moment.now);
        self.change_lifecycle(LifecycleKind::Ready, LifecycleCause::Initialised, moment);
        Ok(Acknowledgement::Done)
    }

    fn abort(&mut self, run: Option<RunId>, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let current = session.run().filter(|current| run.is_none_or(|run| run == current.id));
        let Some(current) = current else {
            return Err(not_under_way(session, run));
        };
        let (ending, request) = (current.ending.is_some(), current.sent().map(|sent| sent.request));
        self.activate_to_end(moment);
        if let Some(request) = request.filter(|_| mutant!(AbortFallsBack)) {
            self.request_failed(request, Failure::new(FailureClass::Network, "aborted"), moment);
        } else if !ending && !mutant!(AbortForgotten) {
            self.begin_ending(Outcome::Aborted, InterruptCause::Abort, moment);
        }
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    fn pause(&mut self, run: Option<RunId>, freeze: bool, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.under_way(run)?;
        let run = match &session.conversation.lifecycle {
            Lifecycle::Active(run) => run,
            Lifecycle::Suspended(run) => {
                let reason = format!("it is paused already; `limulus runs resume {}` resumes it", run.id);
                return Err(state_refusal(session, &reason));
            }
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Error { .. }
            | Lifecycle::Terminated => return Err(state_refusal(session, "there is no run to pause")),
            Lifecycle::Recovering { .. } => return Err(state_refusal(session, RECOVERING)),
        };
        if run.ending.is_some() {
            return Err(state_refusal(session, "its run is ending"));
        }
        self.interrupt_stream(InterruptCause::Pause, moment);
        self.emit(Paused { cause: PauseCause::User, freeze, call: None, state: None, cleared: false }, moment.now);
        Ok(Acknowledgement::Done)
    }

    fn resume(&mut self, run: Option<RunId>, drop: bool, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.under_way(run)?;
        if !matches!(session.conversation.lifecycle, Lifecycle::Suspended(_)) {
            return Err(state_refusal(session, "it is not paused"));
        }
        self.emit(Resumed {}, moment.now);
        if drop {
            self.begin_ending(Outcome::Interrupted, InterruptCause::Interrupt, moment);
        } else {
            self.send_again(moment);
        }
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    /// The session, if this run is the one in it.
    pub(super) fn under_way(&self, run: Option<RunId>) -> Result<&Session, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        match run {
            Some(run) if session.run().is_none_or(|current| current.id != run) => {
                Err(not_under_way(session, Some(run)))
            }
            Some(_) | None => Ok(session),
        }
    }

    /// Starts a new conversation: at once, or when the active run has ended.
    fn reset(&mut self, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if matches!(session.conversation.lifecycle, Lifecycle::Terminated) {
            let reason = "it was terminated; use another session key, or `limulus agent --new`";
            return Err(state_refusal(session, reason));
        }
        if session.run().is_some() {
            self.activate_to_end(moment);
            self.begin_reset(moment);
        } else {
            self.emit(Reset {}, moment.now);
        }
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    /// Changes one setting of the session; all of them are recorded.
    fn override_one(&mut self, change: Override, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let (thinking, verbose, queue_mode) =
            (session.account.thinking, session.account.verbose, session.account.queue_mode);
        let (model, interrupt) = (session.account.model.clone(), session.account.interrupt);
        let set = OverrideSet { model, thinking, verbose, queue_mode, interrupt };
        let set = match change {
            Override::Model(model) => OverrideSet { model, ..set },
            Override::Thinking(thinking) => OverrideSet { thinking, ..set },
            Override::Verbose(verbose) => OverrideSet { verbose, ..set },
            Override::QueueMode(queue_mode) => OverrideSet { queue_mode, ..set },
            Override::Interrupt(interrupt) => OverrideSet { interrupt, ..set },
        };
        self.emit(set, moment.now);
        Ok(Acknowledgement::Done)
    }

    fn terminate(&mut self, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if matches!(session.conversation.lifecycle, Lifecycle::Terminated)
            || session.is_active() && session.is_terminating()
        {
            return Ok(Acknowledgement::Done);
        }
        self.clear(moment);
        self.end_or_terminate(moment);
        Ok(Acknowledgement::Done)
    }

    fn terminate_idle(&mut self, before: Timestamp, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let rests = matches!(session.conversation.lifecycle, Lifecycle::Idle)
            && session.conversation.queue.is_empty()
            && session.account.processes.is_empty()
            && session.account.outbox.pending().next().is_none();
        if !rests || session.account.last_activity >= before {
            return Err(state_refusal(session, "it is active, or was active recently"));
        }
        self.change_lifecycle(LifecycleKind::Terminated, LifecycleCause::IdleTimeout, moment);
        Ok(Acknowledgement::Done)
    }

    /// Terminates the session: at once, or with its run when nothing of that runs any more.
    fn end_or_terminate(&mut self, moment: Moment) {
        if self.session.as_ref().and_then(Session::run).is_none() {
            return self.end_session(moment);
        }
        self.activate_to_end(moment);
        self.begin_terminating(moment);
        self.advance(moment);
    }

    /// Makes a run active that is paused, needs a human or is repaired, so that it can end. What its calls have done is
    /// looked up before it ends.
    fn activate_to_end(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        match session.conversation.lifecycle {
            Lifecycle::Suspended(_) => self.emit(Resumed {}, moment.now),
            Lifecycle::Error { .. } => {
                self.change_lifecycle(LifecycleKind::Recovering, LifecycleCause::Recover, moment);
                self.end_recovery(moment);
                self.lose_calls(moment);
            }
            Lifecycle::Recovering { .. } => self.end_recovery(moment),
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Active(_)
            | Lifecycle::Idle
            | Lifecycle::Terminated => {}
        }
    }

    pub(super) fn change_lifecycle(&mut self, to: LifecycleKind, cause: LifecycleCause, moment: Moment) {
        let Some(from) = self.session.as_ref().map(|session| session.conversation.lifecycle.kind()) else { return };
        self.emit(LifecycleChanged::by(cause, from, to), moment.now);
    }
}

/// Why a session whose calls are looked up accepts only messages and its end.
pub(super) const RECOVERING: &str = "what its calls have done is looked up first, which takes a moment; try again then";

fn not_under_way(session: &Session, run: Option<RunId>) -> Refusal {
    let begins = |run: RunId| session.conversation.queue.iter().any(|queued| run == queued.message.into());
    let what = match run {
        Some(run) if begins(run) => {
            format!("run {run} has not begun: its message waits; `limulus queue list` shows what waits")
        }
        Some(run) => format!("run {run} is not under way; `limulus runs show {run}` shows its outcome"),
        None => "no run is under way in this session".to_owned(),
    };
    Refusal::NotFound { what }
}

/// Before it was created, the session had received no command.
pub(super) fn no_session() -> Refusal {
    Refusal::NotFound { what: "there is no such session; the first message makes it".to_owned() }
}

pub(super) fn state_refusal(session: &Session, reason: &str) -> Refusal {
    Refusal::State { state: session.conversation.lifecycle.kind().name().to_owned(), reason: reason.to_owned() }
}
