//! What was asked for, and what must follow.

use engine::tables::routing::OnlyIf;
use engine::tables::transitions::RunState;
use engine::{
    Acknowledgement, Breakpoint, DropPolicy, Event, Hash, Interrupt, InterruptCause, MessageId, ModeSource, Outcome,
    PauseCause, QueueMode, QueuePlace, QueueSettings, Record, RunId,
};

use super::{Led, Oracle, same};

/// A request to the session.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::queue) enum Asked {
    /// Accept a message.
    Message(Offered),
    /// Accept a message that was accepted before.
    Again(MessageId),
    /// Pause the run.
    Pause { freeze: bool },
    /// Resume the run, or end it.
    Resume { drop: bool },
    /// End the run in progress.
    Abort,
    /// Set or clear a breakpoint of a run.
    Break { run: RunId, at: Option<Breakpoint> },
    /// Reset the conversation.
    Reset,
    /// Set the queue mode for messages without one.
    Override(Option<QueueMode>),
    /// The end of an answer that does not fit the schema of its run.
    Mismatch,
    /// Anything else, which is never refused.
    Other,
}

/// A message as it was sent, with the configured settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::queue) struct Offered {
    pub(in crate::queue) message: MessageId,
    pub(in crate::queue) body: Hash,
    pub(in crate::queue) mode: Option<QueueMode>,
    pub(in crate::queue) queue: QueueSettings,
    /// Whether it asks for a compaction, and for nothing else.
    pub(in crate::queue) compacts: bool,
    pub(in crate::queue) only_if: Option<OnlyIf>,
}

impl Offered {
    /// The mode of the message, else that of the session, else the configured one; and which of them it is.
    pub(super) fn mode(&self, session: Option<QueueMode>) -> (QueueMode, ModeSource) {
        match (self.mode, session) {
            (Some(mode), _) => (mode, ModeSource::Message),
            (None, Some(mode)) => (mode, ModeSource::Session),
            (None, None) => (self.queue.mode, self.queue.mode_by),
        }
    }
}

/// A message with the mode that routes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) offered: Offered,
    pub(super) mode: QueueMode,
    /// What decides it.
    pub(super) mode_by: ModeSource,
}

impl Came {
    pub(super) fn as_accepted(&self) -> (MessageId, Hash, QueueMode, Option<ModeSource>) {
        (self.offered.message, self.offered.body, self.mode, Some(self.mode_by))
    }

    pub(super) fn cap(&self) -> usize {
        self.offered.queue.cap as usize
    }

    pub(super) fn refuses(&self) -> bool {
        self.offered.queue.drop == DropPolicy::New
    }

    pub(super) fn notifies(&self) -> bool {
        self.offered.queue.drop == DropPolicy::Summarize
    }
}

/// The expected consequences of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) place: QueuePlace,
    cut: bool,
    /// The run that ends for it.
    pub(super) ends: Option<RunId>,
    held: bool,
}

impl Expected {
    /// Checks the actual consequences of a message.
    pub(super) fn came(self, came: &Came, records: &[Record]) -> Result<(), String> {
        let has = |is: &dyn Fn(&Event) -> bool| records.iter().any(|record| is(&record.event));
        let cut = has(&|event| matches!(event, Event::StreamInterrupted(e) if e.cause == InterruptCause::Steer));
        let ended = has(&|event| matches!(event, Event::EndingSet(e) if e.outcome == Outcome::Interrupted));
        let ends = self.ends.filter(|_| ended).or(ended.then_some(RunId(uuid::Uuid::nil())));
        let held = has(&|event| matches!(event, Event::Paused(e) if e.cause == PauseCause::Interrupt));
        same("what it does beside waiting", Self { cut, ends, held, ..self }, self)
            .map_err(|what| format!("{:?}: {what}", came.mode))
    }
}

