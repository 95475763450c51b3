//! How messages are queued, and what conversation they go on with, as it is configured. It comes with each message, so that the engine reads no configuration.

use serde::{Deserialize, Serialize};

use crate::event::QueueMode;
use crate::ids::Timestamp;
use crate::tables::limits::QUEUE_CAP;

/// What decides where a message goes that does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// The mode of a message that names none, in a session that has none.
    pub mode: QueueMode,
    /// How long nothing more may come before gathered messages are a run, milliseconds.
    pub debounce_ms: u64,
    /// Messages that may wait.
    pub cap: u32,
    /// What gives way when more come.
    pub drop: DropPolicy,
    /// Whether a steer cuts the answer that streams in.
    pub cut: bool,
    /// What an interrupt does with the run that is under way.
    pub interrupt: Interrupt,
    /// A conversation of which nothing is under way, and in which nothing has happened since then, is stale: a message begins
    /// a new one.
    pub stale_before: Option<Timestamp>,
}

/// What gives way in a full queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropPolicy {
    /// What waits longest.
    Old,
    /// What comes: it is refused.
    #[default]
    New,
    /// What waits longest; the next run is told of it in short.
    Summarize,
}

/// What an interrupt does with the run that is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// It ends.
    #[default]
    Replace,
    /// It is held until the user resumes or drops it.
    Suspend,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            mode: QueueMode::Followup,
            debounce_ms: 1_000,
            cap: QUEUE_CAP,
            drop: DropPolicy::default(),
            cut: false,
            interrupt: Interrupt::default(),
            stale_before: None,
        }
    }
}
