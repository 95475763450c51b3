//! The audit log of a session.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::{RunState, Trigger};
use engine::{BranchId, Epoch, Hash, Position, RunId, Seq, Session, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// One entry of the audit log. Times are milliseconds since 1970 UTC. What cannot be known after a damaged entry is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AuditLine {
    /// The branch.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// The entry's place in it.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub seq: Seq,
    /// Its place in the home.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub position: Position,
    /// The owner that recorded it.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub epoch: Epoch,
    /// When.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// The kind of the entry.
    pub event: String,
    /// The edge of the table that it takes, if it is one that can.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::TriggerName>"))]
    pub trigger: Option<Trigger>,
    /// The run that it belongs to.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// The state of the run before it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub from: Option<RunState>,
    /// And after it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub to: Option<RunState>,
    /// The lifecycle before it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::LifecycleName>"))]
    pub lifecycle_from: Option<LifecycleKind>,
    /// And after it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::LifecycleName>"))]
    pub lifecycle_to: Option<LifecycleKind>,
    /// What happened, in a few words.
    pub detail: Option<String>,
    /// What is wrong with it; nothing, as a rule.
    pub damage: Vec<String>,
}

/// What was recomputed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Verification {
    /// The session's key.
    pub key: String,
    /// How many entries.
    pub entries: u64,
    /// In how many branches.
    pub branches: usize,
    /// How many bodies that they name.
    pub bodies: u64,
    /// The last entry, `BRANCH@SEQ`.
    pub head: Option<String>,
    /// The chain with it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub chain: Option<Hash>,
    /// BLAKE3 of the state there.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub state_hash: Option<Hash>,
    /// What is wrong; nothing, as a rule.
    pub faults: Vec<String>,
}

/// A state with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StateAt {
    /// The entry that it is the state after, `BRANCH@SEQ`.
    pub checkpoint: String,
    /// BLAKE3 of the bytes that the state is kept as: the same entries give the same ones.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state_hash: Hash,
    /// The state, as the engine has it. Its fields may be other ones in the next version.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub session: Session,
}
