//! Deliveries: what goes out of a session to a route. A delivery that is wanted is in the outbox until it has ended.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{Address, DeliveryKind, ShortBlock};
use crate::ids::{CallId, EffectId, Epoch, Timestamp};

payload! {
    /// Something is to go out.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryWanted {
        /// The effect of its first try. Its ordinal numbers the deliveries of the session.
        delivery: EffectId,
        kind: DeliveryKind,
        /// Where to; none = to whoever follows the session, who has it with this entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Box<Address>>,
        /// Its text; none = it is the reply of the run, as the entries of the run give it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        /// Whether what arrives twice counts once there.
        #[serde(default, skip_serializing_if = "is_default")]
        has_keys: bool,
        /// The call that sends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// Of a block: the bytes of the answer that it stands for.
        #[serde(default, skip_serializing_if = "is_default")]
        taken: u32,
        /// Of a block: what the rest of the answer begins with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reopened: Option<String>,
        /// Of a block: the bytes of its text that went out before.
        #[serde(default, skip_serializing_if = "is_default")]
        from: u32,
        /// Of a block: whether it ends in the middle of a text.
        #[serde(default, skip_serializing_if = "is_default")]
        goes_on: bool,
        /// Of a short block behind which another one may come soon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        short: Option<ShortBlock>,
        /// The delivery that did not arrive and is sent again by a user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<EffectId>,
    }
    /// A try begins.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryStarted {
        delivery: EffectId,
        /// The process that sends it.
        epoch: Epoch,
        /// The blocks that go out with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        joined: Vec<EffectId>,
    }
    /// A try failed, and another one follows.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryFailed {
        delivery: EffectId,
        why: String,
        /// When.
        until: Timestamp,
        /// Whether it may have arrived all the same.
        #[serde(default, skip_serializing_if = "is_default")]
        uncertain: bool,
    }
    /// What became of it.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryEnded {
        delivery: EffectId,
        /// Whether it is known to have arrived; none = unknown.
        arrived: Option<bool>,
        /// Why it did not, or why that is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Whether a user gave it up: it is in the outbox no longer.
        #[serde(default, skip_serializing_if = "is_default")]
        dropped: bool,
    }
}
