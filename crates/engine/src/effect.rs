//! Effects: what must be in flight in the world now. Derived from the state, never remembered.

use crate::body::Body;
use crate::event::EndingCause;
use crate::ids::{BranchId, CallId, EffectId, EffectKind, MessageId, RunId, Seq};
use crate::ledger::FailureReport;
use crate::settings::Thinking;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

/// One wanted effect. Its driver finds the details in the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Get a slot of the global lane: for the head of the queue, whose settings are resolved then, or for the run of
    /// this message, whose wait is over.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Lane {
        id: EffectId,
        /// The head of the queue, or the message of the run.
        message: MessageId,
    },
    /// Make the workspace and the system prompt.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Prepare { id: EffectId },
    /// Get a grant for a request from the budgets of this run, and repeat the request until it is granted.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Reserve {
        id: EffectId,
        /// The estimated cost of the request.
        expected: Spent,
        /// Whether the request only reports what was done.
        closing: bool,
    },
    /// Send a request and report its stream.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Request {
        id: EffectId,
        /// The index of the candidate in the settings.
        candidate: u32,
        /// The thinking level, if it is not the candidate's own.
        thinking: Option<Thinking>,
        prompt: Body,
        /// The number of transcript items in it.
        items: u32,
    },
    /// Compact the history.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Compact {
        id: EffectId,
        compaction_step: CompactionStep,
        /// The number of items that a summary is to stand for.
        items: u32,
        /// What the summary is to keep above all.
        focus: Option<Body>,
        /// The index in the settings of the candidate that summarises if no other model does.
        candidate: u32,
    },
    /// Ask a model for the title of the conversation.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Title {
        id: EffectId,
        /// The message that it is named after.
        message: Body,
        /// The index in the settings of the candidate that is asked if no other model is.
        candidate: u32,
    },
    /// Check a call against its schema and the policy.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CheckCall { id: EffectId, call: CallId },
    /// Run a call, or attach to it if it is already running.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RunCall { id: EffectId, call: CallId },
    /// Find out the outcome of a call.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    FindCall {
        id: EffectId,
        call: CallId,
        /// The effect that ran it.
        started: EffectId,
    },
    /// End a running call.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    EndCall {
        id: EffectId,
        call: CallId,
        /// The effect that runs it.
        started: EffectId,
        why: EndingCause,
    },
    /// Freeze the commands of a call as long as this is wanted, and thaw them after that.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    FreezeCall {
        id: EffectId,
        call: CallId,
        /// The effect that runs it.
        started: EffectId,
    },
    /// Report a failure to the ledger.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Report { id: EffectId, failure_report: FailureReport },
    /// Follow a process until it has ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    HoldProcess {
        id: EffectId,
        /// The effect that started the process.
        process: EffectId,
    },
    /// End a process with all of its children.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    EndProcess {
        id: EffectId,
        /// The effect that started the process.
        process: EffectId,
    },
    /// Send something to its route.
    #[allow(missing_docs, reason = "the field says it itself")]
    Deliver { id: EffectId },
    /// Bring files into the state that a plan names.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Undo { id: EffectId, plan: Body },
    /// Erase what a deleted conversation said. It may be carried out again.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Erase {
        id: EffectId,
        branch: BranchId,
        /// The entry that deleted the conversation.
        until: Seq,
    },
}

impl Effect {
    /// The effect that gets this message its slot of the lane.
    pub fn lane(message: MessageId) -> Self {
        let id = EffectId { run: message.into(), kind: EffectKind::Lane, ordinal: 1, try_no: 1 };
        Self::Lane { id, message }
    }

    /// The effect that gets a run a slot of its lane again; `times` numbers these waits, from 1.
    pub(crate) fn lane_again(run: RunId, times: u32) -> Self {
        let id = EffectId { run, kind: EffectKind::Lane, ordinal: 1 + times, try_no: 1 };
        Self::Lane { id, message: run.into() }
    }

    /// The effect that reports this to the ledger.
    pub(crate) fn report(failure_report: FailureReport) -> Self {
        Self::Report { id: EffectId { kind: EffectKind::Report, ..failure_report.request }, failure_report }
    }

    /// The id, which is stable as long as the effect is wanted.
    pub fn id(&self) -> EffectId {
        match self {
            Self::Lane { id, .. }
            | Self::Prepare { id }
            | Self::Reserve { id, .. }
            | Self::Request { id, .. }
            | Self::Compact { id, .. }
            | Self::Title { id, .. }
            | Self::CheckCall { id, .. }
            | Self::RunCall { id, .. }
            | Self::FindCall { id, .. }
            | Self::EndCall { id, .. }
            | Self::FreezeCall { id, .. }
            | Self::Report { id, .. }
            | Self::HoldProcess { id, .. }
            | Self::EndProcess { id, .. }
            | Self::Deliver { id }
            | Self::Undo { id, .. }
            | Self::Erase { id, .. } => *id,
        }
    }
}
