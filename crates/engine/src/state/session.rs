//! A session: one conversation with an agent, one lane, one current branch.

use serde::{Deserialize, Serialize};

use super::account::SessionAccount;
use super::conversation::Conversation;
use super::run::Run;
use super::transcript::Item;
use crate::event::StopReason;
use crate::failure::Failure;
use crate::ids::Timestamp;
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

/// The state of a session, in two halves: what only goes forward, and what may be taken back or begin anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Who it is, and everything that happened to the world because of it: never rewound.
    pub account: SessionAccount,
    /// What was said in it, and what is being said.
    pub conversation: Conversation,
}

/// The lifecycle of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// The session is being created.
    Initializing,
    /// Created; no run has started.
    Ready,
    /// A run is active.
    Active(Box<Run>),
    /// The last run has ended.
    Idle,
    /// The user has paused the run.
    Suspended(Box<Run>),
    /// A human is needed.
    Error {
        /// Why a human is needed.
        failure: Failure,
        /// The command that repairs it.
        remedy: String,
        /// The unfinished run; it is resumed after the repair.
        run: Option<Box<Run>>,
        /// The next attempt that it makes by itself; none = only a human repairs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<RecoveryAttempt>,
    },
    /// Its held calls are looked up, and the repair is tried.
    Recovering {
        /// The unfinished run; it is resumed after the repair.
        run: Option<Box<Run>>,
    },
    /// The session has terminated and accepts nothing more.
    Terminated,
}

/// An attempt of a held session to continue by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct RecoveryAttempt {
    /// Its number since a human last resumed the run, from 1.
    pub no: u32,
    pub at: Timestamp,
}

impl Lifecycle {
    /// The lifecycle without its run.
    pub fn kind(&self) -> LifecycleKind {
        match self {
            Self::Initializing => LifecycleKind::Initializing,
            Self::Ready => LifecycleKind::Ready,
            Self::Active(_) => LifecycleKind::Active,
            Self::Idle => LifecycleKind::Idle,
            Self::Suspended(_) => LifecycleKind::Suspended,
            Self::Error { .. } => LifecycleKind::Error,
            Self::Recovering { .. } => LifecycleKind::Recovering,
            Self::Terminated => LifecycleKind::Terminated,
        }
    }

    fn run(&self) -> Option<&Run> {
        match self {
            Self::Active(run) | Self::Suspended(run) => Some(run),
            Self::Error { run, .. } | Self::Recovering { run } => run.as_deref(),
            Self::Initializing | Self::Ready | Self::Idle | Self::Terminated => None,
        }
    }

    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Self::Active(run) | Self::Suspended(run) => Some(run),
            Self::Error { run, .. } | Self::Recovering { run } => run.as_deref_mut(),
            Self::Initializing | Self::Ready | Self::Idle | Self::Terminated => None,
        }
    }
}

impl Session {
    /// The unfinished run: active, paused, or waiting for a repair.
    pub fn run(&self) -> Option<&Run> {
        self.conversation.lifecycle.run().or(self.conversation.run_in_transition.as_deref())
    }

    /// Whether the request that is out, or next, asks for the rest of an answer that was cut: nothing came behind it.
    pub fn continues(&self) -> bool {
        let is_last = matches!(self.conversation.transcript.items().last(), Some(Item::Assistant { .. }));
        let is_cut = |run: &Run| run.has_part() && run.step.stop_reason == Some(StopReason::Length);
        is_last && self.run().is_some_and(is_cut)
    }

    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        self.conversation.lifecycle.run_mut().or(self.conversation.run_in_transition.as_deref_mut())
    }

    /// Whether a run is active; a paused one is not.
    pub fn is_active(&self) -> bool {
        matches!(self.conversation.lifecycle, Lifecycle::Active(_))
    }

    /// Whether a run is active whose outcome is not decided.
    pub fn goes_on(&self) -> bool {
        self.is_active() && self.run().is_some_and(|run| run.ending.is_none())
    }

    /// Whether its active run waits for something outside and needs no slot of its lane until that comes.
    pub fn waits_outside(&self) -> bool {
        self.goes_on() && self.run().is_some_and(Run::frees_lane)
    }

    /// Whether its run continues without a human once what it waits for comes, and holds no slot of its lane until then.
    pub fn is_outside_lane(&self) -> bool {
        self.waits_outside() || self.recovers_by_itself()
    }

    /// Whether it repairs itself or will do so (`runs.recover`), with no human.
    pub fn recovers_by_itself(&self) -> bool {
        match &self.conversation.lifecycle {
            Lifecycle::Error { next, .. } => next.is_some(),
            Lifecycle::Recovering { run } => run.as_ref().is_some_and(|run| run.counts.recoveries > 0),
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Active(_)
            | Lifecycle::Idle
            | Lifecycle::Suspended(_)
            | Lifecycle::Terminated => false,
        }
    }

    /// Whether the wait of its active run is over, and the run queues for its lane again.
    pub fn waits_for_lane(&self) -> bool {
        self.goes_on() && self.run().is_some_and(Run::waits_for_lane)
    }

    /// Whether a repair of it is under way.
    pub fn is_recovering(&self) -> bool {
        matches!(self.conversation.lifecycle, Lifecycle::Recovering { .. })
    }

    /// The next attempt that a held session makes by itself.
    pub fn next_recovery(&self) -> Option<RecoveryAttempt> {
        if let Lifecycle::Error { next, .. } = self.conversation.lifecycle { next } else { None }
    }

    /// Whether nothing runs and nothing waits: the next message starts its run at once.
    pub fn is_idle(&self) -> bool {
        let rests = matches!(self.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle);
        rests && self.conversation.queue.is_empty() && self.may_begin_run()
    }

    /// Whether nothing is under way that a run must wait for: files that are restored, a conversation that is erased.
    pub fn may_begin_run(&self) -> bool {
        self.account.undo.is_none() && self.due_erasure().is_none()
    }

    /// Whether it terminates with the run in it: nothing more is accepted.
    pub fn is_terminating(&self) -> bool {
        self.run().and_then(|run| run.ending).is_some_and(|ending| ending.terminate)
    }

    /// The explicit run state of R01.
    pub fn run_state(&self) -> RunState {
        match &self.conversation.lifecycle {
            Lifecycle::Active(run) => run.state(),
            Lifecycle::Suspended(_) => RunState::Paused,
            Lifecycle::Error { run: Some(_), .. } | Lifecycle::Recovering { run: Some(_) } => RunState::Error,
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Terminated
            | Lifecycle::Error { run: None, .. }
            | Lifecycle::Recovering { run: None } => {
                self.conversation.run_in_transition.as_ref().map_or(RunState::Idle, |run| run.state())
            }
        }
    }
}
