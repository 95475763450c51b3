//! Everything that is resolved for a run when it starts. Content-addressed: a resumed run decides as before, whatever
//! the configuration says by then.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::Approvals;
use crate::body::{BodyKind, Content};
use crate::derived::{Derived, once};
use crate::event::Usage;
use crate::ids::Hash;
use crate::policy::PolicyRule;
use crate::prompt::PromptSettings;
use crate::reply::ReplySettings;
use crate::sandbox::Sandbox;
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
    /// Ask for approval.
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

/// Who repairs a session that is held because its run could not continue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recover {
    /// A human does.
    #[default]
    Ask,
    /// The session tries by itself a few times, unless its run is held as poison.
    Auto,
}

/// A tool as the model receives it, with its class.
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

/// How a model chooses its words, in thousandths: 700 is 0.7. What is none is left to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// The temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
    /// The share of the likeliest tokens of which one is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<u32>,
}

impl Sampling {
    /// Whether all of it is left to the model.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
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
    /// The context window, tokens.
    pub context_window: u64,
    /// The maximum tokens of one answer; always sent.
    pub max_output: u64,
    /// Its thinking level; none = the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The levels that differ for this model, the highest first; empty = all. If it refuses one, the next lower one of
    /// these is tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Thinking>,
    /// Whether it accepts images; other models receive a line of text instead.
    #[serde(default = "seen", skip_serializing_if = "Clone::clone")]
    pub images: bool,
    /// Whether a request may send the schema of the answer, so that the provider holds the model to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub structured_output: bool,
    /// How it chooses its words.
    #[serde(default, skip_serializing_if = "Sampling::is_usual")]
    pub sampling: Sampling,
    /// Its real tokens for each thousand estimated ones: tokenizers of model families differ.
    #[serde(default = "as_estimated")]
    pub token_rate: u32,
    /// Whether its key is an access token that can be refreshed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_refresh: bool,
    /// Its price; none = unknown, and counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The price of a model in micro-dollars for a million tokens (a dollar for a million is 1,000,000).
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
    /// The cost of a request in micro-dollars; 0 if the price is unknown.
    pub fn cost(&self, usage: &Usage) -> u64 {
        self.price.map_or(0, |price| price.cost(usage))
    }
}

impl fmt::Display for Candidate {
    /// `PROVIDER/MODEL`, or `PROVIDER/MODEL (PROFILE)` if it has a profile.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)?;
        self.profile.as_ref().map_or(Ok(()), |profile| write!(f, " ({profile})"))
    }
}

fn is_default(budget: &Budget) -> bool {
    *budget == Budget::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_asked(recover: &Recover) -> bool {
    *recover == Recover::Ask
}

fn is_none_of(rules: &Arc<[PolicyRule]>) -> bool {
    rules.is_empty()
}

fn allowed() -> Policy {
    Policy::Allow
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_allowed(policy: &Policy) -> bool {
    *policy == Policy::Allow
}

fn as_estimated() -> u32 {
    1_000
}

/// Older stored settings sent images to every model.
fn seen() -> bool {
    true
}

/// How the history is compacted when it outgrows the model's window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Whether it is compacted before the provider reports an overflow.
    pub auto: bool,
    /// Tokens that stay free in addition to the answer.
    pub reserve: u64,
    /// Tokens of the newest part that stay unchanged.
    pub keep: u64,
    /// The memory flush is requested this many tokens before a summary is due; none = never.
    #[serde(rename = "flush_soft", default, skip_serializing_if = "Option::is_none")]
    pub flush_lead: Option<u64>,
    /// The model that summarises; none = the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Candidate>,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { auto: true, reserve: 20_000, keep: 20_000, flush_lead: None, by: None }
    }
}

/// A model names a conversation that has no title.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Titles {
    /// The model that does; none = the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Candidate>,
}

/// The limits of a run, milliseconds unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The run's own clock, which stands still in awaiting, retry, paused and lane wait; none = it may run for any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The time without progress, while its own clock runs, after which the run ends; none = off. Older stored settings have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<u64>,
    /// The time from a request to its first byte.
    #[serde(rename = "first_byte_ms")]
    pub first_byte_timeout_ms: u64,
    /// The idle time between two pieces of a stream.
    #[serde(rename = "silent_ms")]
    pub idle_timeout_ms: u64,
    /// The run time of a call that asks for no limit of its own.
    #[serde(rename = "call_ms")]
    pub tool_timeout_ms: u64,
    /// The longest wait that a retry may take.
    pub max_wait_ms: u64,
    /// How often a failed request is sent again.
    pub retries: u32,
    /// How often an answer that was cut at its output limit is continued; 0 = off.
    #[serde(default)]
    pub continuations: u32,
    /// How many openings without progress make a poison run; 0 = never.
    pub poison_after: u32,
    /// The time for one summary of the history.
    #[serde(default = "compact_ms")]
    pub compact_ms: u64,
    /// The number of identical calls with identical results after which the model is warned; 0 = off.
    #[serde(rename = "repeats_told", default)]
    pub loop_warn_after: u32,
    /// The number of them after which the run is stopped; 0 = off.
    #[serde(rename = "repeats_most", default)]
    pub loop_stop_after: u32,
}

