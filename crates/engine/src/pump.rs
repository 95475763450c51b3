//! Every ordering rule in one place: nothing is started, told or answered before it is recorded.
//!
//! The contract of the driver: `offer` whatever happens; whenever nothing is being appended, take `next_batch` and
//! append it; tell `committed` or `failed`; and after each of these carry out all that `poll` gives. The runtime and the
//! simulator drive the same pump.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::batch::Batch;
use crate::effect::Effect;
use crate::ids::{EffectId, Moment, Timestamp};
use crate::input::{Acknowledgement, Input, Refusal, Report};
use crate::machine::{IllegalEdge, Machine};
use crate::mutant;
use crate::state::Session;

/// What the driver is to do now.
#[derive(Debug)]
pub enum Do<C> {
    /// Begin an effect.
    Start(Effect),
    /// Stop an effect: it is not wanted any more.
    Stop(EffectId),
    /// Tell subscribers of a committed batch.
    Publish(Arc<Batch>),
    /// Answer a caller.
    Answer(C, Result<Acknowledgement, Refusal>),
    /// Offer `Report::Due` once at this time; replaces the time armed before, none disarms it.
    Arm(Option<Timestamp>),
    /// The machine tried an edge that the table does not have. Throw it away and rebuild it from the journal.
    Broken(IllegalEdge),
}

/// The machine with the queues around it. `C` names a caller.
#[derive(Debug)]
pub struct Pump<C> {
    machine: Machine,
    offered: VecDeque<(Input, Moment, Option<C>)>,
    answers: Vec<(C, Result<Acknowledgement, Refusal>)>,
    in_flight: Option<Arc<Batch>>,
    running: BTreeSet<EffectId>,
    armed: Armed,
    todo: VecDeque<Do<C>>,
}

/// What the driver has armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// This time, or none.
    At(Option<Timestamp>),
    /// A time came, early or late: it may have been this one or the one before, so that the next is told in any case, also
    /// that there is none.
    Spent,
}

impl<C> Pump<C> {
    /// A pump around a machine that is what the journal says.
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            offered: VecDeque::new(),
            answers: vec![],
            in_flight: None,
            running: BTreeSet::new(),
            armed: Armed::At(None),
            todo: VecDeque::new(),
        }
    }

    /// The machine, one batch ahead of the journal while an append is in flight.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The session, once it is created.
    pub fn session(&self) -> Option<&Session> {
        self.machine.session()
    }

    /// Whether nothing is queued, in flight or to do.
    pub fn is_quiet(&self) -> bool {
        self.offered.is_empty() && self.in_flight.is_none() && self.todo.is_empty()
    }

    /// Whether the driver may put it away: it is quiet, nothing runs for it, and its session rests.
    pub fn is_at_rest(&self) -> bool {
        self.is_quiet() && self.running.is_empty() && self.machine.is_at_rest()
    }

    /// Whether something is offered that no batch has decided on.
    pub fn has_offers(&self) -> bool {
        !self.offered.is_empty()
    }

    /// Whether a batch is being appended.
    pub fn is_appending(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Queues an input. It is decided on with the next batch.
    pub fn offer(&mut self, input: impl Into<Input>, moment: Moment, caller: Option<C>) {
        self.offered.push_back((input.into(), moment, caller));
    }

    /// Decides on all that is queued and gives what is to be appended; none while an append is in flight, when nothing
    /// is queued, or when it leads to no event (then it counts as committed at once).
    pub fn next_batch(&mut self) -> Option<Arc<Batch>> {
        if self.in_flight.is_some() || self.offered.is_empty() {
            return None;
        }
        while let Some((input, moment, caller)) = self.offered.pop_front() {
            if matches!(input, Input::Report(Report::Due)) {
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
            return None;
        }
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
        self.in_flight = Some(Arc::clone(&batch));
        Some(batch)
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

    /// The batch in flight is not in the journal: the machine is ahead of it and must be thrown away. Callers are told.
    pub fn failed(&mut self, reason: &str) {
        self.in_flight = None;
        self.fail(reason);
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Do<C>> {
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
            self.running.iter().filter(|id| !wanted.iter().any(|effect| effect.id() == **id)).copied().collect();
        for id in stop {
            self.running.remove(&id);
            self.todo.push_back(Do::Stop(id));
        }
        for effect in wanted {
            if self.running.insert(effect.id()) {
                self.todo.push_back(Do::Start(effect));
            }
        }
    }
}
