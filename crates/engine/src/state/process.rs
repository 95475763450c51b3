//! A command in the background: the call that started it is settled, and the session holds the process.
//!
//! ```text
//! Running ─┬───────────→ Ended → (forgotten)
//!          └→ Ending ──↗
//! ```

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::body::Body;
use crate::event::{CallOutcome, ProcessAdopted, ProcessCause, ProcessEnded, ProcessEnding};
use crate::ids::{CallId, EffectId, EffectKind, Timestamp};

/// A process that a session holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Process {
    /// The effect that started it: the id under which its output and its events are kept.
    pub effect: EffectId,
    /// The call that started it.
    pub call: CallId,
    /// The arguments of that call.
    pub arguments: Body,
    pub started_at: Timestamp,
    /// The time limit at which it is ended.
    pub until: Timestamp,
    pub state: ProcessState,
}

/// The state of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It runs, as far as the session knows.
    Running,
    /// It is being ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Ending { why: ProcessCause },
    /// Its end was observed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Ended {
        outcome: CallOutcome,
        /// How it ended, as a sentence.
        how: String,
        /// When the end was observed.
        at: Timestamp,
    },
}

impl ProcessState {
    /// The name on the wire and on the screen.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ending { .. } => "ending",
            Self::Ended { .. } => "ended",
        }
    }
}

impl Process {
    /// The name that people and models call it by.
    pub fn name(&self) -> String {
        self.effect.process_name()
    }

    /// Whether its end was observed.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, ProcessState::Ended { .. })
    }

    /// Whether it is being ended.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, ProcessState::Ending { .. })
    }

    /// The id of an effect of this process.
    pub fn effect(&self, kind: EffectKind) -> EffectId {
        EffectId { kind, ..self.effect }
    }
}

impl Session {
    /// The process that this effect started, as long as it is listed.
    pub fn process(&self, effect: EffectId) -> Option<&Process> {
        self.account.processes.iter().find(|process| process.effect == effect)
    }

    pub(super) fn process_adopted(&mut self, e: &ProcessAdopted) {
        let Some(call) = self.run().and_then(|run| run.call(e.call)) else { return };
        let process = Process {
            effect: e.process,
            call: e.call,
            arguments: call.arguments,
            started_at: call.started_at.unwrap_or(self.account.last_activity),
            until: e.until,
            state: ProcessState::Running,
        };
        self.account.processes.push(process);
    }

    pub(super) fn process_ending(&mut self, e: &ProcessEnding) {
        self.change_process(e.process, ProcessState::Ending { why: e.why });
    }

    pub(super) fn process_ended(&mut self, e: &ProcessEnded, at: Timestamp) {
        self.change_process(e.process, ProcessState::Ended { outcome: e.outcome, how: e.how.clone(), at });
    }

    fn change_process(&mut self, effect: EffectId, state: ProcessState) {
        let open = |process: &&mut Process| process.effect == effect && !process.is_ended();
        if let Some(process) = self.account.processes.iter_mut().find(open) {
            process.state = state;
        }
    }
}
