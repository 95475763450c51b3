//! Tests the models crate through real sockets, in one program with one folder or file a subject. What may not live
//! here: tests that a module can do by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod anthropic;
mod caching;
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
