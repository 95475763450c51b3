//! The error strategy: what follows a failure. One table, one decision, one set of counters.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureClass};
use crate::ids::{Moment, Timestamp};
use crate::ledger::{CooldownLifted, CooldownSet};
use crate::mutant;
use crate::settings::{Candidate, Limits, Thinking};
use crate::tables::compaction::{self, CompactionProgress, CompactionStep, Window};
use crate::tables::limits::{
    BACKOFF_BASE_MS, BACKOFF_MOST_MS, COOLDOWNS_MS, DISABLED_MOST_MS, DISABLED_MS, WINDOW_LEAST,
};

/// What is tried first, with the same candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The same request once more, after what the provider asks for, else after a backoff.
    RetryOnce,
    /// The same as often as `requests.retries` says.
    Retry,
    /// The same request at once, with a new access token; once, and only where the key is one.
    RefreshOnce,
    /// The next lower thinking level, each once.
    LowerThinking,
    /// The same conversation, once its history is shorter: by summaries, long results cut, a smaller tail.
    MakeRoom,
    /// Nothing: the same request would fail the same way.
    Nothing,
}

impl First {
    /// In words; empty for nothing.
    pub fn name(self) -> &'static str {
        match self {
            Self::RetryOnce => "retry once",
            Self::Retry => "retry",
            Self::RefreshOnce => "refresh once",
            Self::LowerThinking => "lower thinking",
            Self::MakeRoom => "make room",
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

/// What all sessions of the home leave alone from then on, until its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cools {
    /// Nothing: it says nothing of other requests.
    Nothing,
    /// The model with this profile, for 1, 5, 25 and 60 minutes.
    Pair,
    /// The profile with all models, for 1, 5, 25 and 60 minutes.
    Profile,
    /// The profile with all models, for 5 hours and twice as long each time, at most a day.
    Disables,
}

impl Cools {
    /// In words; empty for nothing.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Pair => "model with this profile: 1, 5, 25, 60 min",
            Self::Profile => "profile: 1, 5, 25, 60 min",
            Self::Disables => "profile: 5 h, doubling to 24 h",
        }
    }

    /// For how many milliseconds, when it happens for the n-th time (from 1) without an answer or an end of it between.
    pub fn cooldown_ms(self, strikes: u32) -> u64 {
        let before = strikes.saturating_sub(1);
        match self {
            Self::Nothing => 0,
            Self::Pair | Self::Profile => COOLDOWNS_MS[(before as usize).min(COOLDOWNS_MS.len() - 1)],
            Self::Disables => (DISABLED_MS << before.min(8)).min(DISABLED_MOST_MS),
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
    /// What other sessions leave alone as well.
    pub cools: Cools,
}

use AtEnd::{End, Fail, Hold, Wait};
use FailureClass as Class;

const fn rule(class: FailureClass, first: First, then: Then, at_end: AtEnd) -> Rule {
    Rule { class, first, then, at_end, cools: Cools::Nothing }
}

impl Rule {
    const fn cools(mut self, cools: Cools) -> Self {
        self.cools = cools;
        self
    }
}

/// The table: each class once, in the order of its enum.
pub const RULES: &[Rule] = &[
    rule(Class::RateLimit, First::RetryOnce, Then::NextProfile, Wait).cools(Cools::Pair),
    rule(Class::Overloaded, First::RetryOnce, Then::NextProfile, Wait).cools(Cools::Pair),
    rule(Class::Auth, First::RefreshOnce, Then::NextProfile, Fail).cools(Cools::Profile),
    rule(Class::AuthPermanent, First::Nothing, Then::NextProfile, Fail).cools(Cools::Disables),
    rule(Class::Billing, First::Nothing, Then::NextProfile, Fail).cools(Cools::Disables),
    rule(Class::Timeout, First::Retry, Then::NextProfile, Fail),
    rule(Class::Stalled, First::Retry, Then::NextProfile, Fail),
    rule(Class::Network, First::Retry, Then::NextProfile, Fail),
    rule(Class::Server, First::Retry, Then::NextProfile, Fail),
    rule(Class::Malformed, First::Retry, Then::NextProfile, Fail),
    rule(Class::ContextOverflow, First::MakeRoom, Then::Nothing, End),
    rule(Class::ThinkingUnsupported, First::LowerThinking, Then::Nothing, End),
    rule(Class::ModelNotFound, First::Nothing, Then::NextModel, Fail),
    rule(Class::InvalidRequest, First::Nothing, Then::Nothing, End),
    rule(Class::Refused, First::Nothing, Then::Nothing, End),
    rule(Class::Tool, First::Nothing, Then::Nothing, End),
    rule(Class::Deadline, First::Nothing, Then::Nothing, End),
    rule(Class::Aborted, First::Nothing, Then::Nothing, End),
    rule(Class::Budget, First::Nothing, Then::Nothing, End),
    rule(Class::Loop, First::Nothing, Then::Nothing, End),
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
    /// How many of them for the key that they were sent with. What was kept before this was asked had none.
    #[serde(default)]
    pub refused: u32,
    /// Candidates that were given up.
    pub cooling: Vec<Cooling>,
    /// Milliseconds that were waited for candidates to cool down.
    pub waited_ms: u64,
    /// How far it is with making room in the model's window.
    pub room: CompactionProgress,
}

impl Counters {
    /// The same again, or another candidate, or a lower level.
    pub(crate) fn retry(&mut self, candidate: Option<u32>, lowered: Option<Thinking>) {
        if candidate.is_some() || lowered.is_some() {
            (self.failed, self.refused) = (0, 0);
            self.lowered = lowered;
        }
        self.candidate = candidate.unwrap_or(self.candidate);
    }

    /// The candidate in use has failed like this.
    pub(crate) fn fail(&mut self, class: FailureClass) {
        self.failed += 1;
        self.refused += u32::from(rule_of(class).first == First::RefreshOnce);
    }

    /// A candidate is given up for now. `asked`: a request to it is out, whose answer is not to end what was learned after it.
    pub(crate) fn cool(&mut self, cooling: Cooling, asked: bool) {
        let strikes = if asked { 0 } else { self.strikes(cooling.candidate, cooling.class) + 1 };
        self.cooling.retain(|of| of.candidate != cooling.candidate);
        self.cooling.push(Cooling { strikes, ..cooling });
    }

    /// A candidate may be asked again: it is as if it had not failed.
    pub(crate) fn clear(&mut self, candidate: u32) {
        self.cooling.retain(|cooling| cooling.candidate != candidate);
        if candidate == self.candidate {
            (self.failed, self.refused) = (0, 0);
        }
    }

    /// How often a candidate was left alone for what such a failure is left alone for: no credit says nothing of a limit.
    fn strikes(&self, candidate: u32, class: Option<FailureClass>) -> u32 {
        let cools = |of: Option<FailureClass>| of.map(|class| rule_of(class).cools);
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == candidate);
        of_it.find(|cooling| cools(cooling.class) == cools(class)).map_or(0, |cooling| cooling.strikes)
    }

    /// A candidate is asked, without a failure of the one before.
    pub(crate) fn ask(&mut self, candidate: u32) {
        for cooling in self.cooling.iter_mut().filter(|cooling| cooling.candidate == candidate) {
            cooling.strikes = cooling.strikes.max(1);
        }
        if candidate != self.candidate {
            (self.candidate, self.lowered, self.failed, self.refused) = (candidate, None, 0, 0);
        }
    }

    /// Whether a candidate is tried that has failed, and has not answered since.
    pub(crate) fn is_probe(&self, candidate: u32) -> bool {
        self.cooling.iter().any(|cooling| cooling.candidate == candidate)
    }

    /// Whether the request that is out to a candidate was one, and was not sent before that was known.
    pub(crate) fn was_probe(&self, candidate: u32) -> bool {
        self.cooling.iter().any(|cooling| cooling.candidate == candidate && cooling.strikes > 0)
    }

    /// Whether a candidate is not to be tried now.
    fn cools(&self, candidate: u32, now: Timestamp) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == candidate);
        of_it.any(|cooling| cooling.until.is_none_or(|until| until > now))
    }

    /// Until when a candidate is left alone that is given up until then: what was said of it before is not shortened. A time
    /// outlasts `not before another has answered`, which the next answer ends.
    pub(crate) fn left_alone(&self, candidate: u32, until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let known = self.cooling.iter().filter(|of| of.candidate == candidate && candidate != self.candidate);
        known.filter_map(|cooling| cooling.until).filter(|until| *until > now).max().max(until)
    }

    /// Whether a candidate is left alone for as long as that already.
    pub(crate) fn knows(&self, cooled: &CooldownSet) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == cooled.candidate);
        of_it.any(|cooling| cooling.until.is_none_or(|until| until >= cooled.until))
    }

    /// Whether a candidate is left alone for what was known when it was cleared.
    pub(crate) fn knew(&self, cleared: &CooldownLifted) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == cleared.candidate);
        of_it.any(|cooling| cooling.since <= cleared.at)
    }

    /// A wait is over: those whose time has come may be tried again, the first of them is.
    pub(crate) fn cooled(&mut self, now: Timestamp) {
        let is_over = |cooling: &Cooling| cooling.until.is_some_and(|until| until <= now);
        if let Some(first) = self.cooling.iter().filter(|cooling| is_over(cooling)).map(|c| c.candidate).min() {
            (self.candidate, self.lowered, self.failed, self.refused) = (first, None, 0, 0);
        }
    }

    /// A whole answer came: what was before it counts no more, but for others whose time to cool down is not over.
    pub(crate) fn answered(&mut self, now: Timestamp) {
        let Self { candidate, lowered, room, .. } = *self;
        let stays = |of: &Cooling| of.candidate != candidate || of.strikes == 0;
        let cools = |of: &Cooling| stays(of) && of.until.is_some_and(|until| until > now);
        let cooling = std::mem::take(&mut self.cooling).into_iter().filter(cools).collect();
        *self = Self { candidate, lowered, cooling, room: room.answered(), ..Self::default() };
    }
}

