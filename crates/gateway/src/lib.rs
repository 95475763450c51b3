//! What goes out of the process that owns a home: the methods of the protocol, the events that subscribers read, the
//! socket. What may not live here: what a run does, and what a person sees of it.

mod error;
pub mod events;
pub mod methods;
mod session_key;
pub mod show;

pub use error::{Error, REPORT};
pub use session_key::SessionKey;
