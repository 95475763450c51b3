//! What a home is doing.

use std::collections::BTreeMap;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Position, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LaneWait;
#[cfg(feature = "schema")]
use super::names;

/// What a home is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Status {
    /// Its folder.
    pub home: String,
    /// Who owns it.
    pub owner: Option<Owner>,
    /// Whether the home cannot be written, so that what its owner wrote last may be missing here.
    pub immutable: bool,
    /// The last position of the journal.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub head: Position,
    /// How many sessions there are in each lifecycle state.
    pub sessions: BTreeMap<String, usize>,
    /// The sessions that someone must take up, or mend.
    pub unfinished: Vec<Unfinished>,
}

/// The process that owns a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Owner {
    /// Its id.
    pub pid: u32,
    /// Since when: RFC 3339, UTC.
    pub since: Option<String>,
    /// Bytes that it has in memory, where the system says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// A session that someone must take up, or mend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Unfinished {
    /// Its key.
    pub key: String,
    /// Where it is in its life.
    #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
    pub lifecycle: LifecycleKind,
    /// What its run is doing.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub run_state: RunState,
    /// The run that is under way.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// How many messages wait.
    pub queued: u32,
    /// When something last happened in it, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub last_activity: Timestamp,
    /// What it waits for, in words.
    pub waits_for: String,
    /// Until when, where that is known. The command line says it at the end of `waits_for`, in local time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub waits_until: Option<Timestamp>,
    /// Behind whom its next run, or the one that goes on, waits for its place in a lane, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_wait: Option<LaneWait>,
}
