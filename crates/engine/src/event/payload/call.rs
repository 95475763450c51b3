//! Calls of tools: how each is checked, approved, started, looked up and settled.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::approval::AnswerForm;
use crate::body::{Attachment, Body};
use crate::event::{AnswerRefusal, CallOutcome, EndingCause, Found};
use crate::ids::{CallId, EffectId, Epoch, Hash, MessageId};
use crate::settings::{Policy, ToolClass};

/// The arguments that somebody gave a call instead of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditedArguments {
    /// All of them.
    pub body: Body,
    /// Their beginning, for the model.
    pub shown: String,
}

payload! {
    /// A call was checked against its schema and the policy.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallChecked {
        call: CallId,
        /// The decision of the policy.
        decision: Policy,
        /// The hash of tool, arguments and folder: what an approval binds to.
        fingerprint: Hash,
        /// What is needed to look the call up after a crash (for a write: the hash of the file before).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        /// Why it needs approval or is denied, for people and the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The limit that it asked for itself, milliseconds; none = [`Limits::tool_timeout_ms`].
        ///
        /// [`Limits::tool_timeout_ms`]: crate::settings::Limits::tool_timeout_ms
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// The grant without which it would need approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<CallId>,
    }
    /// Approval is requested for a call, or the call itself is a question of the model to the user.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallAsked {
        call: CallId,
        /// The fingerprint that the answer is bound to.
        fingerprint: Hash,
        /// The text of the request, for a person.
        question: String,
        /// What the model takes as the answer to its question; none = approval is requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        takes: Option<AnswerForm>,
    }
    /// The approval request or the question was answered, or the question was skipped.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    AskAnswered {
        call: CallId,
        /// Whether the call may run; of a question, whether it was answered.
        allow: bool,
        /// Who or what answered.
        by: String,
        /// Why it may not run, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The arguments that the call is to run with instead of its own: it is checked once more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<EditedArguments>,
        /// The grant by which such calls are allowed from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<CallId>,
        /// What a question of the model was answered with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Body>,
        /// The message that is the answer, if one is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Whether a question of the model was skipped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skipped: bool,
    }
    /// Nobody answered the approval request or the question in time.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    AskExpired {
        call: CallId,
        /// Whether it stays open; else the call is denied, or the question is skipped.
        kept: bool,
    }
    /// An answer to the approval request or the question of a call was refused. Only the first ones between two starts of runs are
    /// recorded: [`REFUSED_ANSWERS`](crate::tables::limits::REFUSED_ANSWERS).
    #[allow(missing_docs, reason = "the fields say it themselves")]
    AnswerRefused {
        call: CallId,
        /// Who or what gave it.
        by: String,
        why: AnswerRefusal,
    }
    /// A call is decided; it begins when this is synced (for a read-only tool: written).
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallStarted {
        call: CallId,
        /// The effect that runs it.
        effect: EffectId,
        /// The process that starts or resumes it.
        epoch: Epoch,
        /// How it may be repeated.
        class: ToolClass,
    }
    /// A running call is to be ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallEnding {
        call: CallId,
        why: EndingCause,
    }
    /// A crash interrupted the call; it is looked up.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallLost {
        call: CallId,
    }
    /// The result of looking it up.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallFound {
        call: CallId,
        found: Found,
    }
    /// A running call wrote something.
    OutputAdded {
        /// The effect that runs or ends the call.
        effect: EffectId,
        /// Bytes of this effect's output before this piece.
        offset: u64,
        /// What, as text (what is not UTF-8 is replaced).
        text: String,
    }
    /// A call has its one result.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CallSettled {
        call: CallId,
        /// The effect that ran it, if one did.
        effect: Option<EffectId>,
        outcome: CallOutcome,
        /// What the model receives.
        output: Body,
        /// The whole output, if that is more than the model receives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<Body>,
        /// Images and files that the model receives with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    }
    /// A call has set the plan of the conversation. It is recorded with the result of the call.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    PlanSet {
        call: CallId,
        /// The steps with their status, a JSON array of [`PlanItem`]s.
        ///
        /// [`PlanItem`]: crate::PlanItem
        items: Body,
        /// The number of steps; none = the plan is cleared.
        steps: u32,
        /// The number of those that are done.
        done: u32,
        /// What the model receives once it does not see the call any more; none if no step is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reminder: Option<Body>,
    }
}
