//! The shapes of runs, sessions, traces, the audit log and receipts, as methods return them and `--json` prints them.
//! The gateway builds them from the journal, and the command line formats them for people.

mod agent;
mod audit;
mod context;
mod explained;
mod lane;
#[cfg(feature = "schema")]
pub(crate) mod names;
mod receipt;
mod reply;
mod run;
mod session;
mod status;
mod trace;

pub use agent::AgentSummary;
pub use audit::{AuditLine, StateAt, Verification};
pub use context::{ContextKind, ContextPart, ContextStory};
pub use explained::{Explained, Way};
pub use lane::{LaneHolder, LaneWait};
pub use receipt::{ReceiptStory, SteerLeg};
pub use reply::{Attempt, AttemptKind, Payload, Reply, ReplyError, ReplyMeta, ReplyStop};
pub use run::{CallStage, CallStory, RunStory, RunSummary, StepStory};
pub use session::{
    AskedCall, AttachedFile, BackgroundCommand, ItemStory, Listed, ProcessStage, ProcessStory, QueuedStory,
    QueuedSummary, Role, SessionSummary, Shown,
};
pub use status::{CommandNow, Held, InterruptedRun, NextRecovery, OpenQuestion, Owner, Status, Unfinished};
pub use trace::{Node, TraceLine};
