//! Parameters and results of the methods that only read. The shapes in `show` have the names that `--json` prints;
//! parameters and results are camelCase as everywhere.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::show::{AgentSummary, AuditLine, Listed, RunSummary, TraceLine, Verification};

/// Selects a run: by its id, or the active, else the last run of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunParams {
    /// The id of the run, or a unique prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose active, else last run is meant if no run is named; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Parameters of `runs.list`: one session or all, and the page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunsListParams {
    /// The session; without it the runs of all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The maximum number of runs; the last ones are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The `next` of another page, to get the older entries before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Result of `runs.list`, in the order in which the runs started; waiting runs come last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunsListed {
    /// The runs of the page, the oldest first.
    pub runs: Vec<RunSummary>,
    /// The value to request the next page, with older entries; none if there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Result of `runs.trace`: the run from its acceptance to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Traced {
    /// A line for each entry of the run.
    pub lines: Vec<TraceLine>,
}

/// Parameters of `sessions.list`: the page, the order, and which sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsListParams {
    /// The maximum number of sessions; those created last are returned, or those with the last activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The `next` of another page, to get the older entries before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether the list is ordered by the last activity, latest first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_activity: bool,
    /// Whether the archived sessions are listed, in place of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// Words that all occur in one text of a session or in its title: only such sessions are listed, the one with the
    /// latest such text first, each with a `snippet` of it. Upper and lower case are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

/// Result of `agents.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentsListed {
    /// The configured agents, and those that have a session, by name.
    pub agents: Vec<AgentSummary>,
}

/// Result of `sessions.list`, in the order in which the sessions were created, or by their last activity, latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionsListed {
    /// The sessions of the page.
    pub sessions: Vec<Listed>,
    /// The value to request the next page, with older entries; none if there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many older ones there are, if the list is ordered by activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
}

/// Parameters of `sessions.show`: the session, and how much of its conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The maximum number of items of the conversation; the last ones are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Return all that was said, in place of the summaries for which parts of it were left out; excludes `limit`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// Parameters of `sessions.audit`: the session or branch, the range, and whether to verify it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// A branch that is not the current one of its session, or that belongs to no session; without it the current
    /// branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The first entry of the current branch to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The maximum number of lines; the first ones are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Whether to verify hashes, chain and state by computing them again.
    #[serde(default)]
    pub verify: bool,
}

/// Result of `sessions.audit`: all entries in order, including corrupt ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Audited {
    /// The key of the session; `no session` for a branch that belongs to none.
    pub session_key: String,
    /// A line for each entry.
    pub lines: Vec<AuditLine>,
    /// The result of the verification, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verification>,
    /// The first corrupt entry, `BRANCH@SEQ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged_from: Option<String>,
}

/// Parameters of `sessions.state`: the session or branch, and the entry after which its state is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// A branch that is not the current one of its session, or that belongs to no session; without it the current
    /// branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The entry, `[BRANCH@]SEQ`.
    pub at: String,
}

/// Parameters of `receipts.get`: an id or a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptParams {
    /// The id of the message, or of the run that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The idempotency key that it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session in which to search the key; without it all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}
