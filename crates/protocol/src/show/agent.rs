//! The shape of an agent: its state over its sessions.

use std::collections::BTreeMap;

use engine::Timestamp;
use engine::tables::lifecycle::LifecycleKind;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;

/// An agent in a list. Its state is derived from its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentSummary {
    /// The name of the agent.
    pub agent: String,
    /// Whether the configuration has it. A session can have an agent that was removed from the configuration.
    pub configured: bool,
    /// The worst lifecycle of its sessions: error, recovering, suspended, active, initializing, idle, ready. Terminated
    /// sessions do not count. An agent without a session is ready.
    #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
    pub state: LifecycleKind,
    /// The number of its sessions in each lifecycle.
    pub sessions: BTreeMap<String, usize>,
    /// The number of its sessions that are blocked: by an approval, a quota or a budget.
    pub blocked: usize,
    /// The number of its sessions that wait for anything.
    pub waiting: usize,
    /// The number of messages that wait in its sessions.
    pub queued: u64,
    /// The time of the last entry of its sessions, milliseconds since 1970 UTC; none without a session.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub last_activity: Option<Timestamp>,
}
