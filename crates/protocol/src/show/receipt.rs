//! The shape of a receipt: what became of one message.

use engine::tables::transitions::RunState;
use engine::{
    Address, MessageId, ModeSource, Outcome, QueueMode, QueueState, ReceiptState, RunId, SessionId, Timestamp,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// What became of one message. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReceiptStory {
    /// The id of the message.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub message: MessageId,
    /// The idempotency key of the sender.
    pub key: Option<String>,
    /// The id of its session.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// The state of the receipt.
    #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
    pub state: ReceiptState,
    /// The queue mode of the message.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: QueueMode,
    /// What decided its mode; none for a message of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::ModeSourceName>"))]
    pub mode_by: Option<ModeSource>,
    /// How many secrets were masked in its text before it was recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub masked: u32,
    /// Its queue state, one of the states of its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub queue_state: Option<QueueState>,
    /// The queue state of its steering leg, if it has two legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub steer_state: Option<QueueState>,
    /// Its steering leg, if it has two legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerLeg>,
    /// When it was accepted.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub accepted_at: Timestamp,
    /// Its position in the queue, from 1; none once it has started.
    pub ahead: Option<u32>,
    /// The run that answers it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The run that ends as interrupted for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub ends_run: Option<RunId>,
    /// The state of the run that answers it; `idle` while the message waits.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub run_state: RunState,
    /// How the run ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
    pub outcome: Option<Outcome>,
    /// When the run started, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub started_at: Option<Timestamp>,
    /// When the run ended, if it has.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub ended_at: Option<Timestamp>,
    /// Why the run did not complete.
    pub error: Option<String>,
    /// The checkpoint of its run, if that was interrupted, `BRANCH@SEQ`: the last entry before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Where the message came from, if its sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub origin: Option<Box<Address>>,
    /// Where its answer goes, if not to its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub reply_to: Option<Box<Address>>,
}

/// The steering leg of a message with two legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SteerLeg {
    /// The state of the leg.
    #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
    pub state: ReceiptState,
    /// The run that it joined; if the followup took over, the run of that.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// Whether the followup leg took over, because no request of another run held the message.
    pub taken_over: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
