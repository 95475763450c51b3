//! A seeded simulation in which every store operation and every effect is a crash point.
//!
//! This crate holds the workload, the world that runs it, the faults, and the invariants. It copies no rule of the
//! engine: it drives the real pump, and judges it by what is visible outside.

pub mod case;
pub mod checkers;
pub mod explore;
pub mod fault;
pub mod hit;
pub mod invariant;
pub mod kept;
pub mod plan;
pub mod queue;
pub mod random;
pub mod report;
pub mod shared;
mod sweep;
#[cfg(test)]
mod violations;
pub mod workload;
pub mod world;
