//! The commands, one file each. `follower` holds what the commands that follow sessions share, `stream` what those that
//! follow and own nothing share, and `show` what the reading commands share.

pub(crate) mod abort;
pub(crate) mod agent;
pub(crate) mod agents;
mod asking;
pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod cleanup;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod end;
pub(crate) mod events;
pub(crate) mod failover;
mod follower;
pub(crate) mod graph;
pub(crate) mod hold;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod profiles;
pub(crate) mod queue;
pub(crate) mod receipt;
pub(crate) mod resume;
pub(crate) mod runs;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod status;
mod stream;
pub(crate) mod undo;
pub(crate) mod usage;
pub(crate) mod wait;
pub(crate) mod watch;
