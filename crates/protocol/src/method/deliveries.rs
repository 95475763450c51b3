//! Parameters and results of the methods on what goes out of sessions. Names of parameters are camelCase.

use engine::{Address, CallId, DeliveryKind, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// Parameters of `deliveries.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveriesListParams {
    /// Only those of this session: a name, or agent:AGENT:NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Result of `deliveries.list`: what has not arrived, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DeliveriesListed {
    /// The deliveries.
    pub deliveries: Vec<DeliveryShown>,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStage {
    /// It waits for its turn: to each address, one goes out at a time.
    Wanted,
    /// It is being sent.
    Started,
    /// It is tried again.
    Waiting,
    /// It did not arrive, and is not tried again by itself.
    Failed,
    /// Whether it arrived is unknown, and it is not tried again by itself.
    Unknown,
}

/// Something that goes out of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DeliveryShown {
    /// Its id, `RUN-NUMBER`, which the other end has as its key.
    pub id: String,
    /// What it brings.
    #[cfg_attr(feature = "schema", schemars(with = "names::DeliveryKindName"))]
    pub kind: DeliveryKind,
    /// The key of its session, agent:AGENT:NAME.
    pub session: String,
    /// The id of its run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// Where to.
    #[cfg_attr(feature = "schema", schemars(with = "names::AddressShape"))]
    pub to: Address,
    /// How far it has come.
    pub state: DeliveryStage,
    /// How often it was tried, with the try that is under way.
    pub tries: u32,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it is tried again, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub until: Option<Timestamp>,
    /// Since when it is to go out, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub wanted_at: Timestamp,
    /// The id of the call that sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub call: Option<CallId>,
}

/// Parameters of `deliveries.retry` and `deliveries.drop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryParams {
    /// The id of the delivery.
    pub id: String,
}

/// Result of `deliveries.retry` and `deliveries.drop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryChanged {
    /// The id of the delivery. What is sent again has another one in `deliveries.list`.
    pub id: String,
    /// The key of its session.
    pub session_key: String,
}
