//! Every time that a session can wait for. A restart arms the same times again: they follow from the state.

use crate::ids::{CallId, EffectId};

/// What is due when a time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The run's own clock is used up: it ends as timed out.
    RunDeadline,
    /// A request was sent and no byte came: it fails as a timeout.
    FirstByte,
    /// A stream went idle: it fails as stalled.
    Silent,
    /// A call is past its limit: it is ended.
    CallLimit(CallId),
    /// Nobody has answered the approval request of a call in time.
    ApprovalExpired(CallId),
    /// The run has made no progress for too long: it ends as stalled.
    Stall,
    /// No summary came: the compaction is given up, and the history stays.
    Compaction,
    /// No title came: the conversation keeps the one that it has.
    Title,
    /// A failed request may be tried again.
    RetryDue,
    /// A cooldown has ended.
    QuotaReset,
    /// Calls could not be ended in time: the run ends without them.
    EndGrace,
    /// A process is past its limit: it is ended.
    ProcessLimit(EffectId),
    /// The quiet time is over: the collected messages at the head are a run.
    GroupDue,
    /// A delivery may be tried: the last try failed, or it is a short block that waited for more.
    DeliveryDue(EffectId),
    /// A held session tries to continue by itself.
    RecoveryDue,
}
