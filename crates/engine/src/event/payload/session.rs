//! A session: its creation, its owners, its branches, its lifecycle.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{QueueMode, Usage, Visibility};
use crate::failure::Failure;
use crate::ids::{BranchId, EffectId, Epoch, Hash, Seq, SessionId, Timestamp};
use crate::queue::Interrupt;
use crate::settings::Thinking;
use crate::tables::budget::Spent;
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

payload! {
    /// A session begins, on its first branch.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Created {
        session: SessionId,
        /// Its key, `agent:AGENT:NAME`.
        key: String,
        agent: String,
        /// The branch that this entry opens.
        branch: BranchId,
    }
    /// A branch begins at a checkpoint of another.
    Forked {
        /// The branch that it leaves.
        parent: BranchId,
        /// The last entry that both share.
        at: Seq,
        /// The chain of that entry.
        hash: Hash,
    }
    /// An owner opened the session.
    Opened {
        /// The epoch of the owner.
        epoch: Epoch,
        /// The last sign of life of the previous owner: the time since then counts for no run. It is recorded because
        /// it may come from progress, which is gone once it is sealed.
        last_activity: Timestamp,
    }
    /// The owner shut down in order.
    Closed {
        /// The epoch of the owner.
        epoch: Epoch,
    }
    /// The lifecycle of the session changed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    LifecycleChanged {
        from: LifecycleKind,
        to: LifecycleKind,
        cause: LifecycleCause,
        /// For `error`: what is wrong.
        failure: Option<Failure>,
        /// For `error`: the command that repairs it.
        remedy: Option<String>,
        /// For `error`: which attempt Limulus makes by itself next; for `recovering`: which of them this is. None = a
        /// human repairs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// For `error`: when Limulus makes that attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    }
    /// A setting of the session changed: this holds all of them.
    OverrideSet {
        /// The model that its next runs use, `PROVIDER/MODEL`; none = the agent's.
        model: Option<String>,
        /// The thinking level; none = the agent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// Whether its runs are shown in detail; none = the agent's setting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verbose: Option<bool>,
        /// The queue mode of messages without one; none = the agent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_mode: Option<QueueMode>,
        /// What an interrupt does with the active run; none = as configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt: Option<Interrupt>,
    }
    /// A new conversation starts; the session continues.
    Reset {}
    /// The session has another title, or is shown elsewhere.
    SessionLabelled {
        /// The title; one of no bytes = the first words of its first message again. None = as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Body>,
        /// Where it is shown; `deleted` also begins a new conversation. None = as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        visibility: Option<Visibility>,
        /// The effect that erases what was said up to this entry. None if nothing is to be erased, and in entries of
        /// versions whose clients erased.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        erasure: Option<EffectId>,
    }
    /// What a deleted conversation said is erased, or could not be.
    ErasureEnded {
        /// The effect that did it.
        erasure: EffectId,
        /// The number of texts and outputs that were erased.
        #[serde(default, skip_serializing_if = "is_default")]
        bodies: u64,
        /// Their size as stored, in bytes.
        #[serde(default, skip_serializing_if = "is_default")]
        bytes: u64,
        /// The number of contents of files that were kept for an undo and are removed.
        #[serde(default, skip_serializing_if = "is_default")]
        files: u64,
        /// Why it failed; none = everything is erased.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    }
    /// A model is asked for the title of the conversation.
    TitleAsked {
        /// The effect that asks it.
        title: EffectId,
        /// The reservation for it, if a budget is limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// A model has given the title of the conversation, or has not. A title that a person gives takes precedence.
    TitleEnded {
        /// The effect that asked it.
        title: EffectId,
        /// The title; none = it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        /// The model that was asked, `PROVIDER/MODEL`; none if it is not known to have answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The tokens that it used.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Its cost in micro-dollars; 0 if no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// Why there is no title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    }
}

impl LifecycleChanged {
    /// The change from one state to another, with nothing to say beside its cause.
    pub fn by(cause: LifecycleCause, from: LifecycleKind, to: LifecycleKind) -> Self {
        Self { from, to, cause, failure: None, remedy: None, attempt: None, retry_at: None }
    }
}
