//! The status of a home.

use std::collections::BTreeMap;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::limits::RECOVERIES_MS;
use engine::tables::transitions::RunState;
use engine::{AnswerForm, CallId, Flags, Outcome, Position, RecoveryAttempt, Resources, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;
use super::{BackgroundCommand, LaneWait};
use crate::event::PlanStep;
use crate::method::BudgetLine;

/// The status of a home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Status {
    /// The path of the home.
    pub home: String,
    /// The process that owns the home; none if nobody does.
    pub owner: Option<Owner>,
    /// Whether the home is read-only for this process, so that the owner's last entries may be missing here.
    pub immutable: bool,
    /// The last position of the journal.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub head: Position,
    /// The number of sessions in each lifecycle state.
    pub sessions: BTreeMap<String, usize>,
    /// The sessions that must be resumed or repaired.
    pub unfinished: Vec<Unfinished>,
    /// The background commands that still work, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundCommand>,
    /// The calls that wait for a person's approval, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion>,
}

/// A call that waits for a person's approval, or a question of a model that waits for a person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OpenQuestion {
    /// The key of its session.
    pub session: String,
    /// The id of the call.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// What is to be allowed, or the question.
    pub question: String,
    /// What it takes as the answer, if it is a question: `text`, `choice` or `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub takes: Option<AnswerForm>,
    /// When it was asked, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub asked_at: Timestamp,
}

/// The process that owns a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Owner {
    /// The process id of the owner.
    pub pid: u32,
    /// Since when it owns the home: RFC 3339, UTC.
    pub since: Option<String>,
    /// Its memory use in bytes, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// The last time that one task held the thread of all sessions for over a second; none if none ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

/// A time in which one task held the thread of all sessions, so that nothing else went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Held {
    /// The session, effect or request that held it.
    pub by: String,
    /// How long, milliseconds.
    pub ms: u64,
    /// When it was noticed.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// Whether it is over.
    pub is_over: bool,
}

/// The next attempt of a held session to continue by itself (`runs.recover`). An owner of the home makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NextRecovery {
    /// When it is made, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// Its number, from 1.
    pub attempt: u32,
    /// How many attempts are made at most.
    pub of: u32,
}

impl From<RecoveryAttempt> for NextRecovery {
    fn from(next: RecoveryAttempt) -> Self {
        Self { at: next.at, attempt: next.no, of: RECOVERIES_MS.len() as u32 }
    }
}

/// A run that the end of its process interrupted, and what it was at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct InterruptedRun {
    /// When it started, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// The command that it had started, or the tool if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What became of the command; absent for another tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandNow>,
}

/// What became of a command whose run was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandNow {
    /// It still runs.
    Running,
    /// It has finished.
    Finished,
    /// That is not known.
    Unknown,
}

/// A session that must be resumed or repaired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Unfinished {
    /// The key of the session.
    pub key: String,
    /// The lifecycle state of the session.
    #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
    pub lifecycle: LifecycleKind,
    /// The state of its run.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub run_state: RunState,
    /// The flags, derived from its state.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "names::FlagsShape"))]
    pub flags: Flags,
    /// How the last run ended; none if none has ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
    pub last_outcome: Option<Outcome>,
    /// Whether an abort is accepted: a run is active and not ending, or suspended.
    #[serde(default)]
    pub can_abort: bool,
    /// What it has used, its limits and its times.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "names::ResourcesShape"))]
    pub resources: Resources,
    /// The id of its active run.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// The number of waiting messages.
    pub queued: u32,
    /// The time of its last entry, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub last_activity: Timestamp,
    /// Its run, if no process owns the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<InterruptedRun>,
    /// A description of what it waits for.
    pub waits_for: String,
    /// When the wait ends, if that is known. The command line shows it at the end of `waits_for`, in local time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub waits_until: Option<Timestamp>,
    /// The next attempt that it makes by itself, if it is held and makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_recovery: Option<NextRecovery>,
    /// The limit that leaves too little for its next request, if its run waits for a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetLine>,
    /// The wait of its next or resumed run in a lane, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_wait: Option<LaneWait>,
    /// The plan of its conversation, while a step of it is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanStep>,
}
