//! The shapes of the audit log of a session.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::{RunState, Trigger};
use engine::{BranchId, Epoch, Hash, Position, RunId, Seq, Session, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// One entry of the audit log. Times are milliseconds since 1970 UTC. Fields that cannot be known after a corrupt entry
/// are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AuditLine {
    /// The id of the branch.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// The sequence number of the entry in its branch.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub seq: Seq,
    /// Its position in the home.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub position: Position,
    /// The epoch of the owner that recorded it.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub epoch: Epoch,
    /// When it was recorded.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// The kind of the entry.
    pub event: String,
    /// The edge of the transition table that it takes, if it takes one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::TriggerName>"))]
    pub trigger: Option<Trigger>,
    /// The run that it belongs to.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// The state of the run before the entry.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub from: Option<RunState>,
    /// The state after the entry.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::RunStateName>"))]
    pub to: Option<RunState>,
    /// The lifecycle state before the entry.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::LifecycleName>"))]
    pub lifecycle_from: Option<LifecycleKind>,
    /// The state after the entry.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::LifecycleName>"))]
    pub lifecycle_to: Option<LifecycleKind>,
    /// A short description; none if the kind says enough.
    pub detail: Option<String>,
    /// The defects of the entry; normally empty.
    pub damage: Vec<String>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Verification {
    /// The key of the session, agent:AGENT:NAME.
    pub key: String,
    /// The number of entries.
    pub entries: u64,
    /// The number of branches.
    pub branches: usize,
    /// The number of bodies that the entries name.
    pub bodies: u64,
    /// The last entry, `BRANCH@SEQ`.
    pub head: Option<String>,
    /// The hash of the chain up to the last entry.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub chain: Option<Hash>,
    /// BLAKE3 of the state after it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub state_hash: Option<Hash>,
    /// The defects; normally empty.
    pub faults: Vec<String>,
}

/// The state of a session after an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StateAt {
    /// The entry after which this is the state, `BRANCH@SEQ`.
    pub checkpoint: String,
    /// BLAKE3 of the serialised state: the same entries always give the same hash.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state_hash: Hash,
    /// The state of the engine. Its fields may change with each version.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub session: Session,
}