fn compact_ms() -> u64 {
    300_000
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline_ms: None,
            stall_ms: Some(1_800_000),
            first_byte_timeout_ms: 120_000,
            idle_timeout_ms: 60_000,
            tool_timeout_ms: 600_000,
            max_wait_ms: 3_600_000,
            retries: 2,
            continuations: 2,
            poison_after: 3,
            compact_ms: compact_ms(),
            loop_warn_after: 3,
            loop_stop_after: 6,
        }
    }
}

/// All settings of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The name of the agent.
    pub agent: String,
    /// The absolute path of the folder that the agent works in.
    pub workspace: String,
    /// The date that the system prompt names, `YYYY-MM-DD`; empty if the facts name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// What changes from day to day: the model receives it in a note before the message with which it changed. Older stored
    /// settings have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub facts: String,
    /// Models in the order in which they may be tried; empty only for a run that was refused.
    pub candidates: Vec<Candidate>,
    /// Time limits and retries.
    pub limits: Limits,
    /// What happens to an interrupted stream.
    pub resume: ResumeMode,
    /// Who repairs the session if the run is held. Older stored settings leave it to a human.
    #[serde(default, skip_serializing_if = "is_asked")]
    pub recover: Recover,
    /// The rules that somebody has written on what its calls may do.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub policy: Arc<[PolicyRule]>,
    /// What happens to the questions of its calls.
    #[serde(default, skip_serializing_if = "Approvals::are_default")]
    pub approvals: Approvals,
    /// What its commands can reach.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// The policy for commands.
    pub exec: Policy,
    /// The policy for paths outside the workspace.
    pub outside: Policy,
    /// The policy for writing to files that other programs run or load. Older stored settings allow it.
    #[serde(default = "allowed", skip_serializing_if = "is_allowed")]
    pub executed_files: Policy,
    /// How the history is compacted.
    #[serde(default)]
    pub compaction: Compaction,
    /// Whether a model names the conversation; none = it has the first words of its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub titles: Option<Titles>,
    /// The configured limits of resources.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// The policy for fetching from the web.
    #[serde(default)]
    pub web_fetch: Policy,
    /// The address that the tool `web_search` asks, without what may be a secret in it; none if the run has no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_search: Option<String>,
    /// The turns of the history that a request holds at most (R41); none = all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_turns: Option<u32>,
    /// Whether the system prompt has the instructions that the user and the project keep in files. Older stored settings do
    /// not say.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub instructions: bool,
    /// What the system prompt is made of.
    #[serde(default, skip_serializing_if = "PromptSettings::is_default")]
    pub prompt: PromptSettings,
    /// Where the credentials of its candidates may be sent; older stored settings do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<ProviderAddress>,
    /// Where the run stops, each once: before the first call of any of these tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_before: Vec<Vec<String>>,
    /// Whether the run only reads, and answers with a plan. Its tools change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    /// The JSON schema that the answer is to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// How the reply goes out. Older stored settings have no routes.
    #[serde(default, skip_serializing_if = "ReplySettings::is_default")]
    pub reply: ReplySettings,
    /// The tools, in the order in which the model receives them.
    pub tools: Arc<[ToolSpec]>,
    /// What follows from all of this.
    #[serde(skip)]
    pub derived: Derived,
}

/// The address that belongs to the credentials of a profile for a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderAddress {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The auth profile's name.
    pub profile: Option<String>,
    /// The hash of the address: an address may itself hold a secret.
    pub address: Hash,
}

impl Settings {
    /// The folder that the agent works in as the user knows it: what its copy is made of, if it works in one.
    pub fn known_workspace(&self) -> String {
        let original = self.sandbox.copy.as_ref().and_then(|copy| copy.original(&self.workspace));
        original.unwrap_or_else(|| self.workspace.clone())
    }

    /// The address that belongs to the credentials of this candidate; none if the settings do not say.
    pub fn address(&self, candidate: &Candidate) -> Option<Hash> {
        let is_of =
            |known: &&ProviderAddress| known.provider == candidate.provider && known.profile == candidate.profile;
        self.addresses.iter().find(is_of).map(|known| known.address)
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The estimated tokens of the tools.
    pub fn tool_tokens(&self) -> u64 {
        let of = |tool: &ToolSpec| tool.name.len() as u64 + tool.description.len() as u64 + written(&tool.schema);
        once(&self.derived.tool_tokens, || crate::body::estimate_tokens(self.tools.iter().map(of).sum()))
    }

    /// The tokens of this candidate for an estimate.
    pub(crate) fn rated(&self, candidate: u32, tokens: u64) -> u64 {
        let rate = self.candidate(candidate).map_or(1_000, |candidate| u64::from(candidate.token_rate));
        tokens.saturating_mul(rate) / 1_000
    }

    /// The candidate with this index.
    pub fn candidate(&self, at: u32) -> Option<&Candidate> {
        self.candidates.get(at as usize)
    }

    /// The settings as a body: JSON, named by its hash.
    pub fn content(&self) -> Content {
        let json = || serde_json::to_vec(self).expect("settings hold only strings, numbers and JSON");
        once(&self.derived.content, || Content::new(BodyKind::Settings, json()))
    }

    /// Reads the body that [`Settings::content`] made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// The estimated length of a value as JSON, in bytes.
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
