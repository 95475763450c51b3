//! The interface of the process that owns a home: the methods of the protocol, the events that subscribers read, and
//! the socket. Decisions about runs belong to the engine; layout for people belongs to the command line.

mod approvals;
mod connection;
mod deliveries;
mod error;
mod events;
pub mod http;
pub mod methods;
mod service;
pub mod socket;

pub use error::{Error, REPORT};
pub use service::{RecoveredSessions, Service, ServiceOptions, Tenure};
