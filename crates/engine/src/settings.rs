//! Everything that is resolved for a run when it starts. Content-addressed: a resumed run decides as before, whatever
//! the configuration says by then.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::body::{BodyKind, Content};
use crate::event::Usage;
use crate::tables::budget::Budget;

/// How a call may be repeated (design: tool classes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Changes nothing: may start before the sync, may run again.
    ReadOnly,
    /// May run again with the key that it is given.
    Idempotent,
    /// Runs at most once.
    Once,
}

/// The decision of the policy on an act that needs approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Allow it.
    Allow,
    /// Ask for approval; without an approver it is denied.
    #[default]
    Ask,
    /// Deny it.
    Deny,
}

/// What happens to an interrupted stream when the run continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeMode {
    /// Retract the kept text and send the same request again.
    #[default]
    Restart,
    /// Keep the text as a message and ask the model to continue.
    Continue,
}

/// A tool as the model sees it, with what the engine must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The name that the model calls it by.
    pub name: String,
    /// How a call of it may be repeated.
    pub class: ToolClass,
    /// One paragraph for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub schema: serde_json::Value,
}

/// The thinking level of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// No thinking, if it can be switched off.
    Off,
    /// The least that the model offers.
    Minimal,
    /// A low level.
    Low,
    /// A medium level.
    Medium,
    /// A high level.
    High,
    /// The most that the model offers.
    Xhigh,
}

/// One model with one auth profile, as a run may try it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The provider's name in the configuration (`offline` is built in).
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The auth profile's name; its key is looked up when a request is sent and never kept here.
    pub profile: Option<String>,
    /// Tokens that the model can see.
    pub context_window: u64,
    /// Tokens that it may write in one answer; always sent.
    pub max_output: u64,
    /// How much it is to think before it answers; none = as the provider does by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The levels that it is asked for in words of their own, the most first; empty = each is such a one. When it
    /// refuses one, the next lower of these is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Thinking>,
    /// Whether it sees images; other models receive a line of text instead.
    #[serde(default = "seen", skip_serializing_if = "Clone::clone")]
    pub images: bool,
    /// Tokens of its own for each thousand that a text is taken to have: families of models write the same text with
    /// more or fewer.
    #[serde(default = "as_estimated")]
    pub token_rate: u32,
    /// Whether its key is an access token that can be refreshed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_refresh: bool,
    /// Its price; none = unknown, and counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What a model costs, micro-dollars for a million tokens (a dollar for a million is 1,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that no cache had.
    pub input: u64,
    /// Prompt tokens from the provider's cache.
    pub cached: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_written: u64,
    /// Tokens of the answer, including reasoning.
    pub output: u64,
}

impl Price {
    /// The cost in micro-dollars, rounded up.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let parts = [
            (usage.input, self.input),
            (usage.cached, self.cached),
            (usage.cache_written, self.cache_written),
            (usage.output, self.output),
        ];
        let total: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl Candidate {
    /// What a request costs, micro-dollars; 0 where that is not known.
    pub fn cost(&self, usage: &Usage) -> u64 {
        self.price.map_or(0, |price| price.cost(usage))
    }
}

impl fmt::Display for Candidate {
    /// `PROVIDER/MODEL`, with the profile where it has one: `PROVIDER/MODEL (PROFILE)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)?;
        self.profile.as_ref().map_or(Ok(()), |profile| write!(f, " ({profile})"))
    }
}

fn is_default(budget: &Budget) -> bool {
    *budget == Budget::default()
}

fn as_estimated() -> u32 {
    1_000
}

/// Settings that were kept before this was asked had images sent to every model.
fn seen() -> bool {
    true
}

/// How the history is compacted when it outgrows the model's window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Whether that happens before the provider says so.
    pub auto: bool,
    /// Tokens that stay free beside the answer.
    pub reserve: u64,
    /// Tokens of the newest part that stay unchanged.
    pub keep: u64,
    /// How many tokens before a summary is due the model is asked to write down what must not be lost; none = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_soft: Option<u64>,
    /// The model that summarises; none = the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Candidate>,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { auto: true, reserve: 20_000, keep: 20_000, flush_soft: None, by: None }
    }
}

/// The limits of a run, milliseconds unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The run's own clock; it stands still in awaiting, retry, paused and lane wait.
    pub deadline_ms: u64,
    /// From a request sent to its first byte.
    pub first_byte_ms: u64,
    /// Between two pieces of a stream.
    pub silent_ms: u64,
    /// The run time of one call.
    pub call_ms: u64,
    /// The longest wait that a retry may take.
    pub max_wait_ms: u64,
    /// How often a failed request is sent again.
    pub retries: u32,
    /// How many openings without progress make a poison run; 0 = never.
    pub poison_after: u32,
    /// One summary of the history.
    #[serde(default = "compact_ms")]
    pub compact_ms: u64,
    /// The number of identical calls with identical results after which the model is warned; 0 = off.
    #[serde(default)]
    pub repeats_told: u32,
    /// The number of them after which the run is stopped; 0 = off.
    #[serde(default)]
    pub repeats_most: u32,
}

fn compact_ms() -> u64 {
    300_000
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline_ms: 600_000,
            first_byte_ms: 120_000,
            silent_ms: 60_000,
            call_ms: 120_000,
            max_wait_ms: 3_600_000,
            retries: 2,
            poison_after: 3,
            compact_ms: compact_ms(),
            repeats_told: 3,
            repeats_most: 6,
        }
    }
}

/// Everything that a run is decided by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The name of the agent.
    pub agent: String,
    /// The absolute path of the folder that the agent works in.
    pub workspace: String,
    /// The date that the system prompt names, `YYYY-MM-DD`.
    pub date: String,
    /// Models in the order in which they may be tried; empty only for a run that was refused.
    pub candidates: Vec<Candidate>,
    /// How long things may take.
    pub limits: Limits,
    /// What happens to an interrupted stream.
    pub resume: ResumeMode,
    /// The policy for commands.
    pub exec: Policy,
    /// Policy for paths outside the workspace.
    pub outside: Policy,
    /// How the history is shortened.
    #[serde(default)]
    pub compaction: Compaction,
    /// What may be spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// Policy for fetching from the web.
    #[serde(default)]
    pub web_fetch: Policy,
    /// The tools, in the order in which the model sees them.
    pub tools: Arc<[ToolSpec]>,
}

impl Settings {
    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The estimated tokens of the tools.
    pub fn tool_tokens(&self) -> u64 {
        let of = |tool: &ToolSpec| tool.name.len() as u64 + tool.description.len() as u64 + written(&tool.schema);
        crate::body::estimate_tokens(self.tools.iter().map(of).sum())
    }

    /// The candidate at this place.
    pub fn candidate(&self, at: u32) -> Option<&Candidate> {
        self.candidates.get(at as usize)
    }

    /// The settings as a body: JSON, named by its hash.
    pub fn content(&self) -> Content {
        let json = serde_json::to_vec(self).expect("settings hold only strings, numbers and JSON");
        Content::new(BodyKind::Settings, json)
    }

    /// Reads the body that [`Settings::content`] made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// About how many bytes a value is written with.
fn written(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => 4,
        serde_json::Value::String(text) => text.len() as u64 + 2,
        serde_json::Value::Array(items) => items.iter().map(|item| written(item) + 1).sum::<u64>() + 2,
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() as u64 + written(value) + 4).sum::<u64>() + 2
        }
    }
}
