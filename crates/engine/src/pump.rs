//! All ordering rules: no effect starts, no subscriber is notified and no caller gets an answer before the batch is
//! recorded. The one exception are effects that change nothing, see [`Decide::early_effects`].
//!
//! The contract of the driver: `offer` every input; whenever no append is in flight, take `next_batch` and append it;
//! report `committed` or `failed`; and after each of these carry out everything that `poll` returns. Sessions and the
//! ledger, the runtime and the simulator use the same pump.
//!
//! A driver may `decide` before it takes the batch. Then effects that change nothing start at once, and while the pump
//! `waits_for_more`, the driver may leave the batch open for a moment: what comes joins it, so that one commit holds what
//! else would be several.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::batch::Batch;
use crate::decide::Decide;
use crate::ids::{EffectId, EffectKind, Moment, Timestamp};
use crate::input::Refusal;
use crate::machine::{IllegalEdge, Machine};
use crate::mutant;
use crate::settings::Settings;
use crate::state::Session;

/// What the driver is to do now.
#[derive(Debug)]
pub enum Do<M: Decide, C> {
    /// Start an effect.
    Start(M::Effect),
    /// Stop an effect: it is not wanted any more.
    Stop(EffectId),
    /// Notify subscribers of a committed batch.
    Publish(Arc<Batch>),
    /// Answer the caller of an input.
    Answer(C, Result<M::Answer, Refusal>),
    /// Offer an input that reports the time, once; replaces the armed time, and none disarms it.
    Arm(Option<Timestamp>),
    /// The machine tried an edge that the table does not have. Drop it and rebuild it from the journal.
    Broken(IllegalEdge),
}

/// A machine with the queues around it. `C` names a caller.
#[derive(Debug)]
pub struct Pump<M: Decide, C> {
    machine: M,
    offered: VecDeque<(M::Input, Moment, Option<C>)>,
    answers: Vec<(C, Result<M::Answer, Refusal>)>,
    /// Whether something was decided that is in no batch yet.
    is_open: bool,
    in_flight: Option<Arc<Batch>>,
    running: BTreeSet<EffectId>,
    /// The running effects that started before the open batch was taken.
    early: BTreeSet<EffectId>,
    armed: Armed,
    todo: VecDeque<Do<M, C>>,
}

/// What the driver has armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// This time, or none.
    At(Option<Timestamp>),
    /// A timer fired, early or late: it may have been this one or the one before, so the next time is reported in any
    /// case, also if there is none.
    Spent,
}

impl<C> Pump<Machine, C> {
    /// The session, once it is created.
    pub fn session(&self) -> Option<&Session> {
        self.machine.session()
    }

    /// The settings of the unfinished run.
    pub fn settings(&self) -> Option<&Settings> {
        self.machine.settings().map(AsRef::as_ref)
    }

    /// Whether the driver may drop it: it is quiet, no effect runs, and its session is idle.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && self.running.is_empty() && self.machine.is_idle()
    }

    /// Whether a shutdown may close the session now. A running request and a try to deliver something may end first, and failures
    /// are reported to the other sessions first: that takes one more entry.
    pub fn may_close(&self) -> bool {
        !self.running.iter().any(|id| matches!(id.kind, EffectKind::Request | EffectKind::Report | EffectKind::Deliver))
    }
}

impl<M: Decide, C> Pump<M, C> {
    /// A pump around a machine that equals the journal.
    pub fn new(machine: M) -> Self {
        Self {
            machine,
            offered: VecDeque::new(),
            answers: vec![],
            is_open: false,
            in_flight: None,
            running: BTreeSet::new(),
            early: BTreeSet::new(),
            armed: Armed::At(None),
            todo: VecDeque::new(),
        }
    }

    /// The machine, one batch ahead of the journal while [`is_ahead`](Self::is_ahead).
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether nothing is queued, open, in flight or to do.
    pub fn is_quiet(&self) -> bool {
        self.offered.is_empty() && !self.is_ahead() && self.todo.is_empty()
    }

    /// Whether the journal lacks something that was decided: a batch is open or being appended.
    pub fn is_ahead(&self) -> bool {
        self.is_open || self.in_flight.is_some()
    }

    /// Whether something was decided that is in no batch yet. An effect that starts now starts early.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether more may soon come that belongs into the open batch: what an effect reports that started early, or the rest
    /// of a short answer. The driver may wait for it, briefly.
    pub fn waits_for_more(&self) -> bool {
        self.is_open && (!self.early.is_empty() || self.machine.is_beginning())
    }

    /// Whether an input is queued that no batch has decided on.
    pub fn has_offers(&self) -> bool {
        !self.offered.is_empty()
    }

