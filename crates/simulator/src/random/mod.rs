//! Random cases: a workload and a schedule of several faults, drawn from a seed.
//!
//! This module draws, writes, runs and shrinks cases. What happens at a fault is in `world`, and what must hold is in
//! `checkers`.

mod draw;
mod every;
mod run;
mod shrink;
mod trial;

pub use draw::{faults_of, plan_of};
pub use every::{SMALL, every_operation};
#[cfg(test)]
pub(crate) use run::settles_in_time;
pub use run::{Counts, Sweep, run, sweep, sweep_all, twice};
pub use shrink::smallest;
pub use trial::{Failed, Mode, Part, Trial};
