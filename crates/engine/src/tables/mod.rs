//! The tour of the product: one table a file. The runtime obeys them, the drawings are made from them, tests walk them.

pub mod budget;
pub mod compaction;
pub mod failover;
pub mod lifecycle;
pub mod limits;
pub mod routing;
pub mod timers;
pub mod transitions;
