//! What an agent can do: tools, the policy before them, the supervisor under commands.
//!
//! The runtime calls [`check`] before a call starts, [`run`] to run it, [`find`] after a crash and [`end`] to end it. Tools
//! inside the process work on files, one source file each; `exec` runs under a supervisor (`supervise/`),
//! a process of its own that shares nothing with the runtime but one folder (`folder.rs` draws it).
//!
//! What may not live here: the journal, the loop, and any path that did not come through `paths.rs` and `beneath.rs`. Linux only.

mod address;
mod apply_patch;
mod attach;
mod call;
mod cancel;
mod change;
mod edit;
mod error;
mod evidence;
mod exec;
mod fetch;
mod files;
mod find;
mod folder;
mod grep;
mod held;
mod html;
mod hunk;
mod images;
mod invocation;
mod kinds;
mod limits;
mod live;
mod ls;
mod masking;
mod openat;
mod orphan;
mod output;
mod patch;
mod paths;
mod policy;
mod preview;
mod process;
mod read;
mod schema_validator;
mod size;
mod specs;
mod supervise;
mod text;
mod tool_result;
mod walk;
mod window;
mod write;

pub use attach::{AttachError, attach, attach_sent};
pub use call::{CallRequest, Context, FoundCall, end, find, forget, freeze, run, thaw};
pub use fetch::NetworkPolicy;
pub use held::{ProcessEnd, end_process, forget_process, hold_process, process_end};
pub use masking::Secrets;
pub use orphan::{Orphans, orphans};
pub use output::Outputs;
pub use policy::{Checked, check};
pub use process::{HeldProcess, command_of};
pub use schema_validator::{SchemaValidator, Violation};
pub use size::size;
pub use specs::specs;
pub use supervise::supervise_main;
