//! What happened in a session, as those who watch it want to know it: with the model of a request, the tool of a call, and how long
//! each took.

use engine::{
    CallId, CallOutcome, CompactionStep, EffectId, FailureClass, Outcome, QueueMode, RunId, Timestamp, Usage, WaitFor,
};

/// A model, as the configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model<'a> {
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
}

/// How a request to a model ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The answer is complete.
    Answered,
    Failed(FailureClass),
    /// A crash, a pause, a steer or an abort came first.
    Interrupted,
}

impl Answer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed(_) => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Where and when something happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) session: &'a str,
    pub(crate) run: Option<RunId>,
    pub(crate) at: Timestamp,
}

/// What happened. A time that began under an earlier owner is not known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fact<'a> {
    MessageAccepted {
        mode: QueueMode,
    },
    /// An owner continues a run that an earlier one began.
    Recovered,
    RunStarted {
        agent: &'a str,
    },
    RunEnded {
        agent: &'a str,
        outcome: Outcome,
        class: Option<FailureClass>,
        ms: Option<u64>,
    },
    RequestSent {
        model: Model<'a>,
    },
    RequestEnded {
        id: EffectId,
        model: Model<'a>,
        answer: Answer,
        ms: u64,
        /// Until the first piece of the answer.
        first_ms: Option<u64>,
        /// Of a complete answer.
        usage: Option<&'a Usage>,
    },
    /// A model has used tokens. The cost is in micro-dollars.
    Spent {
        model: Model<'a>,
        usage: &'a Usage,
        cost: u64,
    },
    RetryScheduled {
        is_fallback: bool,
    },
    CooldownSet {
        model: &'a str,
        class: Option<FailureClass>,
    },
    CallStarted {
        tool: &'a str,
    },
    CallEnded {
        id: CallId,
        tool: &'a str,
        outcome: CallOutcome,
        ms: Option<u64>,
    },
    ApprovalAsked,
    ApprovalAnswered {
        allowed: bool,
    },
    ApprovalExpired,
    WaitBegan {
        on: WaitFor,
        until: Option<Timestamp>,
    },
    WaitEnded {
        on: WaitFor,
        ms: Option<u64>,
    },
    Compacted {
        step: CompactionStep,
    },
    CompactionFailed {
        class: FailureClass,
    },
}
