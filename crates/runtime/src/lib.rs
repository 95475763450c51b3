//! Handles and sockets around the pump: one actor a session, one file an effect.
//!
//! What may not live here: a decision. Whatever happens is offered to the engine; whatever the engine wants is carried
//! out, after the journal has it.

mod actor;
mod budget_pool;
mod clock;
mod commit_relay;
mod conversation;
mod conversation_cache;
pub mod crashpoint;
mod disk_full;
mod idle;
mod lanes;
mod latest;
mod ledger;
mod perform;
mod prompt;
mod recovered;
pub mod repair;
mod resident;
mod runtime;
mod sessions;
mod summary;
mod supervise;

pub use budget_pool::budget_pool;
pub use clock::Clock;
pub use conversation::conversation;
pub use disk_full::DiskFullWait;
pub use idle::IdlePolicy;
pub use lanes::LaneUpdate;
pub use ledger::{believed_ledger, ledger};
pub use resident::resident_bytes;
pub use runtime::{
    Acknowledgements, ApprovalRequest, Approver, Error, Handle, ModelPreferences, NO_SPACE, Options, Published,
    Redaction, Resolver, Runtime,
};
