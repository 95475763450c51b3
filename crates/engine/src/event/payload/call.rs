//! Calls of tools: how each is checked, asked, started, looked up and settled.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::body::{Attachment, Body};
use crate::event::{CallOutcome, EndingCause, Found};
use crate::ids::{CallId, EffectId, Epoch, Hash};
use crate::settings::{Policy, ToolClass};

payload! {
    /// A call was checked against its schema and the policy.
    CallChecked {
        /// Which.
        call: CallId,
        /// What the policy says.
        decision: Policy,
        /// The hash of tool, arguments and folder: what an approval binds to.
        fingerprint: Hash,
        /// What is needed to look the call up after a crash (for a write: the hash of the file before).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        /// Why it is asked or denied, for people and the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// Leave is asked for a call.
    CallAsked {
        /// Which.
        call: CallId,
        /// What the answer binds to.
        fingerprint: Hash,
        /// What is asked, for a person.
        question: String,
    }
    /// The question was answered.
    AskAnswered {
        /// Which.
        call: CallId,
        /// Whether the call may run.
        allow: bool,
        /// By whom or what.
        by: String,
    }
    /// A call is decided; it begins when this is synced (for a read-only tool: written).
    CallStarted {
        /// Which.
        call: CallId,
        /// The effect that runs it.
        effect: EffectId,
        /// The process that starts or takes it up.
        epoch: Epoch,
        /// How it may be repeated.
        class: ToolClass,
    }
    /// A running call is to be ended.
    CallEnding {
        /// Which.
        call: CallId,
        /// Why.
        why: EndingCause,
    }
    /// A crash cut the call off; it is looked up.
    CallLost {
        /// Which.
        call: CallId,
    }
    /// What was found of it.
    CallFound {
        /// Which.
        call: CallId,
        /// What.
        found: Found,
    }
    /// A running call wrote something.
    OutputAdded {
        /// The call's effect.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// What, as text (what is not UTF-8 is replaced).
        text: String,
    }
    /// A call has its one result.
    CallSettled {
        /// Which.
        call: CallId,
        /// The effect that ran it, if one did.
        effect: Option<EffectId>,
        /// How it ended.
        outcome: CallOutcome,
        /// What the model is told.
        output: Body,
        /// All that it gave back, when that is more than the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<Body>,
        /// Images and files that the model is shown with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    }
}
