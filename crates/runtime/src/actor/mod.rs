//! The actor of one session: it drives the pump and does nothing else. Inputs arrive in two mailboxes; the actor
//! carries out the pump's outputs in order.

mod effects;
mod journal;
mod lane;
mod ledger;
mod mail;
mod publish;
mod timers;

use std::sync::Arc;

use ::journal::{Error, Kind};
use engine::{Budget, Do, IllegalEdge, Input, Machine, Pump, Report, RunId};
use tokio::sync::watch;

use crate::crashpoint;
use crate::lanes::{LaneAdmission, LaneTicket};
use crate::runtime::Shared;
use crate::sessions::{Leaving, Present};
use crate::supervise::Recovered;

use effects::Effects;
use journal::JournalSide;
use lane::LaneSide;
use ledger::LedgerSide;
use timers::Timers;

pub(crate) use journal::CommitRelay;
pub(crate) use mail::{Caller, Mailboxes, Offer};

/// Why an actor ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// It shut down in order.
    Closed,
    /// Its session is idle, and nobody needs the actor.
    Idle,
    /// The journal has no space: the machine is ahead of the journal and is rebuilt once there is space. This run may
    /// hold a slot of the lane that no entry records.
    Full(Error, Option<RunId>),
    /// The session's part of the journal is damaged; nothing else is affected.
    Damaged(Error),
    /// The journal failed: nothing more is acknowledged.
    Store(Error),
    /// The machine tried an edge that does not exist.
    Broken(IllegalEdge),
}

impl Exit {
    /// Maps an error of the opening: damage concerns this session alone, an unreadable disk concerns all sessions.
    fn unbegun(error: Error) -> Self {
        if error.kind() == Kind::Store { Self::Store(error) } else { Self::Damaged(error) }
    }
}

