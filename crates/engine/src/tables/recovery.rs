//! The error strategy: what follows a failure. One table, one decision, one set of counters.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureClass};
use crate::ids::{Moment, Timestamp};
use crate::settings::{Candidate, Limits, Thinking};
use crate::tables::limits::{BACKOFF_BASE_MS, BACKOFF_MOST_MS, COOLDOWNS_MS, WINDOW_LEAST};

/// What is tried first, with the same candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The same request once more, after what the provider asks for, else after a backoff.
    RetryOnce,
    /// The same as often as `requests.retries` says.
    Retry,
    /// The next lower thinking level, each once.
    LowerThinking,
    /// Nothing: the same request would fail the same way.
    Nothing,
}

impl First {
    /// In words; empty for nothing.
    pub fn name(self) -> &'static str {
        match self {
            Self::RetryOnce => "retry once",
            Self::Retry => "retry",
            Self::LowerThinking => "lower thinking",
            Self::Nothing => "",
        }
    }
}

/// Which candidate is tried then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The model's next profile; when it has none left, the next model.
    NextProfile,
    /// The next model: no other key would help.
    NextModel,
    /// None.
    Nothing,
}

impl Then {
    /// In words; empty for none.
    pub fn name(self) -> &'static str {
        match self {
            Self::NextProfile => "next profile",
            Self::NextModel => "next model",
            Self::Nothing => "",
        }
    }
}

/// What happens when nothing is left to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The run waits for the soonest candidate that can be tried again, within `requests.max_wait_s`; else it ends.
    Wait,
    /// The run ends with the failure, or waits for another candidate that only has to cool down.
    Fail,
    /// The run ends with the failure, whatever the other candidates are.
    End,
    /// The run is held for a human.
    Hold,
}

impl AtEnd {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Fail => "fail",
            Self::End => "end",
            Self::Hold => "hold",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What failed.
    pub class: FailureClass,
    /// What is tried first.
    pub first: First,
    /// What is tried then.
    pub then: Then,
    /// What happens when nothing is left.
    pub at_end: AtEnd,
}

use AtEnd::{End, Fail, Hold, Wait};
use FailureClass as Class;

const fn rule(class: FailureClass, first: First, then: Then, at_end: AtEnd) -> Rule {
    Rule { class, first, then, at_end }
}

/// The table: each class once, in the order of its enum.
pub const RULES: &[Rule] = &[
    rule(Class::RateLimit, First::RetryOnce, Then::NextProfile, Wait),
    rule(Class::Overloaded, First::RetryOnce, Then::NextProfile, Wait),
    rule(Class::Auth, First::Nothing, Then::NextProfile, Fail),
    rule(Class::AuthPermanent, First::Nothing, Then::NextProfile, Fail),
    rule(Class::Billing, First::Nothing, Then::NextProfile, Fail),
    rule(Class::Timeout, First::Retry, Then::NextProfile, Fail),
    rule(Class::Stalled, First::Retry, Then::NextProfile, Fail),
    rule(Class::Network, First::Retry, Then::NextProfile, Fail),
    rule(Class::Server, First::Retry, Then::NextProfile, Fail),
    rule(Class::Malformed, First::Retry, Then::NextProfile, Fail),
    rule(Class::ContextOverflow, First::Nothing, Then::Nothing, End),
    rule(Class::ThinkingUnsupported, First::LowerThinking, Then::Nothing, End),
    rule(Class::ModelNotFound, First::Nothing, Then::NextModel, Fail),
    rule(Class::InvalidRequest, First::Nothing, Then::Nothing, End),
    rule(Class::Refused, First::Nothing, Then::Nothing, End),
    rule(Class::Tool, First::Nothing, Then::Nothing, End),
    rule(Class::Deadline, First::Nothing, Then::Nothing, End),
    rule(Class::Aborted, First::Nothing, Then::Nothing, End),
    rule(Class::Budget, First::Nothing, Then::Nothing, End),
    rule(Class::Store, First::Nothing, Then::Nothing, Hold),
    rule(Class::Unknown, First::Nothing, Then::Nothing, Hold),
];

