//! Which edge of the transition table an event takes.

use super::vocabulary::{CallOutcome, CompactionCause, Next, Outcome, WaitFor};
use super::{AskAnswered, CallSettled, Event, Failed, MessageSealed, RunEnded, WaitBegan, WaitEnded};
use crate::failure::FailureClass;
use crate::tables::lifecycle::LifecycleCause;
use crate::tables::transitions::Trigger;

impl Event {
    /// The edge of the transition table that this event takes, if it is one that can.
    #[expect(clippy::too_many_lines, reason = "a line for each kind of event")]
    pub fn trigger(&self) -> Option<Trigger> {
        match self {
            Self::RunStarted(_) => Some(Trigger::UserInput),
            Self::RequestOpened(_) => Some(Trigger::ModelStarted),
            Self::TextAdded(_)
            | Self::ReasoningAdded(_)
            | Self::CallPartAdded(_)
            | Self::BlockSigned(_)
            | Self::ImageMade(_) => Some(Trigger::TextDelta),
            Self::MessageSealed(e) => sealed(e),
            Self::StreamInterrupted(_) => Some(Trigger::StreamInterrupted),
            Self::Failed(e) => Some(failed(e)),
            Self::CallSettled(e) => Some(settled(e)),
            Self::CallAsked(e) => Some(e.takes.map_or(Trigger::ApprovalRequested, |_| Trigger::Question)),
            Self::AskAnswered(e) => Some(answered(e)),
            Self::AskExpired(_) => Some(Trigger::Expired),
            Self::WaitBegan(e) => wait_began(e),
            Self::WaitEnded(e) => wait_ended(e),
            Self::CompactionBegun(e) => (e.cause != CompactionCause::Overflow).then_some(Trigger::ContextOverflow),
            Self::Compacted(e) => e.goes_on.then_some(Trigger::CompactSuccess),
            Self::ResultsTruncated(_) => Some(Trigger::CompactSuccess),
            Self::CompactionFailed(_) => Some(Trigger::CompactFail),
            Self::RetryScheduled(_) => Some(Trigger::Retryable),
            Self::RunEnded(e) => Some(run_ended(e)),
            Self::Opened(_) => Some(Trigger::Opened),
            Self::Paused(_) => Some(Trigger::Pause),
            Self::Resumed(_) => Some(Trigger::Resume),
            Self::LifecycleChanged(e) => lifecycle_changed(e.cause),
            Self::Created(_)
            | Self::Forked(_)
            | Self::Closed(_)
            | Self::MessageAccepted(_)
            | Self::MessageSettled(_)
            | Self::Gathered(_)
            | Self::BreakpointSet(_)
            | Self::Reset(_)
            | Self::StepBegun(_)
            | Self::RequestSent(_)
            | Self::TextRetracted(_)
            | Self::CallChecked(_)
            | Self::AnswerRefused(_)
            | Self::CallStarted(_)
            | Self::CallEnding(_)
            | Self::CallLost(_)
            | Self::CallFound(_)
            | Self::CompactionAsked(_)
            | Self::Uncompacted(_)
            | Self::Noted(_)
            | Self::BudgetSet(_)
            | Self::BudgetAsked(_)
            | Self::AllowanceSet(_)
            | Self::GrantGiven(_)
            | Self::GrantRevoked(_)
            | Self::CandidateCooldownSet(_)
            | Self::CandidateCooldownLifted(_)
            | Self::Reported(_)
            | Self::LedgerBegun(_)
            | Self::ProfileCooldownSet(_)
            | Self::ProfileAnswered(_)
            | Self::ThinkingLowered(_)
            | Self::ProfilePreferred(_)
            | Self::ProfileCooldownLifted(_)
            | Self::EndingSet(_)
            | Self::OverrideSet(_)
            | Self::SessionLabelled(_)
            | Self::DeliveryWanted(_)
            | Self::DeliveryStarted(_)
            | Self::DeliveryFailed(_)
            | Self::DeliveryEnded(_)
            | Self::ProcessAdopted(_)
            | Self::ProcessEnding(_)
            | Self::ProcessEnded(_)
            | Self::ProcessForgotten(_)
            | Self::FilesChanged(_)
            | Self::UndoStarted(_)
            | Self::UndoEnded(_)
            | Self::ErasureEnded(_)
            | Self::TitleAsked(_)
            | Self::TitleEnded(_)
            | Self::PlanSet(_)
            | Self::OutputAdded(_) => None,
        }
    }
}

