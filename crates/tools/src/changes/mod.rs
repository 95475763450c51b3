//! What calls change in files: it is recorded with the result of the call, the content before is kept in the home, and
//! both together take a change back.
//!
//! `store.rs` keeps contents, `trim.rs` removes them, `version.rs` reads what is at a path, `record.rs` says what a call of a
//! tool for files has changed, `plan.rs` and `restore.rs` take it back.
//!
//! What a command changes is found by comparing its workspace before and after (`command.rs`): `scan.rs` looks at every file,
//! `listing.rs` is what it finds, `snapshot.rs` and `keeping.rs` keep all contents that are new, `others.rs` finds out who else
//! works there, and `looks.rs` says where a look ahead of a command is worth while.
//!
//! `copies/` makes copies of a workspace for runs to work in, and compares them with it.

mod command;
mod copies;
mod diff;
mod forget;
mod keeping;
mod listing;
mod looks;
mod others;
mod plan;
mod record;
mod restore;
mod scan;
mod snapshot;
mod store;
mod trim;
mod version;

pub(crate) use command::{Prepare, Ran, Recorder, forget};
pub use copies::{CopyChange, copy_changes, has_copy, make_copy, remove_copy};
pub(crate) use diff::Diffs;
pub use diff::{UnifiedDiff, is_text};
pub use looks::is_look_due;
pub(crate) use others::made;
pub use plan::{FileVersion, PlannedCopy, PlannedFile, UndoPlan};
pub(crate) use record::{Made, missing_folders, of_files};
pub use restore::{NOT_KEPT, content_now, shared_names, undo, versions};
pub(crate) use store::Unsynced;
pub use store::{FileStore, StoreLimits, WorkspaceLimits};
