//! Parameters and results of the methods on budgets and usage. Names are camelCase.

use engine::{Allowance, Limit, Resource, RunId, Scope, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// Parameters of `budget.set`. Limits that are not named do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "one of them is given at most: they are the scopes on the wire")]
pub struct BudgetSetParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Limit the active run instead of the session, which is all its runs together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run: bool,
    /// Limit all runs of the session's agent in a day instead of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// Limit all runs of the home in a day instead of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub day: bool,
    /// Limit all runs of the home, whenever they ran, instead of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub home: bool,
    /// The maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Micro-dollars: a dollar is 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The maximum number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Milliseconds of working time of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes of content in the journal; for a run or a session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The resources whose limits to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<names::ResourceName>"))]
    pub lift: Vec<Resource>,
}

/// Parameters of `budget.show`: the session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetShowParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
}

/// Result of `budget.set` and `budget.show`: the use and the limits after the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetStory {
    /// The key of the session.
    pub session_key: String,
    /// The id of its active run.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run_id: Option<RunId>,
    /// Whether that run waits for budget.
    pub waits: bool,
    /// The use and the limit of each resource for the run and the session; for the agent and the day (UTC), and for the
    /// home in all of its time, only if they are limited.
    pub lines: Vec<BudgetLine>,
}

/// The use of one resource. `used`, `reserved` and `free` are together the limit, unless more was used than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetLine {
    /// To whom the budget applies.
    #[cfg_attr(feature = "schema", schemars(with = "names::ScopeName"))]
    pub scope: Scope,
    /// The resource: tokens, micro-dollars (`cost`), calls, milliseconds (`wall`), bytes.
    #[cfg_attr(feature = "schema", schemars(with = "names::ResourceName"))]
    pub of: Resource,
    /// The amount that was spent, in the unit of the resource.
    pub used: u64,
    /// The amount that is kept back: for requests in flight, their answers included, and for recovery.
    #[serde(default)]
    pub reserved: u64,
    /// The part of it that is kept for recovery (`budget.*.reserve`).
    #[serde(default)]
    pub kept: u64,
    /// The amount that a next request may need; none means no limit.
    #[serde(default)]
    pub free: Option<u64>,
    /// The limit, in the same unit; none means no limit.
    pub limit: Option<u64>,
    /// The amount that the next request needs, its answer included, if the run waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<u64>,
}

impl From<Limit> for BudgetLine {
    fn from(limit: Limit) -> Self {
        let Limit { scope, of, used, reserved, limit: most, needs, .. } = limit;
        let needs = Some(needs).filter(|needs| *needs > 0);
        Self { scope, of, used, reserved, kept: limit.kept(), free: Some(limit.free()), limit: Some(most), needs }
    }
}

impl BudgetLine {
    /// The limit with its figures, if there is one.
    pub fn as_limit(&self) -> Option<Limit> {
        let Self { scope, of, used, reserved, kept, limit, needs, .. } = *self;
        let needs = needs.unwrap_or_default();
        limit.map(|limit| Limit { scope, of, used, reserved, kept: Some(kept), limit, needs })
    }
}

impl BudgetSetParams {
    /// The change of limits for the engine.
    pub fn change(&self) -> Allowance {
        let lifted = |of| self.lift.contains(&of).then_some(engine::tables::budget::NO_LIMIT);
        Allowance {
            tokens: self.tokens.or(lifted(Resource::Tokens)),
            cost: self.cost_micros.or(lifted(Resource::Cost)),
            calls: self.calls.or(lifted(Resource::Calls)),
            wall_ms: self.wall_ms.or(lifted(Resource::Wall)),
            bytes: self.bytes.or(lifted(Resource::Bytes)),
        }
    }
}

/// Parameters of `usage`: which runs, and how they are grouped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// By what to group the runs; without it by model.
    #[serde(default)]
    pub by: UsageBy,
    /// Only runs of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Only runs that started at this time or later, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub since: Option<Timestamp>,
}

/// By what runs are grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The last or current model of the run.
    #[default]
    Model,
    /// The session of the run.
    Session,
    /// The day on which the run started, UTC.
    Day,
}

/// Result of `usage`: a row for each group, and their sum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageStory {
    /// A row for each model, session or day, sorted by name.
    pub rows: Vec<UsageRow>,
    /// The sum of all rows.
    pub all: UsageRow,
}

/// The usage of a group of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// `PROVIDER/MODEL`, a session's key, or `YYYY-MM-DD`; `all` for the sum.
    pub name: String,
    /// The number of runs.
    pub runs: u64,
    /// Their token usage, as the providers report it.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Their cost in micro-dollars: a dollar is 1,000,000. A request with an unknown outcome counts with its
    /// reservation.
    pub cost_micros: u64,
}
