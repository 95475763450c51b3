//! The tables of the engine, one a file. The machine obeys them, the drawings are made from them, and tests walk them.

pub mod budget;
pub mod chain;
pub mod compaction;
pub mod failover;
pub mod history;
pub(crate) mod launchers;
pub mod lifecycle;
pub mod limits;
pub mod policy;
pub mod routing;
pub mod timers;
pub mod transitions;
