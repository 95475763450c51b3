//! Tests the tools through the calls that the runtime makes, in one program with one file a subject. What may not live
//! here: tests that a module can do by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod added;
mod ahead;
mod asynchronous;
mod background;
mod changes;
mod commands;
mod escape_files;
mod escape_rules;
mod executed;
mod fetch;
mod files;
mod fuzz;
mod fuzz_calls;
mod hosts;
mod images;
mod links;
mod orphans;
mod own;
mod policy;
mod recorded;
mod records;
mod rules;
mod structured;
mod support;
mod traces;
mod undo;
