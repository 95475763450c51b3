//! The programs of this crate as others run them, and the page that names them, in one program. One file a subject.
//! What may not live here: what a module can show by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod journal_kills;
mod provider_faults;
