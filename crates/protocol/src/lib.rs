//! The wire protocol between the owner of a home and its clients: frames, the table of methods, events, limits, the
//! codec and a client. States, outcomes and ids are those of the engine. The crate contains neither the implementation
//! of a method nor a transport.

pub mod chat;
mod client;
mod codec;
mod delivery;
pub mod deprecated;
mod error;
pub mod event;
mod frame;
pub mod limits;
pub mod method;
pub mod notice;
pub mod part;
#[cfg(feature = "schema")]
mod schema;
pub mod scope;
pub mod show;

pub use client::{Answers, Client, ClientError, Events};
pub use codec::{FrameError, FrameReader, encode};
pub use error::{Details, ErrorCode, ErrorShape};
pub use event::Event;
pub use frame::{EventFrame, Frame, Request, Response};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use scope::{Scope, Scopes};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL: u32 = 1;
