//! Every time that a session can wait for. A restart arms the same times again: they follow from the state.

use crate::ids::{CallId, EffectId};

/// What is due when a time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The run's own clock is spent: it ends as timed out.
    RunDeadline,
    /// A request was sent and no byte came: it fails as a timeout.
    FirstByte,
    /// A stream fell silent: it fails as stalled.
    Silent,
    /// A call is past its limit: it is ended.
    CallLimit(CallId),
    /// No summary came: the old history stays in force.
    Compaction,
    /// A failed request may be tried again.
    RetryDue,
    /// A candidate has cooled down.
    QuotaReset,
    /// Calls could not be ended in time: the run ends without them.
    EndGrace,
    /// A process is past its limit: it is ended.
    ProcessLimit(EffectId),
    /// Nothing more has come: the gathered messages at the head are a run.
    GroupDue,
}
