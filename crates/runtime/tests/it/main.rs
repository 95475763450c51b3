//! The runtime over a journal and the offline model, in one program. There is one file for each subject. Tests of
//! a single module do not belong here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commits;
mod histories;
mod idle;
mod lanes;
mod leaving;
mod panics;
mod space;