impl Oracle {
    /// Where a message must be put, and what else must happen.
    pub(super) fn expect(&self, came: &Came) -> Expected {
        let mut expected = Expected { place: QueuePlace::Back, cut: false, ends: None, held: false };
        let (resting, queue) = (self.run.is_none(), came.offered.queue);
        let ending = self.ending().is_some();
        let steerable = if resting { self.waits.count() > 0 } else { !ending && !self.is_paused() };
        match came.mode {
            QueueMode::Collect => expected.place = QueuePlace::Gather,
            QueueMode::Steer if steerable => expected.place = QueuePlace::Steer,
            QueueMode::SteerBacklog if steerable => expected.place = QueuePlace::Both,
            QueueMode::Followup | QueueMode::Steer | QueueMode::SteerBacklog => {}
            QueueMode::Interrupt => {
                if !resting || self.waits.count() > 0 {
                    expected.place = QueuePlace::Front;
                }
                expected.held = !resting && !ending && !self.is_paused() && queue.interrupt == Interrupt::Suspend;
                // With `suspend` a message never ends a run, also not one that is paused already.
                let ends = !ending && queue.interrupt == Interrupt::Replace;
                expected.ends = self.run.as_ref().filter(|_| ends).map(|run| run.id);
            }
        }
        let steers = matches!(expected.place, QueuePlace::Steer | QueuePlace::Both);
        expected.cut = steers && queue.cut && self.streams();
        expected
    }

    /// Whether this must be refused.
    pub(super) fn refuses(&self, asked: &Asked) -> bool {
        match asked {
            Asked::Message(offered) => {
                let full = self.waits.count() >= offered.queue.cap as usize && offered.queue.drop == DropPolicy::New;
                full || offered.only_if.is_some_and(|wanted| !self.is_in(wanted))
            }
            Asked::Pause { .. } => self.run.is_none() || self.is_paused() || self.ending().is_some(),
            Asked::Resume { .. } => !self.is_paused(),
            Asked::Abort => self.run.is_none(),
            Asked::Break { run, at } => {
                let is_other = self.run.as_ref().is_none_or(|under| under.id != *run);
                let never = |state: &RunState| {
                    matches!(state, RunState::Idle | RunState::Streaming | RunState::Paused | RunState::Completed)
                };
                is_other || matches!(at, Some(Breakpoint::OnState(state)) if never(state))
            }
            Asked::Again(_) | Asked::Reset | Asked::Override(_) | Asked::Mismatch | Asked::Other => false,
        }
    }

    /// Whether the session is in the state that a sender asks for.
    fn is_in(&self, wanted: OnlyIf) -> bool {
        match wanted {
            OnlyIf::Idle => self.run.is_none() && self.waits.count() == 0,
            OnlyIf::Active => self.run.is_some() && self.ending().is_none() && !self.is_paused(),
        }
    }

    /// Checks that a request that was not refused was carried out.
    pub(super) fn was_done(&self, asked: &Asked, led: &Led<'_>) -> Result<(), String> {
        let over = self.run.is_none() || self.ending().is_some();
        let done = match asked {
            Asked::Message(Offered { message, .. }) | Asked::Again(message) => {
                let Ok(Acknowledgement::Receipt(receipt)) = led.answer else {
                    return Err("there is no receipt".into());
                };
                let (state, ahead) = self.receipt(*message);
                same("the receipt", (Some(receipt.state), receipt.ahead), (state, ahead))?;
                matches!(asked, Asked::Message(_)) || led.records.is_empty()
            }
            Asked::Pause { .. } => self.is_paused(),
            // It may stop at the next breakpoint at once.
            Asked::Resume { drop } => !drop || over,
            Asked::Abort => over,
            Asked::Reset => self.run.is_none() || self.reset_due,
            // It may have stopped the run at once, and be used up.
            Asked::Break { at, .. } => self.run.as_ref().is_some_and(|run| {
                let stops_now = led.records.iter().any(|record| matches!(record.event, Event::Paused(_)));
                run.stops_at(at.as_ref()) || stops_now && at.is_some() && run.stopped_at() == at.as_ref()
            }),
            Asked::Override(mode) => self.mode == *mode,
            Asked::Mismatch | Asked::Other => true,
        };
        if done { Ok(()) } else { Err(format!("{asked:?} was answered and not done")) }
    }
}
