//! The engine through its public interface: tables, scripts and properties, in one program. One file a subject. What may
//! not live here: what a module can show by itself.

mod answered_once;
mod compaction;
mod early;
mod failover;
mod failover_crashes;
mod lanes;
mod ledger;
mod old_variables;
mod payloads;
mod properties;
mod refused;
mod routing;
mod scripts;
mod support;
mod tables;
