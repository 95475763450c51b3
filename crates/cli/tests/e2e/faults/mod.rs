//! Failures in the middle of a chain of candidates or an answer, and silent servers. None of these tests runs a second
//! time beside an owner (`twice.rs`): each starts its own service, or kills the command that owns the home.

mod chains;
mod interruptions;
mod silence;
