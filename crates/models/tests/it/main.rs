//! The models crate through real sockets, in one program. One folder or file a subject. What may not live here: what a
//! module can show by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod anthropic;
mod failures;
mod faults;
mod fuzz;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod rendering;
mod support;
mod third_parties;
