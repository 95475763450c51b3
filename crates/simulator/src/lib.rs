//! The seeded world: every store operation and every effect is a crash point.
//!
//! Here live the workload, the world that it runs in, the crashes and what must hold after them. What may not live here:
//! a copy of any rule of the engine; the real pump is driven, and judged by what is outside of it.

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
