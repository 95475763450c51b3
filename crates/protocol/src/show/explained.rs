//! Why a run stands where it stands.

use engine::{RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run is doing, what it waits for, and what can be done. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Explained {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// Its session's key.
    pub key: String,
    /// A state of a run; `queued` as long as it has not begun, its outcome once it has ended.
    pub state: String,
    /// Since when.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// What it waits for, in words; none once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Until when at the latest, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub until: Option<Timestamp>,
    /// What happens then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// What can be done.
    pub can: Vec<Way>,
}

/// Something that can be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Way {
    /// What.
    pub what: String,
    /// The command that does it.
    pub command: String,
}
