//! What goes out of a session: the lines of its stream, and what is in its outbox.

use engine::{Address, CallId, DeliveryKind, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// What goes out to routes, and messages of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeliveryLine {
    /// Something is to go out, or is said to whoever follows the session.
    Wanted {
        /// Its id, `RUN-NUMBER`.
        id: String,
        /// What it brings.
        #[cfg_attr(feature = "schema", schemars(with = "names::DeliveryKindName"))]
        kind: DeliveryKind,
        /// Where to; none = to whoever follows the session, who has it with this line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
        to: Option<Box<Address>>,
        /// Its text, not sanitized: the whole if it is said to whoever follows the session, else the beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The id of the call that sends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        call: Option<CallId>,
    },
    /// A try failed, and another one follows.
    Failed {
        /// Its id.
        id: String,
        /// Why.
        why: String,
        /// When it is tried again.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        until: Timestamp,
    },
    /// What became of it.
    Ended {
        /// Its id.
        id: String,
        /// Whether it arrived; none = that is unknown, and it is not sent again by itself.
        arrived: Option<bool>,
        /// Why it did not, or why that is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Whether a user gave it up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dropped: bool,
    },
}
