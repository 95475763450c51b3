//! The adapters against model servers that others have written, over real connections. What may not live here: canned bytes.
//!
//! Each server is started if it is installed, as `.ci/run` does; else its test says what is missing.

mod aimock;
mod litellm;
mod server;
