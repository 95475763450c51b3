//! The lifecycle of a session: its states, its edges and their causes.

use super::transitions::named;
use serde::{Deserialize, Serialize};

named! {
    /// The lifecycle of a session.
    LifecycleKind {
        /// The session is being created.
        Initializing = "initializing",
        /// Created; no run has started.
        Ready = "ready",
        /// A run is active.
        Active = "active",
        /// The last run has ended.
        Idle = "idle",
        /// The user has paused the run.
        Suspended = "suspended",
        /// A human is needed.
        Error = "error",
        /// Its held calls are looked up, and the repair is tried.
        Recovering = "recovering",
        /// The session has terminated and accepts nothing more.
        Terminated = "terminated",
    }
}

named! {
    /// Why a lifecycle changes.
    LifecycleCause {
        /// The session was created.
        Initialised = "initialised",
        /// The session could not be created. Reserved for R20.
        Failed = "failed",
        /// A run starts.
        Task = "task",
        /// The user terminates the session.
        Terminate = "terminate",
        /// The run ended.
        RunEnded = "run_ended",
        /// The user pauses the run.
        Pause = "pause",
        /// A message pauses the run.
        Interrupt = "interrupt",
        /// A human is needed.
        Escalated = "escalated",
        /// The session was idle for longer than `session.idle_timeout_s` allows (off by default).
        IdleTimeout = "idle_timeout",
        /// The user resumes the run.
        Resume = "resume",
        /// The user asks for a repair, or Limulus tries one by itself (`runs.recover`).
        Recover = "recover",
        /// The user gives up the repair. Reserved for R20.
        GivenUp = "given_up",
        /// The session was repaired.
        Recovered = "recovered",
        /// The repair failed. Reserved for R20.
        RecoveryFailed = "recovery_failed",
    }
}

impl LifecycleCause {
    /// The requirement that will need this cause, if no machine decides it yet. The table allows it.
    pub fn reserved(self) -> Option<&'static str> {
        matches!(self, Self::Failed | Self::GivenUp | Self::RecoveryFailed).then_some("R20")
    }
}

use LifecycleCause as Cause;
use LifecycleKind::{Active, Error, Idle, Initializing, Ready, Recovering, Suspended, Terminated};

/// The table: from, cause, to. A crash is no edge: an active session is still active when it is opened again.
pub const EDGES: &[(LifecycleKind, LifecycleCause, LifecycleKind)] = &[
    (Initializing, Cause::Initialised, Ready),
    (Initializing, Cause::Failed, Error),
    (Ready, Cause::Task, Active),
    (Ready, Cause::Terminate, Terminated),
    (Active, Cause::RunEnded, Idle),
    (Active, Cause::Pause, Suspended),
    (Active, Cause::Interrupt, Suspended),
    (Active, Cause::Escalated, Error),
    (Idle, Cause::Task, Active),
    (Idle, Cause::Terminate, Terminated),
    (Idle, Cause::IdleTimeout, Terminated),
    (Suspended, Cause::Resume, Active),
    (Suspended, Cause::Terminate, Terminated),
    (Error, Cause::Recover, Recovering),
    (Error, Cause::Terminate, Terminated),
    (Error, Cause::GivenUp, Terminated),
    (Recovering, Cause::Recovered, Ready),
    (Recovering, Cause::RecoveryFailed, Terminated),
];

/// Whether the table has this edge.
pub fn allowed(from: LifecycleKind, cause: LifecycleCause, to: LifecycleKind) -> bool {
    EDGES.contains(&(from, cause, to))
}

/// The order in which the lifecycles of its sessions decide the state of an agent, the worst first. A terminated session
/// accepts nothing more, so it does not count.
pub const WORST_FIRST: &[LifecycleKind] = &[Error, Recovering, Suspended, Active, Initializing, Idle, Ready];

/// The state of an agent whose sessions are in these states: the worst of them; ready if it has none.
pub fn worst(sessions: impl IntoIterator<Item = LifecycleKind>) -> LifecycleKind {
    let rank = |state: &LifecycleKind| WORST_FIRST.iter().position(|known| known == state);
    let worst = sessions.into_iter().filter_map(|state| Some((rank(&state)?, state))).min_by_key(|(rank, _)| *rank);
    worst.map_or(Ready, |(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r20_the_state_of_an_agent_is_the_worst_of_its_sessions_that_have_not_terminated() {
        let rows = [
            (&[][..], Ready),
            (&[Terminated, Terminated], Ready),
            (&[Ready, Idle, Terminated], Idle),
            (&[Idle, Active, Initializing], Active),
            (&[Active, Suspended], Suspended),
            (&[Suspended, Recovering, Active], Recovering),
            (&[Idle, Error, Recovering], Error),
        ];
        for (sessions, expected) in rows {
            assert_eq!(worst(sessions.iter().copied()), expected, "{sessions:?}");
        }
        let counted = LifecycleKind::ALL.iter().filter(|state| **state != Terminated);
        assert!(counted.clone().all(|state| WORST_FIRST.contains(state)) && counted.count() == WORST_FIRST.len());
    }
}
