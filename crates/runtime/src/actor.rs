//! One session's actor: it drives the pump and does nothing else. Whatever happens comes in by two mailboxes; whatever
//! the pump gives is carried out in its order.

mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Acknowledgement, CallId, Command, Do, EffectId, EffectKind, Epoch, Input, Lifecycle, Phase, Position, Pump,
    Refusal, Report, RunId, Session, Stage, Timestamp,
};
use journal::Unsaved;
use tokio::sync::{mpsc, oneshot, watch};

use crate::conversation::Conversation;
use crate::crashpoint;
use crate::idle::IdleTimer;
use crate::lanes::{LaneAdmission, LaneTicket};
use crate::perform::lane::{self, SettingsRequest};
use crate::perform::{self, Job, Underway};
use crate::recovered::Recovered;
use crate::runtime::{ApprovalRequest, Published, Shared};
use crate::sessions::{Leaving, Present};

/// Who waits for an answer.
pub(crate) type Caller = oneshot::Sender<Result<Acknowledgement, Refusal>>;

/// Something offered to a session. Small: a mailbox has room for dozens from the beginning.
pub(crate) struct Offer {
    pub(crate) input: Box<Input>,
    pub(crate) caller: Option<Caller>,
}

impl Offer {
    pub(crate) fn command(command: Command, caller: Option<Caller>) -> Self {
        Self { input: Box::new(command.into()), caller }
    }

    pub(crate) fn report(report: Report) -> Self {
        Self { input: Box::new(report.into()), caller: None }
    }
}

/// The mailboxes of a session. Control is never behind data: an abort does not wait for a stream.
pub(crate) struct Mailboxes {
    pub(crate) control: mpsc::UnboundedReceiver<Offer>,
    pub(crate) data: mpsc::Receiver<Offer>,
    /// The sending end of `data`, for effects.
    pub(crate) reports: mpsc::Sender<Offer>,
}

/// Why an actor ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// In order.
    Closed,
    /// Its session rests, and nobody needs it.
    Rested,
    /// The journal has no space: the machine is ahead of it and waits for some, rebuilt. This run may hold a place in the
    /// lane that no entry speaks of.
    Full(journal::Error, Option<RunId>),
    /// What the session needs of the journal is damaged, and nothing else is harmed by that.
    Damaged(journal::Error),
    /// The journal failed: nothing more is acknowledged.
    Store(journal::Error),
    /// The machine tried an edge that does not exist.
    Broken(engine::IllegalEdge),
}

pub(crate) struct Actor<'a> {
    shared: &'a Arc<Shared>,
    present: &'a Present<'a>,
    mail: &'a mut Mailboxes,
    /// What its run waits for that was under way: until then it only takes what is asked for.
    place: &'a mut Option<LaneAdmission>,
    pump: Pump<Caller>,
    unsaved: Unsaved,
    epoch: Epoch,
    commits: (mpsc::UnboundedSender<Commit>, mpsc::UnboundedReceiver<Commit>),
    tasks: BTreeMap<EffectId, Underway>,
    conversation: Conversation,
    asked: BTreeSet<CallId>,
    due: Option<Timestamp>,
    /// The agent of a session that is being created.
    agent: String,
    /// How often the ledger had changed when its run was last told of it; none = it was not.
    ledger_seen: Option<u64>,
    /// The run that has a place in the lane before its message is decided on.
    granted: Option<RunId>,
    /// The turn of the message that is next up, asked for before it was opened.
    ticket: Option<LaneTicket>,
    opened: bool,
    /// Of the last commit.
    position: Position,
    closing: bool,
    leaving: watch::Receiver<Leaving>,
    cleared: watch::Receiver<()>,
    /// While its session rests.
    stay: Option<IdleTimer>,
}

impl Exit {
    /// What could not be begun: damage concerns this session alone, a disk that cannot be read concerns all of them.
    fn unbegun(error: journal::Error) -> Self {
        if error.kind() == journal::Kind::Store { Self::Store(error) } else { Self::Damaged(error) }
    }
}

impl Drop for Actor<'_> {
    /// However it ends, a panic included, nothing of it goes on but what a supervisor looks after.
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.leave();
        }
    }
}

/// What became of an append.
pub(crate) type Commit = Result<engine::Position, Box<journal::Error>>;

