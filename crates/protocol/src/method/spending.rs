//! What the methods take and give that are about what is spent: budgets, and what was used. Names are camelCase here.

use engine::{Allowance, Resource, RunId, Scope, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::show::names;

/// What `budget.set` takes: what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetSetParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The run that is under way in it, in place of all of its runs together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run: bool,
    /// All runs of the session's agent in a day, in place of those of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// All runs of the home in a day, in place of those of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub day: bool,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Micro-dollars: a dollar is 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Milliseconds that runs may be at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes of content in the journal: of a run or a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What is not limited any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<names::ResourceName>"))]
    pub lift: Vec<Resource>,
}

/// What `budget.show` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetShowParams {
    /// The session; without it agent:main:main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
}

/// What `budget.set` and `budget.show` give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetStory {
    /// The session.
    pub session_key: String,
    /// The run that is under way in it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run_id: Option<RunId>,
    /// Whether that run waits for more.
    pub waits: bool,
    /// Of the run and of the session, what was spent of each resource and what may be; of the agent and the day (UTC) where
    /// that is limited.
    pub lines: Vec<BudgetLine>,
}

/// What was spent of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetLine {
    /// By whom.
    #[cfg_attr(feature = "schema", schemars(with = "names::ScopeName"))]
    pub scope: Scope,
    /// Of what: tokens, micro-dollars (`cost`), calls, milliseconds (`wall`), bytes.
    #[cfg_attr(feature = "schema", schemars(with = "names::ResourceName"))]
    pub of: Resource,
    /// So much.
    pub used: u64,
    /// What may be; none = as much as it takes.
    pub limit: Option<u64>,
}

impl BudgetSetParams {
    /// The change as the engine takes it.
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

/// What `usage` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// What the runs are put together by; without it the model.
    #[serde(default)]
    pub by: UsageBy,
    /// Only those of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
}

/// What runs are put together by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The model that they ended with, or are on.
    #[default]
    Model,
    /// Their session.
    Session,
    /// The day on which they started, UTC.
    Day,
}

/// What `usage` gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageStory {
    /// One for each model, session or day, in the order of their names.
    pub rows: Vec<UsageRow>,
    /// All of them together.
    pub all: UsageRow,
}

/// What some runs have taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// `PROVIDER/MODEL`, a session's key, or `YYYY-MM-DD`; of all together `all`.
    pub name: String,
    /// How many runs.
    pub runs: u64,
    /// What they took, as the providers say.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// What that costs, micro-dollars: a dollar is 1,000,000. What became of a request is not known: what was set aside for it.
    pub cost_micros: u64,
}