/// A candidate that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// Its place in the settings.
    pub candidate: u32,
    /// Until when it is not to be tried; none = not before another has answered.
    pub until: Option<Timestamp>,
    /// How often it was: each time it is left alone for longer. 0 where that was told while a request to it was out.
    pub strikes: u32,
    /// Why.
    pub class: Option<FailureClass>,
    /// Since when that is known.
    pub since: Timestamp,
}

impl Cooling {
    /// When it is worth waiting for; none for a key that is refused or has no credit, which time alone does not mend.
    fn reset(&self) -> Option<Timestamp> {
        self.until.filter(|_| self.class.is_none_or(|class| rule_of(class).at_end == Wait))
    }
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
    /// The history is shortened, or goes out as it is.
    MakeRoom {
        /// When, from now.
        delay_ms: u64,
        /// The way that is tried next.
        compaction_step: CompactionStep,
        /// The next request goes out with the history as it is.
        as_it_is: bool,
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

/// Decides what follows a failure of the candidate in use (`counters.failed` counts this one), or of a compaction;
/// `window` is that of the candidate.
pub fn recover(
    failure: &Failure,
    counters: &Counters,
    (chain, window): (&[Candidate], Option<Window>),
    limits: &Limits,
    moment: Moment,
) -> Strategy {
    if counters.room.broke {
        return compaction::after(failure, &counters.room, window, moment);
    }
    let rule = rule_of(failure.class);
    if let Some(strategy) = first(rule.first, failure, counters, chain, limits, moment) {
        return strategy;
    }
    let cooling = cooling_until(failure, counters, moment);
    let gone = given_up(failure, counters, chain);
    if rule.then != Then::Nothing
        && let Some(candidate) = next(&gone, counters, chain, moment.now)
    {
        return Strategy::Rotate { candidate, cooling };
    }
    match rule.at_end {
        Hold => Strategy::Hold,
        End => Strategy::Fail,
        Wait | Fail => {
            let others = counters.cooling.iter().filter(|cooling| !gone.contains(&cooling.candidate));
            let others = others.filter_map(Cooling::reset);
            let own = cooling.filter(|_| rule.at_end == Wait);
            let Some(until) = others.chain(own).min() else { return Strategy::Fail };
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
            let candidate = chain.get(counters.candidate as usize)?;
            let level = lower(counters.lowered.or(candidate.thinking)?, &candidate.levels)?;
            return Some(Strategy::LowerThinking { level });
        }
        // Whatever else it failed of before, and however few retries there are: no time is lost, and no other is better.
        First::RefreshOnce => {
            let can_refresh = chain.get(counters.candidate as usize).is_some_and(|candidate| candidate.can_refresh);
            return (can_refresh && counters.refused <= 1).then_some(Strategy::Retry { delay_ms: 0 });
        }
        // What is too long is shortened before anything is decided here.
        First::MakeRoom | First::Nothing => return None,
    };
    if counters.failed > most {
        return None;
    }
    let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(counters.failed, moment.random));
    // What is not over in a moment is not waited for here, where another can answer meanwhile or sooner, or the wait is one for
    // a quota: that one ends with whoever is free first.
    let free = next(&[counters.candidate], counters, chain, moment.now).is_some();
    let sooner = || {
        let others = counters.cooling.iter().filter(|cooling| cooling.candidate != counters.candidate);
        others.filter_map(Cooling::reset).any(|until| until < moment.now.plus(delay_ms))
    };
    let is_passing = rule_of(failure.class).at_end == Wait || free || sooner();
    let patience = if is_passing { BACKOFF_MOST_MS } else { limits.max_wait_ms };
    (delay_ms <= patience.min(limits.max_wait_ms)).then_some(Strategy::Retry { delay_ms })
}

/// The first candidate that may be tried, when these may not.
fn next(gone: &[u32], counters: &Counters, chain: &[Candidate], now: Timestamp) -> Option<u32> {
    let stays = |at: &u32| same_model(&chain[*at as usize], &chain[counters.candidate as usize]);
    let fits =
        |at: &u32| chain[*at as usize].context_window >= WINDOW_LEAST && (!mutant!(NextModelForgotten) || stays(at));
    (0..chain.len() as u32).find(|at| !gone.contains(at) && !counters.cools(*at, now) && fits(at))
}

fn same_profile(a: &Candidate, b: &Candidate) -> bool {
    (&a.provider, &a.profile) == (&b.provider, &b.profile)
}

fn same_model(a: &Candidate, b: &Candidate) -> bool {
    (&a.provider, &a.model) == (&b.provider, &b.model)
}

/// Who is not to be tried for now when the candidate in use has failed like this: it alone, all keys of its model, or all
/// models of its key.
pub fn given_up(failure: &Failure, counters: &Counters, chain: &[Candidate]) -> Vec<u32> {
    let Some(failed) = chain.get(counters.candidate as usize) else { return vec![] };
    let Rule { then, cools, .. } = rule_of(failure.class);
    let goes = |at: &u32| {
        let candidate = &chain[*at as usize];
        *at == counters.candidate
            || then == Then::NextModel && same_model(candidate, failed)
            || cools >= Cools::Profile && same_profile(candidate, failed) && !mutant!(KeyAskedAgain)
    };
    (0..chain.len() as u32).filter(goes).collect()
}

/// Who is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This candidate.
    Ask(u32),
    /// Nobody before then.
    Wait(Timestamp),
}