impl<'a> Actor<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        present: &'a Present<'a>,
        (mail, place): (&'a mut Mailboxes, &'a mut Option<LaneAdmission>),
        recovered: Recovered,
    ) -> Self {
        let epoch = shared.journal.epoch();
        Self {
            shared,
            present,
            mail,
            place,
            pump: Pump::new(recovered.machine),
            unsaved: recovered.unsaved,
            epoch,
            commits: mpsc::unbounded_channel(),
            tasks: BTreeMap::new(),
            conversation: Conversation::default(),
            asked: BTreeSet::new(),
            due: None,
            agent: String::new(),
            ledger_seen: None,
            granted: None,
            ticket: None,
            opened: false,
            position: Position(0),
            closing: false,
            leaving: shared.sessions.leaving(),
            cleared: shared.ledger.when_cleared(),
            stay: None,
        }
    }

    /// The same with a turn that its next message has asked for already.
    pub(crate) fn with_turn(mut self, ticket: Option<LaneTicket>) -> Self {
        self.ticket = ticket;
        self
    }

    /// Runs until it is closed or cannot go on. `first` is decided on before anything else, in the first batch.
    pub(crate) async fn run(mut self: Box<Self>, first: Vec<Offer>) -> Exit {
        // One that goes on where another left it has nothing to take up.
        self.opened = first.is_empty();
        for offer in first {
            self.offer(offer);
        }
        // What was sent before the session was open belongs to the same first batch.
        while let Ok(offer) = self.mail.control.try_recv() {
            self.offer(offer);
        }
        if !self.opened {
            crashpoint::hit("opening");
        }
        loop {
            if let Err(exit) = self.drive() {
                return exit;
            }
            if self.is_to_close() {
                self.offer(Offer::report(Report::Closing));
                continue;
            }
            if self.closing && self.pump.is_quiet() {
                return Exit::Closed;
            }
            if self.needs_no_place() {
                self.go_on();
                continue;
            }
            self.rest();
            if let Some(exit) = self.wait().await {
                return exit;
            }
        }
    }

    fn offer(&mut self, offer: Offer) {
        match &*offer.input {
            Input::Report(Report::Closing) => self.closing = true,
            Input::Command(Command::Create { agent, .. }) => self.agent.clone_from(agent),
            _ => {}
        }
        let entered = self.enter_free_lane(&offer.input);
        let moment = self.shared.clock.moment();
        self.offer_with_ledger(*offer.input, offer.caller, moment);
        if let Some(report) = entered {
            self.pump.offer(report, moment, None);
        }
    }

    /// The lane's answer for a message that can start at once, if a place is free.
    fn enter_free_lane(&mut self, input: &Input) -> Option<Report> {
        let Input::Command(Command::Message { message, overrides, .. }) = input else { return None };
        let session = self.pump.session();
        let idle = session.is_none_or(|session| {
            matches!(session.lifecycle, Lifecycle::Ready | Lifecycle::Idle) && session.queue.is_empty()
        });
        if !idle || self.granted.is_some() {
            return None;
        }
        let agent = session.map_or(&self.agent, |session| &session.agent).clone();
        let model = session.and_then(|session| session.model.clone());
        let thinking = session.and_then(|session| session.thinking);
        let request = SettingsRequest { agent, model, thinking, overrides: overrides.clone() };
        let report = lane::enter_free(self.shared, request, *message, self.present.key())?;
        self.granted = Some(RunId::from(*message));
        Some(report)
    }

    /// A place that was taken for a message which did not start is free again.
    fn settle_granted(&mut self) {
        let runs = |run: RunId| self.pump.session().and_then(|session| session.run()).is_some_and(|r| r.id == run);
        if let Some(run) = self.granted.take_if(|run| !runs(*run)) {
            self.shared.lanes.leave(run);
        }
        self.granted = None;
    }

    /// Whether the runtime leaves, and nothing keeps this session any more.
    fn is_to_close(&self) -> bool {
        // What was learned of a provider is told to the others first: that takes one more entry.
        let is_asking = || self.tasks.keys().any(|of| matches!(of.kind, EffectKind::Request | EffectKind::Report));
        !self.closing && *self.leaving.borrow() != Leaving::No && !is_asking()
    }

    /// Whether its run waits for a place that it needs no more: it is to end, or is held.
    fn needs_no_place(&self) -> bool {
        let session = self.pump.session();
        let goes_on = |session: &Session| session.is_active() && session.run().is_some_and(|run| run.ending.is_none());
        !self.closing && self.place.is_some() && !session.is_some_and(goes_on)
    }

    /// Its run waits no more.
    fn go_on(&mut self) {
        *self.place = None;
        self.offer(Offer::report(Report::Opened { epoch: self.epoch, cooling: vec![] }));
    }

    /// Begins to wait for the time to leave, or stops waiting for it.
    fn rest(&mut self) {
        if self.closing || !self.pump.is_at_rest() {
            self.stay = None;
        } else if self.stay.is_none() {
            self.stay = Some(self.shared.places.begin());
        }
    }

    /// Waits for whatever happens next and offers it, with all else that is there already.
    async fn wait(&mut self) -> Option<Exit> {
        let due = self.due;
        let until = self.stay.as_ref().map(|stay| stay.until);
        let stayed = async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let clock = &self.shared.clock;
        let timer = async move {
            match due {
                Some(due) => tokio::time::sleep(clock.until(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(commit) = self.commits.1.recv() => return self.committed(commit),
            Some(offer) = self.mail.control.recv() => self.offer(offer),
            Some(offer) = self.mail.data.recv() => {
                self.offer(offer);
                while let Ok(offer) = self.mail.data.try_recv() {
                    self.offer(offer);
                }
            }
            () = timer => {
                self.due = None;
                self.offer(Offer::report(Report::Due));
            }
            () = has_come(self.place) => self.go_on(),
            // What it means is looked at after each of these.
            Ok(()) = self.leaving.changed() => {}
            // A run may wait for a profile that a user has cleared.
            Ok(()) = self.cleared.changed() => self.observe_ledger(self.shared.clock.moment()),
            () = stayed => return self.present.leave(&self.mail.control).then_some(Exit::Rested),
        }
        None
    }

    fn committed(&mut self, commit: Commit) -> Option<Exit> {
        match commit {
            Ok(position) => {
                self.position = position;
                if !std::mem::replace(&mut self.opened, true) {
                    crashpoint::hit("opening");
                    self.shared.unpark(self.pump.session().map_or("", |session| &session.key));
                }
                crashpoint::hit("recorded");
                self.pump.committed(self.shared.clock.now());
                None
            }
            Err(error) => {
                if let (journal::Error::Full { .. }, Some(session)) = (&*error, self.pump.session()) {
                    // Told before its callers are, so that they know why.
                    self.shared.park(&session.key, &error, self.shared.clock.now());
                }
                self.pump.failed(&error.to_string());
                while let Some(todo) = self.pump.poll() {
                    if let Do::Answer(caller, answer) = todo {
                        let _ = caller.send(answer);
                    }
                }
                let run = self.pump.session().and_then(|session| session.run()).map(|run| run.id);
                Some(if matches!(*error, journal::Error::Full { .. }) {
                    Exit::Full(*error, run)
                } else {
                    Exit::Store(*error)
                })
            }
        }
    }

    /// Carries out what the pump gives and appends what it has decided, until there is nothing but waiting.
    fn drive(&mut self) -> Result<(), Exit> {
        loop {
            while let Some(todo) = self.pump.poll() {
                self.carry_out(todo)?;
            }
            if self.opened {
                // What was next up before it was opened is not any more.
                self.ticket = None;
            }
            self.keep_snapshot();
            let batch = self.pump.next_batch();
            if !self.pump.has_offers() {
                self.settle_granted();
            }
            let Some(batch) = batch else {
                if self.pump.is_quiet() || self.pump.is_appending() {
                    return Ok(());
                }
                continue;
            };
            let (actor, commit_relay) = (self.commits.0.clone(), self.shared.commit_relay.clone());
            let append = journal::Append { batch, epoch: self.epoch };
            self.shared
                .journal
                .append(append, Box::new(move |commit| drop(commit_relay.send((actor, commit.map_err(Box::new))))));
        }
    }

    /// Keeps the state where that pays. While a batch is in flight, the state is ahead of the journal.
    fn keep_snapshot(&mut self) {
        let Some(session) = self.pump.session().filter(|_| !self.pump.is_appending()) else { return };
        if let Some(snapshot) = self.unsaved.take_due(session) {
            self.shared.journal.keep_snapshot(snapshot);
        }
    }

    fn carry_out(&mut self, todo: Do<Caller>) -> Result<(), Exit> {
        match todo {
            Do::Start(effect) => self.start(&effect).map_err(Exit::unbegun)?,
            Do::Stop(id) => {
                if let Some(task) = self.tasks.remove(&id) {
                    task.stop();
                }
                self.give_up_lane(id);
            }
            Do::Publish(batch) => self.publish(batch),
            Do::Answer(caller, answer) => {
                crashpoint::hit("accepted");
                // A caller that has gone away needs no answer.
                let _ = caller.send(answer);
            }
            Do::Arm(due) => self.due = due,
            Do::Broken(edge) => return Err(Exit::Broken(edge)),
        }
        Ok(())
    }

    /// A place in the lane whose message was taken back is free again.
    fn give_up_lane(&self, id: EffectId) {
        let runs = self.pump.session().and_then(|session| session.run()).is_some_and(|run| run.id == id.run);
        if id.kind == EffectKind::Lane && !runs {
            self.shared.lanes.leave(id.run);
        }
    }

    fn start(&mut self, effect: &engine::Effect) -> Result<(), journal::Error> {
        let Some(session) = self.pump.session() else { return Ok(()) };
        let ticket =
            self.ticket.take_if(|ticket| effect.id().kind == EffectKind::Lane && effect.id().run == ticket.run());
        let mut job = Job {
            shared: self.shared,
            session,
            settings: self.pump.machine().settings(),
            conversation: &mut self.conversation,
            data: &self.mail.reports,
            ticket,
        };
        let task = perform::start(effect, &mut job)?;
        self.tasks.insert(effect.id(), task);
        Ok(())
    }

    fn publish(&mut self, batch: Arc<engine::Batch>) {
        self.conversation.keep(&batch);
        self.unsaved.add(&batch);
        let Some(session) = self.pump.session() else { return };
        if matches!(session.run().map(|run| &run.phase), Some(Phase::Streaming(stream)) if stream.bytes > 0) {
            crashpoint::hit("mid_stream");
        }
        if batch.records.iter().any(|record| matches!(&record.event, engine::Event::MessageSealed(_))) {
            crashpoint::hit("sealed");
        }
        for record in &batch.records {
            match &record.event {
                engine::Event::RunEnded(ended) => {
                    self.shared.lanes.leave(ended.run);
                    self.shared.conversations.put(session.branch, std::mem::take(&mut self.conversation));
                }
                // What goes on in the background keeps its record.
                engine::Event::CallSettled(e) if e.effect.is_some_and(|effect| session.process(effect).is_some()) => {}
                engine::Event::CallSettled(settled) => self.shared.forget(settled),
                engine::Event::LifecycleChanged(changed) => move_in_lane(self.shared, self.place, session, changed.to),
                engine::Event::ProcessForgotten(forgotten) => self.shared.forget_process(forgotten.process),
                _ => {}
            }
        }
        self.shared.budget_pool.saw(session, &batch, self.shared.clock.now());
        self.shared.publish(Published {
            session: session.id,
            key: session.key.as_str().into(),
            batch,
            epoch: self.epoch,
            position: self.position,
            lifecycle: session.lifecycle.kind(),
            run_state: session.run_state(),
            flags: session.flags(),
        });
        self.ask();
    }

    /// Puts each open question to the terminal once; without one the answer is no.
    fn ask(&mut self) {
        let Some(session) = self.pump.session() else { return };
        let Some(run) = session.run().filter(|_| session.is_active() && !session.closed) else { return };
        let mut answers = vec![];
        for call in run.step.calls.iter().filter(|call| call.stage == Stage::Asking) {
            let Some(fingerprint) = call.fingerprint.filter(|_| self.asked.insert(call.id)) else { continue };
            let text = call.question.clone().unwrap_or_default();
            let question = ApprovalRequest { key: session.key.clone(), call: call.id, fingerprint, text };
            answers.extend(self.shared.ask(question));
        }
        for answer in answers {
            self.offer(Offer::command(answer, None));
        }
    }
}

/// A run that is held, paused or for a human to mend, keeps no other from running; one that is taken up again counts.
fn move_in_lane(shared: &Arc<Shared>, place: &mut Option<LaneAdmission>, session: &Session, to: LifecycleKind) {
    match (session.run(), to) {
        (Some(run), LifecycleKind::Error | LifecycleKind::Suspended) => shared.lanes.leave(run.id),
        (Some(run), LifecycleKind::Active) => {
            if place.is_some() {
                // It was held and let go before it had the place that it waited for; that wait is over.
                *place = Some(Box::pin(std::future::ready(())));
            }
            shared.keep_lane(run.id, session.into());
        }
        _ => {}
    }
}

/// Waits for a place, if one is waited for.
async fn has_come(place: &mut Option<LaneAdmission>) {
    match place {
        Some(place) => place.await,
        None => std::future::pending().await,
    }
}
