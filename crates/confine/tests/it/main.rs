//! The sandbox with real processes on the real kernel. The attempts are named after what escaped other sandboxes; each is tried
//! in every tier that this kernel can set up, as root and as another user, beside the same attempt without a sandbox.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod behaviour;
mod caches;
mod calls;
mod files;
mod git;
mod network;
mod processes;
mod protected;
mod seatbelt;
mod setup;
mod support;
