//! A session: one conversation with an agent, one lane, one current branch.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::process::Process;
use super::queue::{Message, Queued};
use super::run::Run;
use super::transcript::Transcript;
use crate::body::Body;
use crate::event::QueueMode;
use crate::failure::Failure;
use crate::ids::{BranchId, Epoch, MessageId, Seq, SessionId, Timestamp};
use crate::ledger::FailureReport;
use crate::settings::Thinking;
use crate::tables::budget::{Allowance, Spent};
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Session {
    pub id: SessionId,
    /// Its key, `agent:AGENT:NAME`.
    pub key: String,
    pub agent: String,
    /// Its current branch.
    pub branch: BranchId,
    /// The last entry of that branch.
    pub head: Seq,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something last happened.
    pub last_activity: Timestamp,
    /// Its lifecycle, with the run in it.
    pub lifecycle: Lifecycle,
    /// A run between two lifecycle edges of one batch; nothing at rest.
    pub(crate) held: Option<Box<Run>>,
    /// What waits, in order: each message once, or twice where it is steered and follows up.
    pub queue: VecDeque<Queued>,
    /// Every message ever accepted.
    pub messages: BTreeMap<MessageId, Message>,
    /// The senders' keys.
    pub keys: BTreeMap<String, MessageId>,
    /// Dropped messages that the next run receives in short.
    pub dropped: Vec<Body>,
    /// The conversation.
    pub transcript: Transcript,
    /// Failure reports that the ledger has not confirmed yet, in order.
    #[serde(rename = "owed")]
    pub pending_reports: Vec<FailureReport>,
    /// Commands in the background, in the order in which they came there.
    pub processes: Vec<Process>,
    /// The model for its next runs, `PROVIDER/MODEL`; none = the agent's.
    pub model: Option<String>,
    /// How much they think; none = as the agent says.
    pub thinking: Option<Thinking>,
    /// Whether what they do is shown in detail; none = as the agent says.
    pub verbose: Option<bool>,
    /// How its messages are routed that do not say; none = as the agent says.
    pub queue_mode: Option<QueueMode>,
    /// What its runs have spent, but for the one under way.
    pub spent: Spent,
    /// What they may spend together, where somebody has said so.
    pub allowance: Allowance,
    /// The owner that last opened it.
    pub epoch: Epoch,
    /// Whether that owner shut down in order.
    pub closed: bool,
}

/// The lifecycle of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// It is being made.
    Initializing,
    /// Made, nothing has run yet.
    Ready,
    /// A run is active.
    Active(Box<Run>),
    /// The last run has ended.
    Idle,
    /// The user has paused the run.
    Suspended(Box<Run>),
    /// A human is needed.
    Error {
        /// What is wrong.
        failure: Failure,
        /// The command that repairs it.
        remedy: String,
        /// The run that is held meanwhile.
        run: Option<Box<Run>>,
    },
    /// A human is repairing it.
    Recovering {
        /// The run that is held meanwhile.
        run: Option<Box<Run>>,
    },
    /// It has terminated.
    Terminated,
}

impl Lifecycle {
    /// Its name.
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
    /// The active or held run.
    pub fn run(&self) -> Option<&Run> {
        self.lifecycle.run().or(self.held.as_deref())
    }

    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        self.lifecycle.run_mut().or(self.held.as_deref_mut())
    }

    /// Whether a run is active and not held.
    pub fn is_active(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Active(_))
    }

    /// Whether a run is active whose outcome is not decided.
    pub fn goes_on(&self) -> bool {
        self.is_active() && self.run().is_some_and(|run| run.ending.is_none())
    }

    /// Whether nothing runs and nothing waits: the next message starts its run at once.
    pub fn is_idle(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Ready | Lifecycle::Idle) && self.queue.is_empty()
    }

    /// Whether it terminates with the run in it: nothing more is accepted.
    pub fn is_terminating(&self) -> bool {
        self.run().and_then(|run| run.ending).is_some_and(|ending| ending.terminate)
    }

    /// R01's one explicit value.
    pub fn run_state(&self) -> RunState {
        match &self.lifecycle {
            Lifecycle::Active(run) => run.state(),
            Lifecycle::Suspended(_) => RunState::Paused,
            Lifecycle::Error { run: Some(_), .. } | Lifecycle::Recovering { run: Some(_) } => RunState::Error,
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Terminated
            | Lifecycle::Error { run: None, .. }
            | Lifecycle::Recovering { run: None } => self.held.as_ref().map_or(RunState::Idle, |run| run.state()),
        }
    }
}
