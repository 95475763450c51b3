//! What fails in the middle of something: a chain of candidates, an answer, a server that says nothing. None of these runs once more
//! beside an owner (`twice.rs`): each starts a service of its own, or kills the command that owns the home.

mod chains;
mod cuts;
mod silence;
