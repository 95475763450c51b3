//! What can be asked for. Each is refused before its first event, or recorded.

use super::Machine;
use super::sentences::denied;
use crate::body::{Attached, BodyKind, Content};
use crate::event::{
    AskAnswered, CallOutcome, Created, CutCause, Event, LifecycleChanged, MessageAccepted, MessageSettled, Outcome,
    OverrideSet, Overrides, Paused, QueueMode, ReceiptState, Resumed,
};
use crate::ids::{CallId, Hash, MessageId, Moment, RunId};
use crate::input::{Answer, Command, Given, Receipt, Refusal};
use crate::mutants::{Mutant, planted};
use crate::state::{Lifecycle, Session, Stage};
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};
use crate::tables::limits::{MESSAGE_BYTES, QUEUED_MESSAGES};
use crate::tables::routing::{Route, route};

/// A message as it was offered.
struct Offered {
    message: MessageId,
    content: Content,
    mode: Option<QueueMode>,
    key: Option<String>,
    overrides: Overrides,
    attachments: Vec<Attached>,
}

impl Machine {
    pub(super) fn handle_command(&mut self, command: Command, moment: Moment) -> Result<Answer, Refusal> {
        let command = match command {
            Command::Create { session, key, agent, branch } => {
                return self.create(Created { session, key, agent, branch }, moment);
            }
            other => other,
        };
        if self.session.is_none() {
            return Err(Refusal::NotFound { what: "the session".into() });
        }
        match command {
            Command::Create { .. } => unreachable!("taken above"),
            Command::Message { message, content, mode, key, overrides, attachments } => {
                self.message(Offered { message, content, mode, key, overrides, attachments }, moment)
            }
            Command::Cancel { message } => self.cancel(message, moment),
            Command::Abort { run } => self.abort(run, moment),
            Command::Pause => self.pause(moment),
            Command::Resume { drop } => self.resume(drop, moment),
            Command::Answer { call, fingerprint, allow, by } => self.answer(call, fingerprint, allow, by, moment),
            Command::Override { model } => {
                self.emit(OverrideSet { model }, moment.now);
                Ok(Answer::Done)
            }
            Command::Recover { force } => self.recover_lifecycle(force, moment),
            Command::Terminate => self.terminate(moment),
            Command::Compact => Err(Refusal::Unsupported { what: "compaction" }),
            Command::Rewind => Err(Refusal::Unsupported { what: "rewind" }),
            Command::Fork => Err(Refusal::Unsupported { what: "fork" }),
        }
    }

    fn create(&mut self, created: Created, moment: Moment) -> Result<Answer, Refusal> {
        if let Some(session) = &self.session {
            return Err(state_refusal(session, "it exists already"));
        }
        let event = Event::Created(created);
        self.apply(&event, moment.now);
        self.record(event, moment.now);
        self.change_lifecycle(LifecycleKind::Ready, LifecycleCause::Initialised, moment);
        Ok(Answer::Done)
    }

    fn message(&mut self, offered: Offered, moment: Moment) -> Result<Answer, Refusal> {
        let Offered { message, content, mode, key, overrides, attachments } = offered;
        let Some(session) = &self.session else { return Err(Refusal::NotFound { what: "the session".into() }) };
        let key_of = key.as_ref().filter(|_| !planted(Mutant::KeyForgotten));
        let known = key_of.and_then(|key| session.keys.get(key)).copied();
        if let Some(earlier) = known.or_else(|| session.messages.contains_key(&message).then_some(message)) {
            return repeated(session, earlier, (&content, &attachments), key.as_deref());
        }
        if content.body.bytes > MESSAGE_BYTES {
            let (is, most) = (content.body.bytes.div_ceil(1 << 20), MESSAGE_BYTES >> 20);
            let reason = format!(
                "the message has {is} MiB, at most {most} MiB can be sent; put it into a file in the workspace and name the file"
            );
            return Err(state_refusal(session, &reason));
        }
        let lifecycle = session.lifecycle.kind();
        let lifecycle = if session.is_terminating() { LifecycleKind::Terminated } else { lifecycle };
        if let Route::Refuse(reason) = route(lifecycle) {
            return Err(state_refusal(session, reason));
        }
        if session.queue.len() >= QUEUED_MESSAGES {
            let reason = format!("{QUEUED_MESSAGES} messages wait already; wait for them or abort the run");
            return Err(state_refusal(session, &reason));
        }
        let body = self.keep(content);
        let attachments = self.keep_attached(attachments);
        let mode = mode.unwrap_or_default();
        self.emit(MessageAccepted { message, body, mode, key, overrides, attachments }, moment.now);
        self.advance(moment);
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        Ok(Answer::Receipt(receipt(session, message)))
    }

