//! Parameters and results of the methods on approvals. Names of parameters are camelCase.

use engine::{CallId, Hash, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters of `approvals.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalsListParams {
    /// Only those of this session: a name, or agent:AGENT:NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Those that are closed instead, the last ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// The maximum number of requests; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Result of `approvals.list`, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ApprovalsListed {
    /// The requests.
    pub approvals: Vec<ApprovalShown>,
    /// Where the next page begins; none after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Parameters of `approvals.show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalParams {
    /// The id of the request, a unique beginning of it, or the id of its call.
    pub id: String,
}

/// An approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ApprovalShown {
    /// Its id.
    pub id: String,
    /// The id of the call, for `approvals.resolve`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The key of the session, agent:AGENT:NAME.
    pub session: String,
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The tool.
    pub tool: String,
    /// The arguments of the call; a text if they are no JSON.
    pub arguments: Value,
    /// What the call would do.
    pub what: String,
    /// The fingerprint of the call, for `approvals.resolve`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub fingerprint: Option<Hash>,
    /// When approval was requested, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub asked_at: Timestamp,
    /// Until when it waits, milliseconds since 1970 UTC; null = for ever.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub expires_at: Option<Timestamp>,
    /// The rule that an approval of all such calls would remember; none if it can be approved once only, and in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<GrantPatterns>,
    /// Whether it was allowed, if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// Who answered, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was closed, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub closed_at: Option<Timestamp>,
}

/// What a grant allows: calls of one tool, of these commands, files or hosts. If it names none of them, all of its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GrantPatterns {
    /// The tool.
    pub tool: String,
    /// Patterns of commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Globs of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Names of hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl GrantPatterns {
    /// All of its patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().chain(&self.paths).chain(&self.hosts).map(String::as_str)
    }
}

/// Parameters of `approvals.resolve`: the decision on an approval request. The first decision counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerParams {
    /// The id of the call that needs approval.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The fingerprint of the call, as in the approval request.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fingerprint: Hash,
    /// Whether the call may run.
    pub allow: bool,
    /// Why it may not run, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether all such calls may run from now on, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<AlwaysParams>,
    /// The arguments that it is to run with instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

impl AnswerParams {
    /// The call may run once, or not.
    pub fn once(call: CallId, fingerprint: Hash, allow: bool) -> Self {
        Self { call, fingerprint, allow, reason: None, always: None, arguments: None }
    }
}

/// An approval of all such calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlwaysParams {
    /// For whose calls.
    pub scope: AlwaysScope,
    /// The patterns of commands, files or hosts to remember instead of those that `approvals.show` shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

/// For whose calls a grant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlwaysScope {
    /// Those of the session of the call.
    Session,
    /// Those of every session of its agent.
    Agent,
    /// Those of every session of the home.
    Home,
}

/// Result of `approvals.grants`, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GrantsListed {
    /// The grants.
    pub grants: Vec<GrantShown>,
}

/// Something that was allowed once and for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GrantShown {
    /// Its id, which is that of the request that it answered.
    pub id: String,
    /// For whose calls.
    pub scope: AlwaysScope,
    /// The key of the session, or the agent; none for the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// What it allows.
    #[serde(flatten)]
    pub patterns: GrantPatterns,
    /// Who gave it.
    pub by: String,
    /// When it was given, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub at: Timestamp,
    /// How many calls it has allowed so far, besides the one that was asked about.
    pub allowed: u64,
    /// When it allowed the last of them, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub last_at: Option<Timestamp>,
}

/// Parameters of `approvals.revoke`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeParams {
    /// The id of the grant, or a unique beginning of it.
    pub id: String,
}
