//! The gateway through its sockets and streams, in one program. One file a subject. What may not live here: what a
//! module can show by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod approvals;
mod bad_input;
mod catch_up;
mod chat;
mod events;
mod fuzz_http;
mod methods;
mod rewound;
mod support;
mod terminal_text;