    fn cancel(&mut self, message: MessageId, moment: Moment) -> Result<Answer, Refusal> {
        let queued = self.session.as_ref().is_some_and(|s| s.queue.iter().any(|queued| queued.message == message));
        if !queued {
            return Err(Refusal::NotFound { what: format!("message {message} in the queue") });
        }
        self.emit(MessageSettled { message, state: ReceiptState::Cancelled, run: None }, moment.now);
        Ok(Answer::Done)
    }

    fn abort(&mut self, run: Option<RunId>, moment: Moment) -> Result<Answer, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        let current = session.run().filter(|current| run.is_none_or(|run| run == current.id));
        let Some(current) = current else {
            let what = run.map_or_else(|| "a run that is under way".to_owned(), |run| format!("run {run} under way"));
            return Err(Refusal::NotFound { what });
        };
        let ending = current.ending.is_some();
        match session.lifecycle {
            Lifecycle::Error { .. } => {
                let reason = "a human is needed first: `limulus resume KEY --force`, then abort";
                return Err(state_refusal(session, reason));
            }
            Lifecycle::Suspended(_) => self.emit(Resumed {}, moment.now),
            _ => {}
        }
        if !ending && !planted(Mutant::AbortForgotten) {
            self.begin_ending(Outcome::Aborted, CutCause::Abort, moment);
        }
        self.advance(moment);
        Ok(Answer::Done)
    }

    fn pause(&mut self, moment: Moment) -> Result<Answer, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        let Lifecycle::Active(run) = &session.lifecycle else {
            return Err(state_refusal(session, "there is no run to pause"));
        };
        if run.ending.is_some() {
            return Err(state_refusal(session, "its run is ending"));
        }
        self.cut_stream(CutCause::Pause, moment);
        self.emit(Paused {}, moment.now);
        Ok(Answer::Done)
    }

    fn resume(&mut self, drop: bool, moment: Moment) -> Result<Answer, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        if !matches!(session.lifecycle, Lifecycle::Suspended(_)) {
            return Err(state_refusal(session, "it is not paused"));
        }
        self.emit(Resumed {}, moment.now);
        if drop {
            self.begin_ending(Outcome::Interrupted, CutCause::Interrupt, moment);
        } else {
            self.send_again(moment);
        }
        self.advance(moment);
        Ok(Answer::Done)
    }

    fn answer(
        &mut self,
        call: CallId,
        fingerprint: Hash,
        allow: bool,
        by: String,
        moment: Moment,
    ) -> Result<Answer, Refusal> {
        if let Some(session) = self.session.as_ref().filter(|s| matches!(s.lifecycle, Lifecycle::Error { .. })) {
            return Err(state_refusal(session, "its run is held; `limulus resume KEY --force` takes it up again"));
        }
        let asked = self.call(call);
        if !asked.is_some_and(|asked| {
            asked.stage == Stage::Asking && (asked.fingerprint == Some(fingerprint) || planted(Mutant::ApprovalUnbound))
        }) {
            return Err(Refusal::Stale);
        }
        let told = denied(&by);
        self.emit(AskAnswered { call, allow, by }, moment.now);
        if !allow {
            let output = Content::text(BodyKind::Output, &told);
            self.settle_call(call, Given::new(CallOutcome::Denied, output), moment);
        }
        self.advance(moment);
        Ok(Answer::Done)
    }

    fn recover_lifecycle(&mut self, force: bool, moment: Moment) -> Result<Answer, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        let Lifecycle::Error { run, remedy, .. } = &session.lifecycle else {
            return Err(state_refusal(session, "there is nothing to mend"));
        };
        if !force {
            return Err(state_refusal(session, &format!("mend it with `{remedy}`")));
        }
        let held = run.is_some();
        self.mend(held, moment);
        if held {
            self.send_again(moment);
        }
        self.advance(moment);
        Ok(Answer::Done)
    }

    /// Takes a session out of its trouble, and its held run up. Nobody watched the calls of that run meanwhile.
    fn mend(&mut self, held: bool, moment: Moment) {
        self.change_lifecycle(LifecycleKind::Recovering, LifecycleCause::Recover, moment);
        self.change_lifecycle(LifecycleKind::Ready, LifecycleCause::Recovered, moment);
        if held {
            self.change_lifecycle(LifecycleKind::Active, LifecycleCause::Task, moment);
            self.lose_calls(moment);
        }
    }

    fn terminate(&mut self, moment: Moment) -> Result<Answer, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NotFound { what: "the session".into() })?;
        if matches!(session.lifecycle, Lifecycle::Terminated) || session.is_active() && session.is_terminating() {
            return Ok(Answer::Done);
        }
        let waiting: Vec<MessageId> = session.queue.iter().map(|queued| queued.message).collect();
        for message in waiting {
            self.emit(MessageSettled { message, state: ReceiptState::Cancelled, run: None }, moment.now);
        }
        self.end_or_terminate(moment);
        Ok(Answer::Done)
    }

    /// Ends the session: at once, or with the run in it when nothing of that runs any more.
    fn end_or_terminate(&mut self, moment: Moment) {
        let Some(session) = self.session.as_ref().filter(|session| session.run().is_some()) else {
            return self.end_session(moment);
        };
        match session.lifecycle {
            Lifecycle::Suspended(_) => self.emit(Resumed {}, moment.now),
            Lifecycle::Error { .. } => self.mend(true, moment),
            _ => {}
        }
        self.begin_terminating(moment);
        self.advance(moment);
    }

    pub(super) fn change_lifecycle(&mut self, to: LifecycleKind, cause: LifecycleCause, moment: Moment) {
        let Some(from) = self.session.as_ref().map(|session| session.lifecycle.kind()) else { return };
        self.emit(LifecycleChanged { from, to, cause, failure: None, remedy: None }, moment.now);
    }
}

