//! Messages: how each is accepted, where it waits, how it ends.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::{Attachment, Body};
use crate::event::{Address, Leg, ModeSource, Overrides, QueueMode, QueuePlace, ReceiptState};
use crate::ids::{MessageId, RunId};

payload! {
    /// A message was accepted.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    MessageAccepted {
        message: MessageId,
        body: Body,
        /// How it is to be routed.
        mode: QueueMode,
        /// The sender's key: the same key is the same message.
        key: Option<String>,
        /// The overrides for its run.
        overrides: Overrides,
        /// Images and files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Where it is put.
        #[serde(default, skip_serializing_if = "is_default")]
        place: QueuePlace,
        /// For a collected message: the quiet time after which its group is complete, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        debounce_ms: Option<u64>,
        /// What decided its mode; older entries do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode_by: Option<ModeSource>,
        /// The run that ends as interrupted for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends: Option<RunId>,
        /// Where it came from, if its sender said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Box<Address>>,
        /// Where its answer goes, if not to its origin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<Box<Address>>,
        /// How many secrets were masked in it before it was recorded.
        #[serde(default, skip_serializing_if = "is_default")]
        masked: u32,
    }
    /// A message, or one leg of it, no longer waits: it has ended, or a run takes it that it did not start.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    MessageSettled {
        message: MessageId,
        state: ReceiptState,
        /// The run that took it, if one did.
        run: Option<RunId>,
        /// Which leg; none = all that wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leg: Option<Leg>,
        /// For a dropped message: whether the next run receives it in short.
        #[serde(rename = "told", default, skip_serializing_if = "is_default")]
        in_next_run: bool,
    }
    /// A group of collected messages is complete: they are one run.
    Gathered {
        /// Its messages, in order.
        messages: Vec<MessageId>,
    }
}