/// The row of a class.
pub fn rule_of(class: FailureClass) -> Rule {
    RULES[class as usize]
}

/// How far a run is with its candidates since the last whole answer. A whole answer sets all but `candidate` and `lowered` back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The place of the candidate in use.
    pub candidate: u32,
    /// The thinking level that it takes, where it refused the one that it was to have.
    pub lowered: Option<Thinking>,
    /// Requests in a row that it failed, at this level.
    pub failed: u32,
    /// Candidates that were given up.
    pub cooling: Vec<Cooling>,
    /// Milliseconds that were waited for candidates to cool down.
    pub waited_ms: u64,
}

impl Counters {
    /// The same again, or another candidate, or a lower level.
    pub(crate) fn retry(&mut self, candidate: Option<u32>, lowered: Option<Thinking>) {
        if candidate.is_some() || lowered.is_some() {
            self.failed = 0;
            self.lowered = lowered;
        }
        self.candidate = candidate.unwrap_or(self.candidate);
    }

    /// A candidate is given up for now.
    pub(crate) fn cool(&mut self, candidate: u32, until: Option<Timestamp>) {
        let strikes = self.strikes(candidate) + 1;
        self.cooling.retain(|cooling| cooling.candidate != candidate);
        self.cooling.push(Cooling { candidate, until, strikes });
    }

    fn strikes(&self, candidate: u32) -> u32 {
        self.cooling.iter().find(|cooling| cooling.candidate == candidate).map_or(0, |cooling| cooling.strikes)
    }

    /// Whether a candidate is not to be tried now.
    fn cools(&self, candidate: u32, now: Timestamp) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == candidate);
        of_it.any(|cooling| cooling.until.is_none_or(|until| until > now))
    }

    /// A wait is over: those whose time has come may be tried again, the first of them is.
    pub(crate) fn cooled(&mut self, now: Timestamp) {
        let is_over = |cooling: &Cooling| cooling.until.is_some_and(|until| until <= now);
        if let Some(first) = self.cooling.iter().filter(|cooling| is_over(cooling)).map(|c| c.candidate).min() {
            (self.candidate, self.lowered, self.failed) = (first, None, 0);
        }
    }

    /// A whole answer came: what was before it counts no more.
    pub(crate) fn answered(&mut self) {
        let Self { candidate, lowered, .. } = *self;
        *self = Self { candidate, lowered, ..Self::default() };
    }
}

/// A candidate that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// Its place in the settings.
    pub candidate: u32,
    /// Until when it is not to be tried; none = not before another has answered.
    pub until: Option<Timestamp>,
    /// How often it was: each time it is left alone for longer.
    pub strikes: u32,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The same request again after so many milliseconds.
    Retry {
        /// From now.
        delay_ms: u64,
    },
    /// The same candidate at a lower thinking level, at once.
    LowerThinking {
        /// Which.
        level: Thinking,
    },
    /// Another candidate, at once.
    Rotate {
        /// Its place in the settings.
        candidate: u32,
        /// Until when the one that failed is not to be tried.
        cooling: Option<Timestamp>,
    },
    /// Nothing can be tried before then.
    Wait {
        /// When the soonest can.
        until: Timestamp,
        /// Until when the one that failed is not to be tried.
        cooling: Option<Timestamp>,
    },
    /// The run ends with this failure.
    Fail,
    /// The run is held for a human.
    Hold,
}

/// Decides what follows a failure of the candidate in use (`counters.failed` counts this one).
pub fn recover(
    failure: &Failure,
    counters: &Counters,
    chain: &[Candidate],
    limits: &Limits,
    moment: Moment,
) -> Strategy {
    let rule = rule_of(failure.class);
    if let Some(strategy) = first(rule.first, failure, counters, chain, limits, moment) {
        return strategy;
    }
    let cooling = cooling_until(failure, counters, moment);
    if let Some(candidate) = next(rule.then, counters, chain, moment.now) {
        return Strategy::Rotate { candidate, cooling };
    }
    match rule.at_end {
        Hold => Strategy::Hold,
        End => Strategy::Fail,
        Wait | Fail => {
            let gone = given_up(failure, counters, chain);
            let others = counters.cooling.iter().filter(|cooling| !gone.contains(&cooling.candidate));
            let others = others.filter_map(|cooling| cooling.until);
            let Some(until) = others.chain(cooling).min() else { return Strategy::Fail };
            let waited = until.since(moment.now).saturating_add(counters.waited_ms);
            if waited > limits.max_wait_ms { Strategy::Fail } else { Strategy::Wait { until, cooling } }
        }
    }
}

