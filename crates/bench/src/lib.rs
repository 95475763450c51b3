//! Shared by the programs of this crate and the tests of others: a scripted model server on loopback.
//!
//! `bench` prints the figures that the README quotes; `kills` sends SIGKILL to the real binary, `journal-kills` to the
//! owner of a journal alone, `serve-kills` to `limulus serve` with clients attached, and each checks what is left.
//! Nothing here is part of the shipped binary.

pub mod draw;
pub mod model_server;
pub mod prose;
