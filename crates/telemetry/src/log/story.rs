//! The lines on sessions: each is in the spans of its run and its attempt.

use std::collections::HashMap;

use engine::{FailureClass, Outcome, RunId, Timestamp, WaitFor};
use tracing::{Span, debug, error_span, info, warn};

use super::SPANS;
use crate::facts::{Answer, Fact, Model, Place};
use crate::name;

/// The spans of the runs that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Story {
    runs: HashMap<RunId, Spans>,
}

#[derive(Debug)]
struct Spans {
    run: Span,
    /// From the start of the run, or from its last retry.
    attempt: Span,
    attempts: u32,
}

impl Spans {
    fn new(place: &Place<'_>, run: RunId) -> Self {
        let run = error_span!(target: SPANS, parent: None, "run", %run, session = place.session);
        let attempt = attempt(&run, 1);
        Self { run, attempt, attempts: 1 }
    }
}

fn attempt(run: &Span, number: u32) -> Span {
    error_span!(target: SPANS, parent: run, "attempt", number)
}

impl Story {
    pub(crate) fn record(&mut self, place: &Place<'_>, fact: &Fact<'_>) {
        let begins = matches!(fact, Fact::RunStarted { .. } | Fact::Recovered);
        if let Some(run) = place.run.filter(|_| begins) {
            self.runs.insert(run, Spans::new(place, run));
        }
        let spans = place.run.and_then(|run| self.runs.get_mut(&run));
        let of = spans.as_ref().map_or_else(Span::none, |spans| spans.attempt.clone());
        of.in_scope(|| say(place, fact));
        match (fact, spans) {
            (Fact::RetryScheduled { .. }, Some(spans)) => {
                spans.attempts += 1;
                spans.attempt = attempt(&spans.run, spans.attempts);
            }
            (Fact::RunEnded { .. }, _) => drop(place.run.and_then(|run| self.runs.remove(&run))),
            _ => {}
        }
    }
}

fn say(place: &Place<'_>, fact: &Fact<'_>) {
    match *fact {
        Fact::MessageAccepted { mode } => {
            info!(target: "limulus::run", session = place.session, mode = name(mode), "message accepted");
        }
        Fact::Recovered => info!(target: "limulus::run", "run continued after another owner"),
        Fact::RunStarted { .. } => info!(target: "limulus::run", "run started"),
        Fact::RunEnded { outcome, class, ms, .. } => run_ended(outcome, class, ms),
        Fact::RequestSent { model } => request(model).in_scope(|| debug!(target: "limulus::request", "request sent")),
        Fact::RequestEnded { model, answer, ms, first_ms, .. } => {
            request(model).in_scope(|| request_ended(answer, (ms, first_ms)));
        }
        Fact::Spent { model, usage, cost } => request(model).in_scope(|| {
            let (input, cached, output) = (usage.read_anew(), usage.cached, usage.output);
            debug!(target: "limulus::request", input, cached, output, cost_microdollars = cost, "tokens used");
        }),
        Fact::RetryScheduled { is_fallback } => {
            warn!(target: "limulus::request", fallback = is_fallback, "retry scheduled");
        }
        Fact::CooldownSet { model, class } => {
            warn!(target: "limulus::request", model, class = class.map(FailureClass::name), "cooldown set");
        }
        Fact::CallStarted { tool } => call(tool).in_scope(|| debug!(target: "limulus::call", "call started")),
        Fact::CallEnded { tool, outcome, ms, .. } => call(tool)
            .in_scope(|| debug!(target: "limulus::call", outcome = name(outcome), duration_ms = ms, "call ended")),
        Fact::ApprovalAsked => info!(target: "limulus::call", "approval asked"),
        Fact::ApprovalAnswered { allowed } => info!(target: "limulus::call", allowed, "approval answered"),
        Fact::ApprovalExpired => warn!(target: "limulus::call", "approval not answered in time"),
        Fact::WaitBegan { on, until } => wait_began(on, until),
        Fact::WaitEnded { on, ms } => {
            info!(target: "limulus::run", wait = name(on), duration_ms = ms, "wait ended");
        }
        Fact::Compacted { step } => info!(target: "limulus::run", step = name(step), "history compacted"),
        Fact::CompactionFailed { class } => warn!(target: "limulus::run", class = class.name(), "compaction failed"),
    }
}

fn request(Model { provider, model }: Model<'_>) -> Span {
    error_span!(target: SPANS, "request", provider, model)
}

fn call(tool: &str) -> Span {
    error_span!(target: SPANS, "call", tool)
}

fn run_ended(outcome: Outcome, class: Option<FailureClass>, ms: Option<u64>) {
    let class = class.map(FailureClass::name);
    if outcome == Outcome::Completed {
        info!(target: "limulus::run", outcome = outcome.name(), duration_ms = ms, "run ended");
    } else {
        warn!(target: "limulus::run", outcome = outcome.name(), class, duration_ms = ms, "run ended");
    }
}

fn request_ended(answer: Answer, (ms, first_ms): (u64, Option<u64>)) {
    match answer {
        Answer::Answered | Answer::Interrupted => {
            debug!(target: "limulus::request", result = answer.name(), duration_ms = ms, first_ms, "request ended");
        }
        Answer::Failed(class) => {
            warn!(target: "limulus::request", class = class.name(), duration_ms = ms, "request failed");
        }
    }
}

fn wait_began(on: WaitFor, until: Option<Timestamp>) {
    info!(target: "limulus::run", wait = name(on), until_ms = until.map(|until| until.0), "wait began");
}
