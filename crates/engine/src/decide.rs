//! What the pump needs from a machine.

use std::fmt::Debug;

use crate::batch::Batch;
use crate::event::Event;
use crate::ids::{EffectId, Moment, Timestamp};
use crate::input::Refusal;
use crate::machine::IllegalEdge;

/// A pure state machine: it decides on inputs, records each decision as an event, is rebuilt from its events, and says which
/// effects must be in flight. [`Pump`](crate::Pump) puts its batches, answers and effects in order.
pub trait Decide {
    /// An occurrence or a command.
    type Input: Debug;
    /// What the caller of an input receives.
    type Answer: Debug;
    /// Work that must be in flight as long as the machine wants it.
    type Effect: Debug;

    /// Decides on an input. A refusal comes before the first event.
    fn handle(&mut self, input: Self::Input, moment: Moment) -> Result<Self::Answer, Refusal>;

    /// Folds a stored event, which was decided at `at`.
    fn apply(&mut self, event: &Event, at: Timestamp);

    /// Takes everything that was decided since the last batch, if there is anything.
    fn take_batch(&mut self) -> Option<Batch>;

    /// All effects that are wanted now, derived from the state.
    fn effects(&self) -> Vec<Self::Effect>;

    /// The wanted effects that may start before the events behind them are recorded: they change nothing, so that it makes
    /// no difference if those events are lost, and nobody is notified of what they find before they are recorded.
    fn early_effects(&self) -> Vec<Self::Effect> {
        vec![]
    }

    /// Whether what was decided since the last batch is the beginning of something of which more may come at once.
    fn is_beginning(&self) -> bool {
        false
    }

    /// The id of this effect, stable as long as it is wanted.
    fn id_of(effect: &Self::Effect) -> EffectId;

    /// The earliest time at which the machine must be offered an input for which [`is_due`](Self::is_due) is true.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Whether this input reports that the armed time has come.
    fn is_due(_: &Self::Input) -> bool {
        false
    }

    /// Everything decided is in the journal since this time.
    fn recorded(&mut self, _at: Timestamp) {}

    /// The edge that the machine tried and that its tables do not have.
    fn fault(&self) -> Option<IllegalEdge> {
        None
    }

    /// Folds a committed batch.
    fn apply_batch(&mut self, batch: &Batch) {
        batch.records.iter().for_each(|record| self.apply(&record.event, record.at));
    }
}
