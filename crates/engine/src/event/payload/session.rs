//! A session: its beginning, its owners, its branches, its life.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::event::QueueMode;
use crate::failure::Failure;
use crate::ids::{BranchId, Epoch, Hash, Seq, SessionId, Timestamp};
use crate::settings::Thinking;
use crate::tables::lifecycle::{LifecycleCause, LifecycleKind};

payload! {
    /// A session begins, on its first branch.
    Created {
        /// Its id.
        session: SessionId,
        /// Its key, `agent:AGENT:NAME`.
        key: String,
        /// Its agent.
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
    /// An owner took the session up.
    Opened {
        /// The owner's number.
        epoch: Epoch,
        /// The last sign of the owner before it: what passed since then is nobody's time. Recorded, because that sign
        /// may be progress, which is gone once it is sealed.
        last_activity: Timestamp,
    }
    /// The owner left in order.
    Closed {
        /// The owner's number.
        epoch: Epoch,
    }
    /// The lifecycle of the session changed.
    LifecycleChanged {
        /// From where.
        from: LifecycleKind,
        /// To where.
        to: LifecycleKind,
        /// Why.
        cause: LifecycleCause,
        /// For `error`: what is wrong.
        failure: Option<Failure>,
        /// For `error`: the command that mends it.
        remedy: Option<String>,
    }
    /// A setting of the session changed: all of them as they are now.
    OverrideSet {
        /// The model that its next runs use, `PROVIDER/MODEL`; none = the agent's.
        model: Option<String>,
        /// How much they think; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// Whether what they do is shown in detail; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verbose: Option<bool>,
        /// How its messages are routed that do not say; none = as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_mode: Option<QueueMode>,
    }
    /// The conversation begins anew; the session goes on.
    Reset {}
}