fn lifecycle_changed(cause: LifecycleCause) -> Option<Trigger> {
    match cause {
        LifecycleCause::Escalated => Some(Trigger::Escalated),
        LifecycleCause::Recovered => Some(Trigger::Recovered),
        LifecycleCause::Initialised
        | LifecycleCause::Failed
        | LifecycleCause::Task
        | LifecycleCause::Terminate
        | LifecycleCause::RunEnded
        | LifecycleCause::Pause
        | LifecycleCause::Interrupt
        | LifecycleCause::IdleTimeout
        | LifecycleCause::Resume
        | LifecycleCause::Recover
        | LifecycleCause::GivenUp
        | LifecycleCause::RecoveryFailed => None,
    }
}

fn run_ended(e: &RunEnded) -> Trigger {
    match &e.failure {
        Some(_) | None if e.compacted => Trigger::CompactSuccess,
        // A limit of its own, before its next request.
        Some(failure) if matches!(failure.class, FailureClass::Loop | FailureClass::Budget) => Trigger::LimitReached,
        // The rest of an answer did not come.
        Some(_) if e.outcome == Outcome::Completed => Trigger::Fatal,
        Some(_) | None => ended(e.outcome),
    }
}

fn failed(e: &Failed) -> Trigger {
    match e.failure.class {
        FailureClass::ContextOverflow => Trigger::ContextOverflow,
        FailureClass::Refused if e.request.is_none() => Trigger::Refused,
        FailureClass::Timeout | FailureClass::Stalled => Trigger::Timeout,
        FailureClass::Refused
        | FailureClass::RateLimit
        | FailureClass::Overloaded
        | FailureClass::Auth
        | FailureClass::AuthPermanent
        | FailureClass::Billing
        | FailureClass::Network
        | FailureClass::Server
        | FailureClass::Malformed
        | FailureClass::ThinkingUnsupported
        | FailureClass::ModelNotFound
        | FailureClass::InvalidRequest
        | FailureClass::Tool
        | FailureClass::Deadline
        | FailureClass::Aborted
        | FailureClass::Budget
        | FailureClass::Loop
        | FailureClass::Store
        | FailureClass::Unknown => Trigger::StopError,
    }
}

fn ended(outcome: Outcome) -> Trigger {
    match outcome {
        Outcome::Completed => Trigger::StopCompleted,
        Outcome::Failed => Trigger::Fatal,
        Outcome::Aborted | Outcome::Interrupted => Trigger::Abort,
        Outcome::TimedOut | Outcome::Stalled => Trigger::Deadline,
    }
}

fn answered(e: &AskAnswered) -> Trigger {
    match e.answer {
        Some(_) => Trigger::Answered,
        None if e.skipped => Trigger::Skipped,
        None if e.allow => Trigger::ApprovalGiven,
        None => Trigger::Denied,
    }
}

fn settled(e: &CallSettled) -> Trigger {
    if e.outcome == CallOutcome::Skipped { Trigger::Skipped } else { Trigger::ToolResult }
}

fn sealed(e: &MessageSealed) -> Option<Trigger> {
    match e.next {
        Next::Calls => Some(Trigger::ToolCall),
        Next::Steer | Next::Continue => Some(Trigger::StopCompleted),
        Next::Finish | Next::Cut => None,
    }
}

fn wait_began(e: &WaitBegan) -> Option<Trigger> {
    match e.on {
        WaitFor::Approval => Some(Trigger::ApprovalRequested),
        WaitFor::Answer => Some(Trigger::Question),
        WaitFor::Quota => Some(Trigger::AllCooling),
        WaitFor::Budget | WaitFor::Children => Some(Trigger::LimitReached),
        WaitFor::Lane => Some(Trigger::LaneFull),
        WaitFor::Retry => None,
    }
}

fn wait_ended(e: &WaitEnded) -> Option<Trigger> {
    match e.on {
        WaitFor::Retry => Some(Trigger::RetryDue),
        WaitFor::Quota => Some(Trigger::QuotaReset),
        WaitFor::Budget => Some(Trigger::LimitRaised),
        WaitFor::Children => Some(Trigger::ChildrenDone),
        WaitFor::Lane => Some(Trigger::LaneEntered),
        WaitFor::Approval | WaitFor::Answer => None,
    }
}
