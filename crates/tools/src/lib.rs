//! The tools of an agent, the policy that checks each call, and the supervisor that runs commands.
//!
//! The runtime calls [`check`] before a call starts (one that only reads files begins with it), [`run`] to run it, [`find`] after a crash and [`end`] to end it.
//! A tool implements [`Tool`], in a file of its own, and stands in the list of `tool_set.rs`. `exec` runs under a supervisor (`supervise/`), a
//! separate process that shares only one folder with the runtime (`folder.rs` describes it).
//!
//! This crate knows neither the journal nor the agent loop. It accesses no path that was not resolved by `paths.rs` and
//! opened by `openat.rs`. It runs on Linux only.

mod address;
mod ahead;
mod apply_patch;
mod approved;
mod ask_user;
mod attach;
mod background;
mod bootstrap;
mod caches;
mod call;
mod cancel;
mod cgroup;
mod change;
mod changes;
mod command_env;
mod edit;
mod error;
mod evidence;
mod exec;
mod executed;
mod fetch;
mod file_call;
mod files;
mod find;
mod fitting;
mod folder;
mod grep;
mod guard;
mod html;
mod hunk;
mod ignored;
mod images;
mod kinds;
mod limits;
mod live;
mod ls;
mod masking;
mod memory;
mod message;
mod openat;
mod orphan;
mod output;
mod patch;
mod paths;
mod plan;
mod policy;
mod policy_explained;
mod policy_rules;
mod preview;
mod process;
mod project;
mod protection;
mod read;
mod sandbox;
mod schema_validator;
mod search;
mod shell;
mod size;
mod skills;
mod structured;
mod supervise;
mod supervisors;
mod text;
mod tool;
mod tool_result;
mod tool_set;
mod user_answer;
mod walk;
mod window;
mod write;

pub use ahead::{CallAhead, check};
pub use ask_user::AskedQuestion;
pub use attach::{AttachError, attach, attach_sent};
pub use background::{
    ProcessContext, ProcessEnd, end_process, forget_process, hold_process, process_end, process_recorded,
};
pub use bootstrap::{Bootstrap, BootstrapFile};
pub use call::{
    CallRequest, Context, FoundCall, end, find, forget, freeze, limit_reached, list_ahead, list_known, run, thaw,
};
pub use changes::{
    CopyChange, FileStore, FileVersion, NOT_KEPT, PlannedCopy, PlannedFile, StoreLimits, UndoPlan, UnifiedDiff,
    WorkspaceLimits, content_now, copy_changes, has_copy, is_look_due, is_text, make_copy, remove_copy, shared_names,
    undo, versions,
};
pub use command_env::is_passed_to_commands;
pub use confine::{LayerState, SandboxLayers, Tier, confine_main};
pub use error::ToolError;
pub use fetch::NetworkPolicy;
pub use folder::TRACE;
pub use guard::Protected;
pub use limits::{SCHEMA_BYTES, STRUCTURED_BYTES};
pub use masking::{MaskEnd, MaskedText, Secrets};
pub use memory::{
    FileWords, FoundPassages, IndexedFile, MemoryContext, MemoryIndex, MemoryQuery, MemorySearch, PassageHit,
    has_memory,
};
pub use message::with_routes;
pub use orphan::{Orphans, UnrecordedCall, call_folder_name, forget_calls, orphans, running_calls, unrecorded_calls};
pub use output::Outputs;
pub use paths::{ResolvedPath, THIS_PROGRAM, real_folder};
pub use policy::{Checked, asks_about_executed_files};
pub use policy_explained::{ExplainedAct, allows, defaults, denies, explain, suggest};
pub use policy_rules::{CallRules, is_glob};
pub use process::{HeldProcess, command_of};
pub use project::{GitHead, GitState, ancestors, git_state, project_root};
pub use protection::{adopt_what_commands_leave, end_below, hide_from_commands, inherit_orphans};
pub use sandbox::{CONFINE, limited_memory_mib, reachable_hosts, run_sandboxed, sandbox_support, sandbox_support_here};
pub use schema_validator::{SchemaValidator, Violation};
pub use search::{SearchApi, SearchProvider};
pub use size::size;
pub use skills::{
    ADDED_SKILLS, LeftOutSkill, SKILL_FILE, Skill, SkillOrigin, SkillPlaces, SkillText, Skills, add_skill, has_skills,
    is_users_skill, skill_list,
};
pub use structured::{SCHEMA_CHECK, SchemaChecker, StructuredError, parse_schema, schema_check_main};
pub use supervise::{ProcessOrigin, is_here_in_call_of, is_in_call, supervise_main};
pub use tool::{Act, CallSite, Needs, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture, done};
pub use tool_set::{
    ToolSet, changes_files, read_only_specs, specs, specs_within, tool_named, tools_of, unattended, with_tools_for,
};
pub use user_answer::UserAnswer;
