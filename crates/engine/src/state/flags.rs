//! Flags (R21): functions of the state, so that they cannot disagree with it.

use serde::{Deserialize, Serialize};

use super::call::Stage;
use super::run::{Phase, PrepareStage, Run};
use super::session::{Lifecycle, Session};
use crate::event::WaitFor;
use crate::tables::lifecycle::LifecycleKind;

/// The flags of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "they are the interface: seven named flags of the requirements")]
pub struct Flags {
    /// An answer streams in.
    pub is_streaming: bool,
    /// The history is being summarised.
    pub is_compacting: bool,
    /// An effect is in flight: a request without a byte yet, calls, a wait, or a slot of the lane.
    pub is_waiting: bool,
    /// It continues only after an approval, a quota reset or a larger budget, or when the store has space again.
    pub is_blocked: bool,
    /// An abort would have something to end.
    pub can_interrupt: bool,
    /// A failure is being decided on or waits for its next try, or a human is needed.
    pub has_error: bool,
    /// A human is needed, or the outcome of a call is not known.
    pub needs_recovery: bool,
}

impl Flags {
    /// Whether an abort has something to end: a run is active and not ending, or it is suspended, held or being repaired. Such
    /// a run is not interrupted any more, but it can be ended.
    pub fn can_abort(&self, lifecycle: LifecycleKind) -> bool {
        use LifecycleKind::{Error, Recovering, Suspended};
        self.can_interrupt || matches!(lifecycle, Suspended | Error | Recovering)
    }

    /// The flags of a session that waits for space on the disk: it is blocked, unless it is suspended anyway.
    #[must_use]
    pub fn with_full_store(self, lifecycle: LifecycleKind) -> Self {
        Self { is_blocked: self.is_blocked || lifecycle != LifecycleKind::Suspended, ..self }
    }
}

impl Session {
    /// The flags of this state.
    pub fn flags(&self) -> Flags {
        let trouble = matches!(self.conversation.lifecycle, Lifecycle::Error { .. });
        let run = self.run();
        let failing = run.is_some_and(|run| matches!(run.phase, Phase::Error { .. } | Phase::Retry { .. }));
        let lost = run.is_some_and(|run| run.step.calls.iter().any(|call| call.stage == Stage::Lost));
        let without_run = Flags { has_error: trouble || failing, needs_recovery: trouble || lost, ..Flags::default() };
        match &self.conversation.lifecycle {
            Lifecycle::Active(run) => active(run, without_run),
            Lifecycle::Ready | Lifecycle::Idle => Flags { is_waiting: self.head().is_some(), ..without_run },
            Lifecycle::Initializing
            | Lifecycle::Suspended(_)
            | Lifecycle::Error { .. }
            | Lifecycle::Recovering { .. }
            | Lifecycle::Terminated => without_run,
        }
    }
}

fn active(run: &Run, flags: Flags) -> Flags {
    let phase = &run.phase;
    Flags {
        is_streaming: matches!(phase, Phase::Streaming(_)),
        is_compacting: matches!(phase, Phase::Compacting(_)),
        is_waiting: matches!(
            phase,
            Phase::Preparing { stage: PrepareStage::Sent(_) }
                | Phase::ToolExec
                | Phase::Awaiting { .. }
                | Phase::Retry { .. }
        ),
        is_blocked: matches!(
            phase,
            Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer | WaitFor::Quota | WaitFor::Budget, .. }
        ),
        can_interrupt: run.ending.is_none(),
        ..flags
    }
}
