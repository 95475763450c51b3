//! Finds the row of the routing table that a session is in.

use crate::event::WaitFor;
use crate::state::{Lifecycle, Phase, Run, Session};
use crate::tables::routing::Cell;

impl Cell {
    /// The cell of this session.
    pub fn of(session: &Session) -> Self {
        match &session.conversation.lifecycle {
            _ if session.is_terminating() => Self::Terminated,
            Lifecycle::Ready | Lifecycle::Idle if session.conversation.queue.is_empty() => Self::Idle,
            Lifecycle::Ready | Lifecycle::Idle => Self::Head,
            Lifecycle::Active(run) => Self::of_run(run),
            Lifecycle::Suspended(_) => Self::Suspended,
            Lifecycle::Initializing | Lifecycle::Recovering { .. } => Self::Settling,
            Lifecycle::Error { .. } => Self::Error,
            Lifecycle::Terminated => Self::Terminated,
        }
    }

    fn of_run(run: &Run) -> Self {
        match &run.phase {
            _ if run.ending.is_some() => Self::Ending,
            Phase::Preparing { .. } => Self::Preparing,
            Phase::Streaming(_) => Self::Streaming,
            Phase::Awaiting { on: WaitFor::Answer, .. } => Self::Answer,
            // What somebody says while the other calls run is said to the question.
            Phase::ToolExec if run.asks_user() => Self::Answer,
            Phase::ToolExec => Self::ToolExec,
            Phase::Awaiting { on: WaitFor::Approval, .. } => Self::Approval,
            Phase::Awaiting { on: WaitFor::Children, .. } => Self::Children,
            // What has not started is skipped for a steer, as it is when the run has its slot.
            Phase::Awaiting { on: WaitFor::Lane, .. } if !run.step.calls.is_empty() => Self::ToolExec,
            Phase::Awaiting { on: WaitFor::Quota | WaitFor::Budget | WaitFor::Lane, .. } => Self::Limit,
            Phase::Awaiting { on: WaitFor::Retry, .. }
            | Phase::Compacting(_)
            | Phase::Error { .. }
            | Phase::Retry { .. } => Self::Deciding,
        }
    }
}