    /// Whether a batch is being appended.
    pub fn is_appending(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Queues an input. It is decided on with the next batch.
    pub fn offer(&mut self, input: impl Into<M::Input>, moment: Moment, caller: Option<C>) {
        self.offered.push_back((input.into(), moment, caller));
    }

    /// Decides on everything queued and leaves the batch open, unless an append is in flight; starts what may start early.
    pub fn decide(&mut self) {
        if self.in_flight.is_some() || self.offered.is_empty() || !self.handle_offered() {
            return;
        }
        let wanted = self.machine.early_effects();
        self.early.retain(|id| wanted.iter().any(|effect| M::id_of(effect) == *id));
        for effect in wanted {
            let id = M::id_of(&effect);
            if self.running.insert(id) {
                self.early.insert(id);
                self.todo.push_back(Do::Start(effect));
            }
        }
    }

    /// Decides on everything queued and returns the batch to append, which includes what is open; none while an append is
    /// in flight, when nothing is queued or open, or when it leads to no event (then it counts as committed at once).
    pub fn next_batch(&mut self) -> Option<Arc<Batch>> {
        if self.in_flight.is_some() || self.offered.is_empty() && !self.is_open || !self.handle_offered() {
            return None;
        }
        self.is_open = false;
        self.early.clear();
        if mutant!(AcknowledgedBeforeSynced) {
            self.answer();
        }
        let Some(batch) = self.machine.take_batch() else {
            self.release();
            return None;
        };
        let batch = Arc::new(batch);
        if mutant!(PublishedBeforeWritten) {
            self.todo.push_back(Do::Publish(Arc::clone(&batch)));
        }
        if mutant!(StartedBeforeIntent) {
            self.steer_effects();
        }
        let before = self.in_flight.replace(Arc::clone(&batch));
        debug_assert!(before.is_none(), "one batch is in flight at a time");
        Some(batch)
    }

    /// Returns whether the machine can continue.
    fn handle_offered(&mut self) -> bool {
        // What waited for a slow append is decided only now: no time that it sets, such as the grace of a call that an
        // abort ends, may be over before its effects can start.
        let now = self.offered.iter().map(|(_, moment, _)| moment.now).max();
        while let Some((input, moment, caller)) = self.offered.pop_front() {
            let moment = Moment { now: now.unwrap_or(moment.now), ..moment };
            if M::is_due(&input) {
                self.armed = Armed::Spent;
            }
            let answer = self.machine.handle(input, moment);
            if let Some(caller) = caller {
                self.answers.push((caller, answer));
            }
        }
        if let Some(edge) = self.machine.fault() {
            self.fail(&edge.to_string());
            self.todo.push_back(Do::Broken(edge));
            return false;
        }
        self.is_open = true;
        true
    }

    /// The batch in flight is in the journal since this time, as durable as it asks to be.
    pub fn committed(&mut self, at: Timestamp) {
        self.machine.recorded(at);
        if let Some(batch) = self.in_flight.take()
            && !mutant!(PublishedBeforeWritten)
        {
            self.todo.push_back(Do::Publish(batch));
        }
        self.release();
    }

    /// The batch in flight is not in the journal: the machine is ahead of it and must be dropped. Callers are notified.
    pub fn failed(&mut self, reason: &str) {
        self.in_flight = None;
        self.fail(reason);
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Do<M, C>> {
        self.todo.pop_front()
    }

    fn release(&mut self) {
        self.answer();
        self.steer_effects();
        let deadline = self.machine.deadline();
        let is_armed = matches!(self.armed, Armed::At(Some(_)));
        let late = mutant!(DeadlineNotRearmed) && is_armed && deadline.is_some();
        if self.armed != Armed::At(deadline) && !late {
            self.armed = Armed::At(deadline);
            self.todo.push_back(Do::Arm(deadline));
        }
    }

    fn answer(&mut self) {
        let answers = self.answers.drain(..);
        self.todo.extend(answers.map(|(caller, answer)| Do::Answer(caller, answer)));
    }

    fn fail(&mut self, reason: &str) {
        let queued = self.offered.drain(..).filter_map(|(_, _, caller)| caller);
        let decided = self.answers.drain(..).map(|(caller, _)| caller);
        let callers: Vec<C> = decided.chain(queued).collect();
        for caller in callers {
            let refusal = Refusal::Unavailable { reason: reason.to_owned() };
            self.todo.push_back(Do::Answer(caller, Err(refusal)));
        }
    }

    /// Starts what is wanted and not running, stops what is running and not wanted.
    fn steer_effects(&mut self) {
        let wanted = self.machine.effects();
        let stop: Vec<EffectId> =
            self.running.iter().filter(|id| !wanted.iter().any(|effect| M::id_of(effect) == **id)).copied().collect();
        for id in stop {
            self.running.remove(&id);
            self.todo.push_back(Do::Stop(id));
        }
        for effect in wanted {
            if self.running.insert(M::id_of(&effect)) {
                self.todo.push_back(Do::Start(effect));
            }
        }
    }
}
