//! Tests the adapters with model servers of third parties, over real connections. What may not live here: canned bytes.
//!
//! Each server is started if it is installed, as `.ci/run` does; else its test reports what is missing.

mod aimock;
mod litellm;
mod server;
