//! What calls change in files: it is recorded with the result of the call, the content before is kept in the home, and
//! both together take a change back.
//!
//! `store.rs` keeps contents, `version.rs` reads what is at a path, `record.rs` says what a call has changed, `plan.rs`
//! and `restore.rs` take it back.

mod plan;
mod record;
mod restore;
mod store;
mod version;

pub use plan::{FileVersion, PlannedFile, UndoPlan};
pub(crate) use record::{Made, missing_folders, of_files};
pub use restore::{NOT_KEPT, content_now, undo, versions};
pub(crate) use store::Unsynced;
pub use store::{FileStore, StoreLimits};
