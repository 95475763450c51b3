//! What subscribers are told.

use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Batch, Epoch, Flags, Position, SessionId};

/// A committed batch, with the state that it led to.
#[derive(Debug, Clone)]
pub struct Published {
    /// The session.
    pub session: SessionId,
    /// Its key.
    pub key: Arc<str>,
    /// What was recorded.
    pub batch: Arc<Batch>,
    /// The owner that recorded it.
    pub epoch: Epoch,
    /// The position of its last entry; where it is progress alone, of the last entry of the home before it.
    pub position: Position,
    /// The lifecycle after it.
    pub lifecycle: LifecycleKind,
    /// The run state after it.
    pub run_state: RunState,
    /// The flags after it.
    pub flags: Flags,
}
