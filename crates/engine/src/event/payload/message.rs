//! Messages: how each is accepted, where it waits, what becomes of it.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::{Attachment, Body};
use crate::event::{Leg, Overrides, QueueMode, QueuePlace, ReceiptState};
use crate::ids::{MessageId, RunId};

payload! {
    /// A message was taken.
    MessageAccepted {
        /// Its id.
        message: MessageId,
        /// Its text.
        body: Body,
        /// How it is to be routed.
        mode: QueueMode,
        /// The sender's key: the same key is the same message.
        key: Option<String>,
        /// What it asks to be different for its run.
        overrides: Overrides,
        /// Images and files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Where it is put.
        #[serde(default, skip_serializing_if = "is_default")]
        place: QueuePlace,
        /// Of one that is gathered: how long nothing more may come before its group is complete, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        debounce_ms: Option<u64>,
    }
    /// A message, or one leg of it, waits no more: it has come to an end, or a run takes it that it did not start.
    MessageSettled {
        /// Which.
        message: MessageId,
        /// How.
        state: ReceiptState,
        /// The run that took it, if one did.
        run: Option<RunId>,
        /// Which leg; none = all that wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leg: Option<Leg>,
        /// Of one that gave way: whether the next run is told of it in short.
        #[serde(default, skip_serializing_if = "is_default")]
        told: bool,
    }
    /// A group of gathered messages is complete: they are one run.
    Gathered {
        /// Its messages, in order.
        messages: Vec<MessageId>,
    }
}
