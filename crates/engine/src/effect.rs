//! Effects: what must be in flight in the world now. Derived from the state, never remembered.

use crate::body::Body;
use crate::event::EndingCause;
use crate::ids::{CallId, EffectId, EffectKind, MessageId};
use crate::ledger::FailureReport;
use crate::settings::Thinking;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

/// One thing that is wanted. Whoever carries it out finds its details in the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Get the head of the queue its place in a global lane, and resolve its settings.
    Lane {
        /// Its id.
        id: EffectId,
        /// The head of the queue.
        message: MessageId,
    },
    /// Make the workspace and the system prompt.
    Prepare {
        /// Its id.
        id: EffectId,
    },
    /// Get leave for a request of those who spend with this run, and go on asking until it has it.
    Reserve {
        /// Its id.
        id: EffectId,
        /// What the request is taken to cost.
        expected: Spent,
        /// Whether it only says what was done.
        closing: bool,
    },
    /// Send a request and report its stream.
    Request {
        /// Its id.
        id: EffectId,
        /// The place of the candidate in the settings.
        candidate: u32,
        /// The level that it is to think at, where that is not the candidate's own.
        thinking: Option<Thinking>,
        /// The system prompt.
        prompt: Body,
        /// How many items of the transcript it holds.
        items: u32,
    },
    /// Shorten the history.
    Compact {
        /// Its id.
        id: EffectId,
        /// Which way.
        compaction_step: CompactionStep,
        /// How many items a summary is to stand for.
        items: u32,
        /// What it is to keep above all.
        focus: Option<Body>,
        /// The place in the settings of the candidate that summarises where no other model does.
        candidate: u32,
    },
    /// Check a call.
    CheckCall {
        /// Its id.
        id: EffectId,
        /// Which call.
        call: CallId,
    },
    /// Run a call, or attach to it where it is already running.
    RunCall {
        /// Its id.
        id: EffectId,
        /// Which call.
        call: CallId,
    },
    /// Find out what became of a call.
    FindCall {
        /// Its id.
        id: EffectId,
        /// Which call.
        call: CallId,
        /// The effect that ran it.
        started: EffectId,
    },
    /// End a running call.
    EndCall {
        /// Its id.
        id: EffectId,
        /// Which call.
        call: CallId,
        /// The effect that runs it.
        started: EffectId,
        /// Why.
        why: EndingCause,
    },
    /// Let the commands of a call stand still as long as this is wanted, and go on after that.
    FreezeCall {
        /// Its id.
        id: EffectId,
        /// Which call.
        call: CallId,
        /// The effect that runs it.
        started: EffectId,
    },
    /// Tell the ledger what failed.
    Report {
        /// Its id.
        id: EffectId,
        /// What.
        failure_report: FailureReport,
    },
    /// Follow a process until it has ended.
    HoldProcess {
        /// Its id.
        id: EffectId,
        /// The effect that started the process.
        process: EffectId,
    },
    /// End a process.
    EndProcess {
        /// Its id.
        id: EffectId,
        /// The effect that started the process.
        process: EffectId,
    },
}

impl Effect {
    /// The effect that gets this message its place in the lane.
    pub fn lane(message: MessageId) -> Self {
        let id = EffectId { run: message.into(), kind: EffectKind::Lane, ordinal: 1, try_no: 1 };
        Self::Lane { id, message }
    }

    /// The effect that tells the ledger of this.
    pub(crate) fn report(failure_report: FailureReport) -> Self {
        Self::Report { id: EffectId { kind: EffectKind::Report, ..failure_report.request }, failure_report }
    }

    /// Its id.
    pub fn id(&self) -> EffectId {
        match self {
            Self::Lane { id, .. }
            | Self::Prepare { id }
            | Self::Reserve { id, .. }
            | Self::Request { id, .. }
            | Self::Compact { id, .. }
            | Self::CheckCall { id, .. }
            | Self::RunCall { id, .. }
            | Self::FindCall { id, .. }
            | Self::EndCall { id, .. }
            | Self::FreezeCall { id, .. }
            | Self::Report { id, .. }
            | Self::HoldProcess { id, .. }
            | Self::EndProcess { id, .. } => *id,
        }
    }
}
