//! Handles and sockets around the pump: one actor a session, one file an effect.
//!
//! What may not live here: a decision. Whatever happens is offered to the engine; whatever the engine wants is carried
//! out, after the journal has it.

mod actor;
mod clock;
mod conversation;
pub mod crashpoint;
mod keep;
mod lanes;
mod latest;
mod ledger;
mod linger;
pub mod mend;
mod park;
mod perform;
mod purse;
mod resting;
mod runtime;
mod sessions;
mod summary;

pub use clock::Clock;
pub use conversation::conversation;
pub use lanes::LaneNews;
pub use ledger::{believed_ledger, ledger};
pub use linger::Linger;
pub use park::Parked;
pub use purse::{purse, resident_bytes};
pub use runtime::{
    Answers, Askable, Error, Handle, NO_ROOM, Options, Published, Question, Resolver, Runtime, Wants, Withheld,
};
