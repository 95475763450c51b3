//! What goes over the wire between the owner of a home and whoever speaks with it: frames, one table of methods, events,
//! their limits; the codec and a client. Its vocabulary (states, outcomes, ids) is the engine's. What may not live here:
//! what a method does, and where a connection comes from.

pub mod chat;
mod client;
mod codec;
pub mod deprecated;
mod error;
pub mod event;
mod frame;
pub mod limits;
pub mod method;
pub mod notice;
#[cfg(feature = "schema")]
mod schema;
pub mod show;

pub use client::{Answers, Client, ClientError, Events};
pub use codec::{FrameError, FrameReader, encode};
pub use error::{Details, ErrorCode, ErrorShape};
pub use event::Event;
pub use frame::{EventFrame, Frame, Request, Response};
#[cfg(feature = "schema")]
pub use schema::schema;

/// The version of the protocol that this crate speaks.
pub const PROTOCOL: u32 = 1;
