//! What subscribers receive.

use std::sync::Arc;
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Batch, CallId, Epoch, Flags, Position, Resources, SessionId, Settings, StateChange};

/// A committed batch, with the state that it led to.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone)]
pub struct Published {
    pub session: SessionId,
    pub key: Arc<str>,
    pub batch: Arc<Batch>,
    /// The owner that recorded it.
    pub epoch: Epoch,
    /// The position of its last entry; if it is progress alone, of the home's last entry before it.
    pub position: Position,
    pub lifecycle: LifecycleKind,
    pub run_state: RunState,
    pub flags: Flags,
    /// The states that the batch passed through, in order.
    pub passed: Vec<StateChange>,
    pub resources: Resources,
    /// The settings of the unfinished run, if there is one.
    pub settings: Option<Arc<Settings>>,
    /// If an owner opens the session: the calls of the run that it found there, with their tools.
    pub found: Vec<(CallId, String)>,
    /// How long the journal took for it.
    pub commit: Duration,
}
