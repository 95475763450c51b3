//! How messages are queued, as it is configured. The settings come with each message, so the engine reads no
//! configuration.

use serde::{Deserialize, Serialize};

use crate::event::{ModeSource, QueueMode};
use crate::ids::Timestamp;
use crate::tables::limits::QUEUE_CAP;

/// The routing of messages without a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// The mode of a message without one, in a session without one.
    pub mode: QueueMode,
    /// What decided that mode.
    #[serde(default)]
    pub mode_by: ModeSource,
    /// The quiet time after which collected messages are a run, in milliseconds.
    pub debounce_ms: u64,
    /// The maximum of waiting messages.
    pub cap: u32,
    /// Which message is dropped when more come.
    pub drop: DropPolicy,
    /// Whether a steer interrupts the incoming answer.
    pub cut: bool,
    /// What an interrupt does with the active run, if neither the message nor its session says it.
    pub interrupt: Interrupt,
    /// What this message does with it as an interrupt; none = as the session, else the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_interrupt: Option<Interrupt>,
    /// A conversation without an active run in which nothing has happened since this time is stale: a message starts a
    /// new one.
    pub stale_before: Option<Timestamp>,
}

/// Which message a full queue drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropPolicy {
    /// The one that has waited longest.
    Old,
    /// The new one: it is refused.
    #[default]
    New,
    /// The one that has waited longest; the next run receives it in short.
    Summarize,
}

/// What an interrupt does with the active run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// The run ends as interrupted.
    #[default]
    Replace,
    /// The run is paused until the user resumes or drops it.
    Suspend,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            mode: QueueMode::Followup,
            mode_by: ModeSource::BuiltIn,
            debounce_ms: 1_000,
            cap: QUEUE_CAP,
            drop: DropPolicy::default(),
            cut: false,
            interrupt: Interrupt::default(),
            message_interrupt: None,
            stale_before: None,
        }
    }
}