/// The answer to a message that was accepted before: the same content is the same run, other content a conflict.
fn repeated(
    session: &Session,
    earlier: MessageId,
    (content, attached): (&Content, &[Attached]),
    key: Option<&str>,
) -> Result<Answer, Refusal> {
    let receipt = receipt(session, earlier);
    let same = session.messages.get(&earlier).is_some_and(|message| {
        let files = message.attachments.iter().map(|attachment| attachment.body.hash);
        message.body.hash == content.body.hash && files.eq(attached.iter().map(|attached| attached.content.body.hash))
    });
    if same {
        return Ok(Answer::Receipt(receipt));
    }
    let key = key.map_or_else(|| earlier.to_string(), str::to_owned);
    Err(Refusal::Conflict { key, run: receipt.run })
}

fn receipt(session: &Session, message: MessageId) -> Receipt {
    let known = session.messages.get(&message);
    let ahead = session.queue.iter().position(|queued| queued.message == message);
    Receipt {
        message,
        state: known.map_or(ReceiptState::Refused, |known| known.state),
        run: known.map_or(message.into(), |known| known.run),
        ahead: ahead.map(|at| at as u32 + 1),
        accepted_at: known.map_or(session.last_activity, |known| known.accepted_at),
    }
}

fn state_refusal(session: &Session, reason: &str) -> Refusal {
    Refusal::State { state: session.lifecycle.kind().name().to_owned(), reason: reason.to_owned() }
}