/// Who is asked when the run goes on: the candidate in use, unless it cools down; then the first that may be tried, or the
/// soonest that is worth waiting for. Where there is none of these the first is tried all the same: who has mended a key
/// or paid a bill need not say so here.
pub fn pick(counters: &Counters, chain: &[Candidate], limits: &Limits, now: Timestamp) -> Pick {
    if !counters.cools(counters.candidate, now) {
        return Pick::Ask(counters.candidate);
    }
    if let Some(candidate) = next(&[], counters, chain, now) {
        return Pick::Ask(candidate);
    }
    let waits = |until: &Timestamp| until.since(now).saturating_add(counters.waited_ms) <= limits.max_wait_ms;
    match counters.cooling.iter().filter_map(Cooling::reset).filter(|until| *until > now).min().filter(waits) {
        Some(until) => Pick::Wait(until),
        None => Pick::Ask(counters.candidate),
    }
}

/// Until when the candidate in use is not to be tried; none = not before another has answered.
pub(crate) fn cooling_until(failure: &Failure, counters: &Counters, moment: Moment) -> Option<Timestamp> {
    let cools = rule_of(failure.class).cools;
    if cools == Cools::Nothing {
        return None;
    }
    let by_itself = cools.cooldown_ms(counters.strikes(counters.candidate, Some(failure.class)) + 1);
    // What it said was tried before this: where it says too little, it is left alone as if it had said nothing.
    Some(moment.now.plus(by_itself.max(failure.retry_after_ms.unwrap_or(0))))
}

/// The next lower level of these; of every one where there are none.
fn lower(level: Thinking, levels: &[Thinking]) -> Option<Thinking> {
    use Thinking::{High, Low, Medium, Minimal, Off, Xhigh};
    let levels = if levels.is_empty() { &[Xhigh, High, Medium, Low, Minimal, Off] } else { levels };
    levels.iter().copied().filter(|lower| *lower < level).max()
}

/// Full jitter: anywhere between nothing and 1 s · 2^(n−1), at most 60 s.
pub(crate) fn backoff_ms(failed: u32, random: u64) -> u64 {
    let doublings = failed.saturating_sub(1).min(16);
    let most = (BACKOFF_BASE_MS << doublings).min(BACKOFF_MOST_MS);
    random % (most + 1)
}
