//! Drives the engine's pump: one actor for each session, one file for each effect. Nothing here decides: every
//! occurrence is offered to the engine, and every effect is carried out after its batch is in the journal.

mod actor;
mod budget_pool;
mod clock;
mod conversation;
mod conversation_cache;
pub mod crashpoint;
mod disk_full;
pub mod history;
mod idle;
mod lanes;
mod latest;
mod ledger;
mod memory;
mod perform;
pub mod prompt;
pub mod repair;
mod runtime;
mod sessions;
mod summary;
mod supervise;
pub mod watchdog;

pub use budget_pool::{budget_pool, resident_bytes};
pub use clock::Clock;
pub use conversation::conversation;
pub use disk_full::DiskFullWait;
pub use idle::IdlePolicy;
pub use lanes::LaneUpdate;
pub use ledger::{ledger, readable_ledger};
pub use runtime::{
    Acknowledgements, BodyTemplate, Deliver, DeliveryFuture, DeliveryRequest, DeliveryTrouble, Error, Handle, NO_SPACE,
    Options, Published, Redaction, Resolver, RouteTarget, Runtime, SessionContext,
};
