//! The metrics of a service, in the text format of OpenMetrics: what is counted as it happens, and what is measured when it is asked
//! for. A label has few values: names of the configuration and of tables, never of sessions, runs or what a model wrote.

mod labels;
mod now;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::Usage;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::facts::{Answer, Fact, Model};
use crate::name;

pub use now::{Now, Rest};

use labels::{
    Agent, CallEnd, Class, HttpEnd, Mode, ModelName, RequestEnd, RequestFailure, RunEnd, Tokens, Tool, Wait, Way,
};
use now::Gauges;

/// The type of the text, for the head of an answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Different names of models, tools and agents that are counted by themselves; further ones are `other`.
const NAMES: usize = 200;
const OTHER: &str = "other";

/// Seconds that a commit takes: a sync of a fast disk is a tenth of a millisecond, one of a slow disk a second.
const COMMIT: [f64; 12] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0];
/// Seconds that a model, a call or a wait takes.
const WORK: [f64; 14] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

type Count<L> = Family<L, Counter>;
type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// What is counted.
pub struct Metrics {
    registry: Registry,
    gauges: Gauges,
    names: Mutex<BTreeSet<String>>,
    commits: Histogram,
    messages: Count<Mode>,
    recoveries: Counter,
    runs_started: Count<Agent>,
    runs_ended: Count<RunEnd>,
    run_times: Times<RunEnd>,
    requests: Count<RequestEnd>,
    request_times: Times<ModelName>,
    first_pieces: Times<ModelName>,
    failures: Count<RequestFailure>,
    tokens: Count<Tokens>,
    costs: Family<ModelName, Counter<f64, AtomicU64>>,
    retries: Counter,
    fallbacks: Counter,
    cooldowns: Count<Class>,
    calls: Count<CallEnd>,
    call_times: Times<Tool>,
    asked: Counter,
    answered: Count<Way>,
    waits: Times<Wait>,
    compactions: Count<Way>,
    http: Count<HttpEnd>,
    refused: Counter,
    lost_spans: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let work: fn() -> Histogram = || Histogram::new(WORK);
        let mut metrics = Self {
            registry: Registry::default(),
            gauges: Gauges::default(),
            names: Mutex::default(),
            commits: Histogram::new(COMMIT),
            messages: Family::default(),
            recoveries: Counter::default(),
            runs_started: Family::default(),
            runs_ended: Family::default(),
            run_times: Family::new_with_constructor(work),
            requests: Family::default(),
            request_times: Family::new_with_constructor(work),
            first_pieces: Family::new_with_constructor(work),
            failures: Family::default(),
            tokens: Family::default(),
            costs: Family::default(),
            retries: Counter::default(),
            fallbacks: Counter::default(),
            cooldowns: Family::default(),
            calls: Family::default(),
            call_times: Family::new_with_constructor(work),
            asked: Counter::default(),
            answered: Family::default(),
            waits: Family::new_with_constructor(work),
            compactions: Family::default(),
            http: Family::default(),
            refused: Counter::default(),
            lost_spans: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// The name and the help of each. A counter gets `_total` behind its name.
    fn register(&mut self) {
        let mut all = Registry::default();
        self.gauges.process().register(&mut all);
        let registry = all.sub_registry_with_prefix("limulus");
        macro_rules! register {
            ($($field:ident $name:literal $help:literal;)*) => { $(registry.register($name, $help, self.$field.clone());)* };
        }
        register! {
            commits "commit_duration_seconds" "Time from a decision until the journal has it";
            messages "messages_accepted" "Accepted messages, by queue mode";
            recoveries "recoveries" "Runs that this owner continues and an earlier one began";
            runs_started "runs_started" "Runs that started";
            runs_ended "runs_ended" "Runs that ended, by outcome";
            run_times "run_duration_seconds" "Time from the start of a run to its end";
            requests "requests" "Requests to models that ended, by what came of them";
            request_times "request_duration_seconds" "Time from a request to the end of its answer";
            first_pieces "time_to_first_token_seconds" "Time from a request to the first piece of its answer";
            failures "request_failures" "Requests to models that failed, by class of the failure";
            tokens "tokens" "Tokens as the providers count them";
            costs "cost_usd" "Cost in US dollars, by the prices of the catalogue or the configuration";
            retries "retries" "Retries of failed requests";
            fallbacks "fallbacks" "Retries with another candidate";
            cooldowns "cooldowns_set" "Candidates that got a cooldown, by class of the failure";
            calls "tool_calls" "Calls of tools that ended, by outcome";
            call_times "tool_call_duration_seconds" "Time from the start of a call to its result";
            asked "approvals_asked" "Approval requests";
            answered "approvals_closed" "Approval requests that were answered, or not in time";
            waits "wait_duration_seconds" "Time that runs waited, by what for";
            compactions "compactions" "Compactions of histories, by how";
            http "http_requests" "Requests over HTTP, by route and status";
            refused "http_unauthorized" "Requests over HTTP without the right token";
            lost_spans "trace_spans_lost" "Spans of traces that no collector has taken";
        }
        self.gauges.register(registry);
        self.registry = all;
    }

    /// All of them as text, with these that are measured now.
    pub(crate) fn text(&self, now: &Now, lost_spans: u64) -> String {
        self.lost_spans.inc_by(lost_spans.saturating_sub(self.lost_spans.get()));
        self.gauges.set(now);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Counts an answer over HTTP.
    pub fn http(&self, route: &str, status: u16) {
        self.http.get_or_create(&HttpEnd { route: self.name(route), status }).inc();
        if status == 401 {
            self.refused.inc();
        }
    }

    pub(crate) fn commit(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    pub(crate) fn record(&self, fact: &Fact<'_>) {
        match *fact {
            Fact::MessageAccepted { mode } => {
                self.messages.get_or_create(&Mode { mode: name(mode) }).inc();
            }
            Fact::Recovered => drop(self.recoveries.inc()),
            Fact::RunStarted { agent } => {
                self.runs_started.get_or_create(&Agent { agent: self.name(agent) }).inc();
            }
            Fact::RunEnded { agent, outcome, ms, .. } => {
                let end = RunEnd { agent: self.name(agent), outcome: outcome.name() };
                self.runs_ended.get_or_create(&end).inc();
                if let Some(ms) = ms {
                    self.run_times.get_or_create(&end).observe(seconds(ms));
                }
            }
            Fact::RequestEnded { model, answer, ms, first_ms, .. } => self.request(model, answer, (ms, first_ms)),
            Fact::Spent { model, usage, cost } => self.spent(model, usage, cost),
            Fact::RetryScheduled { is_fallback } => {
                self.retries.inc();
                if is_fallback {
                    self.fallbacks.inc();
                }
            }
            Fact::CooldownSet { class, .. } => {
                let class = class.map_or_else(|| OTHER.to_owned(), name);
                self.cooldowns.get_or_create(&Class { class }).inc();
            }
            Fact::CallEnded { tool, outcome, ms, .. } => {
                let tool = self.name(tool);
                self.calls.get_or_create(&CallEnd { tool: tool.clone(), outcome: name(outcome) }).inc();
                if let Some(ms) = ms {
                    self.call_times.get_or_create(&Tool { tool }).observe(seconds(ms));
                }
            }
            Fact::ApprovalAsked => drop(self.asked.inc()),
            Fact::ApprovalAnswered { allowed } => Self::way(&self.answered, if allowed { "allowed" } else { "denied" }),
            Fact::ApprovalExpired => Self::way(&self.answered, "expired"),
            Fact::RequestSent { .. } | Fact::CallStarted { .. } | Fact::WaitBegan { .. } => {}
            Fact::WaitEnded { on, ms } => {
                if let Some(ms) = ms {
                    self.waits.get_or_create(&Wait { wait: name(on) }).observe(seconds(ms));
                }
            }
            Fact::Compacted { step } => Self::way(&self.compactions, &name(step)),
            Fact::CompactionFailed { .. } => Self::way(&self.compactions, "failed"),
        }
    }

    fn request(&self, model: Model<'_>, answer: Answer, (ms, first_ms): (u64, Option<u64>)) {
        let ModelName { provider, model } = self.model(model);
        let of = ModelName { provider: provider.clone(), model: model.clone() };
        if let Answer::Failed(class) = answer {
            let class = name(class);
            let failure = RequestFailure { provider: provider.clone(), model: model.clone(), class };
            self.failures.get_or_create(&failure).inc();
        }
        self.requests.get_or_create(&RequestEnd { provider, model, result: answer.name() }).inc();
        self.request_times.get_or_create(&of).observe(seconds(ms));
        if let Some(ms) = first_ms {
            self.first_pieces.get_or_create(&of).observe(seconds(ms));
        }
    }

    fn spent(&self, of: Model<'_>, usage: &Usage, cost: u64) {
        let of = self.model(of);
        // Reasoning is a part of the output: added up, these are all tokens.
        let kinds = [
            ("input", usage.input),
            ("cached", usage.cached),
            ("cache_written", usage.cache_written),
            ("output", usage.output.saturating_sub(usage.reasoning)),
            ("reasoning", usage.reasoning.min(usage.output)),
        ];
        for (kind, tokens) in kinds.into_iter().filter(|(_, tokens)| *tokens > 0) {
            let ModelName { provider, model } = of.clone();
            self.tokens.get_or_create(&Tokens { provider, model, kind }).inc_by(tokens);
        }
        if cost > 0 {
            self.costs.get_or_create(&of).inc_by(cost as f64 / 1e6);
        }
    }

    fn way(of: &Count<Way>, result: &str) {
        of.get_or_create(&Way { result: result.to_owned() }).inc();
    }

    fn model(&self, model: Model<'_>) -> ModelName {
        ModelName { provider: self.name(model.provider), model: self.name(model.model) }
    }

    /// The name as a label, unless there are too many.
    fn name(&self, name: &str) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            if names.len() >= NAMES {
                return OTHER.to_owned();
            }
            names.insert(name.to_owned());
        }
        name.to_owned()
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