fn first(
    first: First,
    failure: &Failure,
    counters: &Counters,
    chain: &[Candidate],
    limits: &Limits,
    moment: Moment,
) -> Option<Strategy> {
    let most = match first {
        First::RetryOnce => limits.retries.min(1),
        First::Retry => limits.retries,
        First::LowerThinking => {
            let asked = chain.get(counters.candidate as usize).and_then(|candidate| candidate.thinking);
            let level = counters.lowered.or(asked).and_then(lower)?;
            return Some(Strategy::LowerThinking { level });
        }
        First::Nothing => return None,
    };
    if counters.failed > most {
        return None;
    }
    let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(counters.failed, moment.draw));
    // Where another can answer meanwhile, what is not over in a moment is not waited for.
    let others = next(Then::NextProfile, counters, chain, moment.now).is_some();
    let patience = if others { BACKOFF_MOST_MS } else { limits.max_wait_ms };
    (delay_ms <= patience.min(limits.max_wait_ms)).then_some(Strategy::Retry { delay_ms })
}

/// The first candidate that may be tried when the one in use may not.
fn next(then: Then, counters: &Counters, chain: &[Candidate], now: Timestamp) -> Option<u32> {
    let failed = chain.get(counters.candidate as usize)?;
    let may = |at: &u32| {
        let candidate = &chain[*at as usize];
        let fits = match then {
            Then::NextProfile => *at != counters.candidate,
            Then::NextModel => !same_model(candidate, failed),
            Then::Nothing => false,
        };
        fits && candidate.context_window >= WINDOW_LEAST && !counters.cools(*at, now)
    };
    (0..chain.len() as u32).find(may)
}

fn same_model(a: &Candidate, b: &Candidate) -> bool {
    (&a.provider, &a.model) == (&b.provider, &b.model)
}

/// Who is not to be tried for now when the candidate in use has failed like this: it alone, or all keys of its model.
pub fn given_up(failure: &Failure, counters: &Counters, chain: &[Candidate]) -> Vec<u32> {
    let Some(failed) = chain.get(counters.candidate as usize) else { return vec![] };
    let all = rule_of(failure.class).then == Then::NextModel;
    let goes = |at: &u32| *at == counters.candidate || all && same_model(&chain[*at as usize], failed);
    (0..chain.len() as u32).filter(goes).collect()
}

/// Until when the candidate in use is not to be tried; none = not before another has answered.
fn cooling_until(failure: &Failure, counters: &Counters, moment: Moment) -> Option<Timestamp> {
    if rule_of(failure.class).at_end != Wait {
        return None;
    }
    let strikes = counters.strikes(counters.candidate) as usize;
    let by_itself = COOLDOWNS_MS[strikes.min(COOLDOWNS_MS.len() - 1)];
    // What it said was tried before this: where it says too little, it is left alone as if it had said nothing.
    Some(moment.now.plus(by_itself.max(failure.retry_after_ms.unwrap_or(0))))
}

/// The next lower level.
fn lower(level: Thinking) -> Option<Thinking> {
    match level {
        Thinking::Xhigh => Some(Thinking::High),
        Thinking::High => Some(Thinking::Medium),
        Thinking::Medium => Some(Thinking::Low),
        Thinking::Low => Some(Thinking::Minimal),
        Thinking::Minimal => Some(Thinking::Off),
        Thinking::Off => None,
    }
}

/// Full jitter: anywhere between nothing and 1 s · 2^(n−1), at most 60 s.
fn backoff_ms(failed: u32, draw: u64) -> u64 {
    let doublings = failed.saturating_sub(1).min(16);
    let most = (BACKOFF_BASE_MS << doublings).min(BACKOFF_MOST_MS);
    draw % (most + 1)
}
