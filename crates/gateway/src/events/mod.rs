//! The hub that notifies subscribers of committed batches, and what each of them has received. `views` makes the lines.
//! Transport and access rules do not belong here.

mod hub;
mod short_runs;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use hub::{End, Hub, Waiting, is_over};
pub(crate) use subscription::{Target, split};
