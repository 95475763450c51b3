//! A tool call and how far it has come.
//!
//! ```text
//! Guarding → Asking → Ready → Started → Settled
//!                       ↑        ├→ Ending → Settled
//!                       └─ Lost ←┘
//! ```

use serde::{Deserialize, Serialize};

use crate::approval::{AnswerForm, Approvals};
use crate::body::{Attachment, Body};
use crate::event::{CallOutcome, EndingCause, SealedCall};
use crate::ids::{CallId, EffectId, EffectKind, Epoch, Hash, Timestamp};
use crate::settings::{Limits, ToolClass};

/// One call of the current step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Call {
    pub id: CallId,
    /// Its number in the run, from 1; a part of its effects' ids.
    pub ordinal: u32,
    /// The provider's id, for that provider.
    pub provider_id: String,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// How it may be repeated.
    pub class: ToolClass,
    pub arguments: Body,
    /// How far it has come.
    pub stage: Stage,
    /// Which try of running it this is, from 1.
    pub try_no: u32,
    /// How often it was lost.
    pub losses: u32,
    /// What an approval binds to; set when it was checked.
    pub fingerprint: Option<Hash>,
    /// The text of its approval request, or its question.
    pub question: Option<String>,
    /// What it takes as the answer to its question; none = it is no question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<AnswerForm>,
    /// When it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// Nobody has answered in time, and the request stays open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_overdue: bool,
    /// The beginning of the arguments that somebody gave it instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<String>,
    /// What is needed to look it up after a crash.
    pub evidence: Option<String>,
    /// The limit that it asked for itself, milliseconds; none = the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Bytes of output recorded while it ran.
    pub output_bytes: u64,
    /// When this try of it started: its limit counts from there, also after a new owner resumes it.
    pub started_at: Option<Timestamp>,
    /// A breakpoint stopped its run before it, and the run was resumed.
    pub is_passed: bool,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its check is in flight.
    Guarding,
    /// It waits for a human's approval, or is a question that waits for its answer.
    Asking,
    /// It may start.
    Ready,
    /// The owner of this epoch started or resumed it.
    Started {
        /// The epoch of that owner.
        epoch: Epoch,
    },
    /// It is being ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Ending { why: EndingCause },
    /// A crash interrupted it; it is being looked up.
    Lost,
    /// It has its result.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Settled {
        outcome: CallOutcome,
        /// What the model receives.
        output: Body,
        /// Images and files that the model receives.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
}

impl Stage {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Guarding => "guarding",
            Self::Asking => "asking",
            Self::Ready => "ready",
            Self::Started { .. } => "started",
            Self::Ending { .. } => "ending",
            Self::Lost => "lost",
            Self::Settled { .. } => "settled",
        }
    }
}

impl Call {
    pub(crate) fn new(sealed: &SealedCall, ordinal: u32) -> Self {
        Self {
            id: sealed.id,
            ordinal,
            provider_id: sealed.provider_id.clone(),
            tool: sealed.tool.clone(),
            class: sealed.class,
            arguments: sealed.arguments,
            stage: Stage::Guarding,
            try_no: 1,
            losses: 0,
            fingerprint: None,
            question: None,
            takes: None,
            asked_at: None,
            is_overdue: false,
            edited: None,
            evidence: None,
            timeout_ms: None,
            output_bytes: 0,
            started_at: None,
            is_passed: false,
        }
    }

    /// The id of an effect of this call.
    pub fn effect(&self, kind: EffectKind) -> EffectId {
        let try_no = if kind == EffectKind::FindCall {
            self.losses
        } else if kind == EffectKind::CheckCall {
            // Other arguments are checked once more.
            1 + u32::from(self.edited.is_some())
        } else {
            self.try_no
        };
        EffectId { run: self.id.run, kind, ordinal: self.ordinal, try_no }
    }

    /// Until when its approval request waits, if it has a limit.
    pub fn expires_at(&self, approvals: &Approvals) -> Option<Timestamp> {
        Some(self.asked_at?.plus(approvals.expires_ms?))
    }

    /// When its limit ends it, if it has started.
    pub(crate) fn limit_at(&self, limits: &Limits) -> Option<Timestamp> {
        Some(self.started_at?.plus(self.timeout_ms.unwrap_or(limits.tool_timeout_ms)))
    }

    /// It may start once more, as a new effect with a limit of its own.
    pub(crate) fn try_again(&mut self) {
        self.stage = Stage::Ready;
        self.try_no += 1;
        self.output_bytes = 0;
        self.started_at = None;
    }

    /// Whether it has its result.
    pub fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Settled { .. })
    }

    /// Whether something of it may be running: started, being ended, or not known.
    pub fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Started { .. } | Stage::Ending { .. } | Stage::Lost)
    }
}
