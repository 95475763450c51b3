//! Cases that are drawn from a seed: a workload, and a schedule of several faults.
//!
//! Here live how they are drawn, written, run and made smaller. What may not live here: what happens at a fault, which
//! the world knows, and what must hold, which the checkers know.

mod draw;
mod every;
mod run;
mod shrink;
mod trial;

pub use draw::{faults_of, plan_of};
pub use every::{SMALL, every_operation};
#[cfg(test)]
pub(crate) use run::comes_to_rest_in_time;
pub use run::{Counts, Sweep, run, sweep, sweep_all, twice};
pub use shrink::smallest;
pub use trial::{Failed, Mode, Part, Trial};
