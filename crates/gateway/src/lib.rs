//! What goes out of the process that owns a home: the methods of the protocol, the events that subscribers read, the
//! socket. What may not live here: what a run does, and what a person sees of it.

mod approvals;
mod connection;
mod error;
pub mod events;
pub mod methods;
mod service;
mod session_key;
pub mod show;
pub mod socket;

pub use error::{Error, REPORT};
pub use service::{RecoveredSessions, Service, ServiceOptions};
pub use session_key::SessionKey;
