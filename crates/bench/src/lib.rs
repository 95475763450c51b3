//! What the programs of this crate, and the tests of others, share: a scripted model server on loopback.
//!
//! `bench` prints the figures that the README quotes; `kills` sends SIGKILL to the real binary, `journal-kills` to the owner of
//! a journal alone, `serve-kills` to `limulus serve` with clients attached, and each checks what is left.
//! What may not live here: anything that a shipped binary needs.

pub mod draw;
pub mod model_server;
pub mod prose;
