//! The runtime over a journal and the offline model, in one program. One file a subject. What may not live here: what a
//! module can show by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod histories;
mod idle;
mod lanes;
mod leaving;
mod panics;
mod space;