pub(crate) struct Actor<'a> {
    shared: &'a Arc<Shared>,
    present: &'a Present<'a>,
    /// The agent of a session that is being created.
    agent: &'a str,
    mail: &'a mut Mailboxes,
    pump: Pump<Machine, Caller>,
    journal: JournalSide,
    effects: Effects,
    lane: LaneSide<'a>,
    ledger: LedgerSide,
    timers: Timers,
    /// The configured limits of the last run that this actor has seen.
    budget: Budget,
    leaving: watch::Receiver<Leaving>,
    closing: bool,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        (present, agent): (&'a Present<'a>, &'a str),
        (mail, admission): (&'a mut Mailboxes, &'a mut Option<LaneAdmission>),
        (recovered, ticket): (Recovered, Option<LaneTicket>),
    ) -> Self {
        Self {
            shared,
            present,
            agent,
            mail,
            pump: Pump::new(recovered.machine),
            journal: JournalSide::new(shared.journal.epoch(), recovered.unsaved),
            effects: Effects::default(),
            lane: LaneSide::new(admission, ticket),
            ledger: LedgerSide::new(shared.ledger.cooldowns_cleared()),
            timers: Timers::default(),
            budget: Budget::default(),
            leaving: shared.sessions.leaving(),
            closing: false,
        }
    }

    /// Runs until the session is closed or the actor cannot continue. `first` is decided before anything else, in the
    /// first batch.
    pub(crate) async fn run(mut self: Box<Self>, first: Vec<Offer>) -> Exit {
        // An actor that continues where another left has nothing to recover.
        self.journal.is_opened = first.is_empty();
        for offer in first {
            self.offer(offer);
        }
        // Commands that were sent before the session was open belong to the same first batch.
        while let Ok(offer) = self.mail.control.try_recv() {
            self.offer(offer);
        }
        if !self.journal.is_opened {
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
            if self.needs_no_slot() {
                self.resume_run();
                continue;
            }
            self.set_idle_timer();
            if let Err(exit) = self.wait().await {
                return exit;
            }
        }
    }

    fn offer(&mut self, offer: Offer) {
        self.closing |= matches!(*offer.input, Input::Report(Report::Closing));
        let entered = self.enter_free_lane(&offer.input);
        let moment = self.shared.clock.moment();
        self.look_for_slot(moment);
        self.offer_with_ledger(*offer.input, offer.caller, moment);
        if let Some(report) = entered {
            self.pump.offer(report, moment, None);
        }
    }

    /// Whether the runtime is shutting down and nothing keeps this session open.
    fn is_to_close(&self) -> bool {
        !self.closing && *self.leaving.borrow() != Leaving::No && self.pump.may_close()
    }

    /// The run no longer waits for a slot.
    fn resume_run(&mut self) {
        *self.lane.admission = None;
        self.offer(Offer::report(Report::Opened { epoch: self.journal.epoch, cooling: vec![] }));
    }

    /// Starts or stops the idle timer.
    fn set_idle_timer(&mut self) {
        if self.closing || !self.pump.is_idle() {
            self.timers.idle = None;
        } else if self.timers.idle.is_none() {
            self.timers.idle = Some(self.shared.idle_slots.begin());
        }
    }

    /// Waits for the next input and offers it, with all other inputs that are already there.
    async fn wait(&mut self) -> Result<(), Exit> {
        tokio::select! {
            biased;
            Some(commit) = self.journal.commit() => return self.committed(commit),
            Some(offer) = self.mail.control.recv() => self.offer(offer),
            Some(offer) = self.mail.data.recv() => {
                self.offer(offer);
                while let Ok(offer) = self.mail.data.try_recv() {
                    self.offer(offer);
                }
            }
            () = self.timers.is_due(&self.shared.clock) => {
                self.timers.due = None;
                self.offer(Offer::report(Report::Due));
            }
            () = self.timers.is_held() => {}
            () = self.lane.admitted() => self.resume_run(),
            // The consequences are checked after each of these.
            Ok(()) = self.leaving.changed() => {}
            // A run may wait for a profile whose cooldown a user has cleared.
            Ok(()) = self.ledger.cleared.changed() => {
                let moment = self.shared.clock.moment();
                self.look_for_slot(moment);
                self.observe_ledger(moment);
            }
            () = self.timers.is_over() => {
                return if self.present.leave(&self.mail.control) { Err(Exit::Idle) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// Carries out the pump's outputs and appends its batches, until only waiting is left.
    fn drive(&mut self) -> Result<(), Exit> {
        let journal = self.shared.journal.as_ref();
        loop {
            while let Some(todo) = self.pump.poll() {
                self.carry_out(todo)?;
            }
            if self.journal.is_opened {
                // A message that was next in line before the opening may not be so any more.
                self.lane.ticket = None;
            }
            if let Some(session) = self.pump.session().filter(|_| !self.pump.is_ahead()) {
                self.journal.keep_snapshot(journal, session);
            }
            self.pump.decide();
            if !self.pump.has_offers() {
                self.settle_granted();
            }
            while let Some(todo) = self.pump.poll() {
                self.carry_out(todo)?;
            }
            if self.timers.holds(self.pump.waits_for_more()) {
                return Ok(());
            }
            match self.pump.next_batch() {
                Some(batch) => self.journal.append(journal, &self.shared.commit_relay, batch),
                None if self.pump.is_quiet() || self.pump.is_appending() => {
                    self.free_waiting_slot();
                    return Ok(());
                }
                None => {}
            }
        }
    }

    fn carry_out(&mut self, todo: Do<Machine, Caller>) -> Result<(), Exit> {
        match todo {
            Do::Start(effect) => self.start(&effect).map_err(Exit::unbegun)?,
            Do::Stop(id) => self.stop(id),
            Do::Publish(batch) => self.publish(batch),
            Do::Answer(caller, answer) => {
                crashpoint::hit("accepted");
                // A caller that is gone needs no answer.
                let _ = caller.send(answer);
            }
            Do::Arm(due) => self.timers.due = due,
            Do::Broken(edge) => return Err(Exit::Broken(edge)),
        }
        Ok(())
    }
}
