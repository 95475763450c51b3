//! Which candidate is asked next: a second implementation, from the entries alone.

use std::collections::BTreeMap;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::limits::OVERFLOW_SUMMARIES;
use engine::{Event, Failed, FailureClass, Next, RequestSent, RetryScheduled, RunEnded, Thinking, Timestamp, WaitFor};
use journal::Entry;

use super::Evidence;
use crate::invariant::{Invariant, Violation};
use crate::plan::Plan;
use crate::workload::Asked;

/// How often a provider can report in one run that a request is too long: for a few summaries, for two other ways, and
/// at the end.
const OVERFLOWS: u32 = OVERFLOW_SUMMARIES + 3;

/// The candidates of the run in progress.
struct Chain<'a> {
    candidates: &'a [Asked],
    /// The most tries of a candidate.
    most: u32,
    current: usize,
    /// The thinking level that it must use because it refused another.
    level: Option<Thinking>,
    /// Failures of the candidate in a row, and how many of these were refusals of its key.
    failed: u32,
    refused: u32,
    overflows: u32,
    last: Option<FailureClass>,
    given_up: BTreeMap<usize, Option<Timestamp>>,
    until: Timestamp,
    /// Whether it waits for a quota: a user may end that wait.
    waits: bool,
}

/// No candidate is tried more often than the limit over any number of openings, no opening shortens a wait, no
/// candidate in cooldown is asked early, and no run gives up while a candidate is left.
pub(super) fn counters_survive(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut chain = Chain::new(&evidence.outside.plan);
    evidence.entries.iter().try_for_each(|entry| {
        chain.may(entry)?;
        chain.take(entry);
        chain.is_in_bounds()
    })
}

/// The thinking level of the current candidate according to these entries, if it refused the configured one.
pub fn level(plan: &Plan, entries: &[Entry]) -> Option<Thinking> {
    let mut chain = Chain::new(plan);
    for entry in entries {
        chain.take(entry);
    }
    chain.level
}

impl<'a> Chain<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            candidates: &plan.workload.candidates,
            most: plan.limits().retries + 1,
            current: 0,
            level: None,
            failed: 0,
            refused: 0,
            overflows: 0,
            last: None,
            given_up: BTreeMap::new(),
            until: Timestamp(i64::MIN),
            waits: false,
        }
    }

    fn may(&self, entry: &Entry) -> Result<(), Violation> {
        match &entry.event {
            Event::RequestSent(e) => Invariant::Counters.holds(self.is_free(e.candidate as usize, entry.at), || {
                format!("{} is in cooldown and is asked", e.candidate)
            }),
            Event::WaitEnded(e) if matches!(e.on, WaitFor::Retry | WaitFor::Quota) => Invariant::Counters
                .holds(entry.at >= self.until, || format!("it had to wait until {:?}, not {:?}", self.until, entry.at)),
            Event::RetryScheduled(e) => self.may_lower(e.thinking),
            Event::WaitBegan(e) if e.on == WaitFor::Quota => self.nobody_is_left("waits", entry.at),
            Event::RunEnded(e) if self.ends_of_failures(e) => self.nobody_is_left("ends", entry.at),
            _ => Ok(()),
        }
    }

    fn take(&mut self, entry: &Entry) {
        match &entry.event {
            Event::RunStarted(_) => {
                self.begin_anew();
                (self.current, self.level, self.overflows, self.last) = (0, None, 0, None);
                self.given_up.clear();
            }
            Event::MessageSealed(e) if e.next != Next::Cut => {
                self.begin_anew();
                let current = self.current;
                self.given_up.retain(|of, until| *of != current && until.is_some_and(|until| until > entry.at));
            }
            Event::Failed(e) => self.failed(e),
            Event::CandidateCooldownSet(e) => {
                let with_it = (0..self.candidates.len()).filter(|of| self.goes(*of));
                let own = e.candidate as usize;
                let gone: Vec<usize> = if own == self.current { with_it.collect() } else { vec![own] };
                for of in gone {
                    // The new entry does not shorten an earlier cooldown, which also outlasts what the next answer
                    // ends.
                    let known =
                        self.given_up.get(&of).copied().flatten().filter(|known| of != own && *known > entry.at);
                    self.given_up.insert(of, e.until.max(known));
                }
            }
            Event::CandidateCooldownLifted(e) => {
                self.given_up.remove(&(e.candidate as usize));
                self.until = if self.waits { entry.at } else { self.until };
            }
            Event::RequestSent(e) => self.asked(e),
            Event::RetryScheduled(e) => self.retried(e),
            // If a human resumes a run, the candidate is tried once more, whatever was counted.
            Event::LifecycleChanged(e) if e.to == LifecycleKind::Error => self.begin_anew(),
            Event::WaitBegan(e) if e.on == WaitFor::Quota => {
                (self.until, self.waits) = (e.until.unwrap_or(self.until), true);
            }
            Event::WaitEnded(e) if e.on == WaitFor::Quota => {
                self.begin_anew();
                if self.given_up.values().any(|until| until.is_some_and(|until| until <= entry.at)) {
                    self.level = None;
                }
            }
            _ => {}
        }
    }

    fn is_in_bounds(&self) -> Result<(), Violation> {
        let Self { most, failed, refused, overflows, .. } = *self;
        let can_refresh = self.candidates.get(self.current).is_some_and(|asked| asked.can_refresh);
        Invariant::Counters.holds(failed - refused <= most, || {
            format!("{failed} tries of a candidate, {refused} of them for its key, at most {most} are allowed")
        })?;
        Invariant::Chain.holds(refused <= 1 + u32::from(can_refresh), || {
            format!("the key of {} was refused {refused} times in a row", self.current)
        })?;
        Invariant::Counters.holds(overflows <= OVERFLOWS, || format!("it was too long {overflows} times in one run"))
    }

    fn begin_anew(&mut self) {
        (self.failed, self.refused) = (0, 0);
    }

    fn failed(&mut self, e: &Failed) {
        // A request that is too long does not count as a try of the candidate; it has its own limit.
        if e.failure.class == FailureClass::ContextOverflow {
            self.overflows += 1;
        } else if e.request.is_some() {
            self.failed += 1;
            self.refused += u32::from(e.failure.class == FailureClass::Auth);
        }
        self.last = Some(e.failure.class);
    }

    fn asked(&mut self, e: &RequestSent) {
        let candidate = e.candidate as usize;
        if candidate != self.current {
            self.begin_anew();
            (self.current, self.level) = (candidate, None);
        }
    }

    fn retried(&mut self, e: &RetryScheduled) {
        (self.until, self.waits) = (e.until, false);
        if e.candidate.is_some() || e.thinking.is_some() {
            self.begin_anew();
            self.level = e.thinking;
        }
        self.current = e.candidate.map_or(self.current, |candidate| candidate as usize);
    }

    fn may_lower(&self, to: Option<Thinking>) -> Result<(), Violation> {
        let from = self.level.or_else(|| self.candidates.get(self.current).and_then(|asked| asked.thinking));
        Invariant::Chain.holds(to.is_none() || to < from, || format!("from {from:?} it is lowered to {to:?}"))
    }

    fn is_free(&self, candidate: usize, at: Timestamp) -> bool {
        self.given_up.get(&candidate).is_none_or(|until| until.is_some_and(|until| until <= at))
    }

    /// Whether a run ends because all of its candidates failed.
    fn ends_of_failures(&self, e: &RunEnded) -> bool {
        use FailureClass::{
            Auth, AuthPermanent, Billing, Malformed, ModelNotFound, Network, Overloaded, RateLimit, Server, Stalled,
            Timeout,
        };
        let class = e.failure.as_ref().map(|failure| failure.class);
        class == self.last
            && matches!(
                class,
                Some(
                    Auth | AuthPermanent
                        | Billing
                        | Malformed
                        | ModelNotFound
                        | Network
                        | Overloaded
                        | RateLimit
                        | Server
                        | Stalled
                        | Timeout
                )
            )
    }

    /// Whether the failure also concerns this candidate, because it shares the failed part with the current one.
    fn goes(&self, candidate: usize) -> bool {
        use FailureClass::{Auth, AuthPermanent, Billing, ModelNotFound};
        let [this, current] = [candidate, self.current].map(|at| self.candidates.get(at));
        let of = |what: fn(&Asked) -> &String| this.map(what) == current.map(what);
        candidate == self.current
            || match self.last {
                Some(Auth | AuthPermanent | Billing) => of(|asked| &asked.profile),
                Some(ModelNotFound) => of(|asked| &asked.model),
                _ => false,
            }
    }

    fn nobody_is_left(&self, what: &str, at: Timestamp) -> Result<(), Violation> {
        let left = (0..self.candidates.len()).find(|other| !self.goes(*other) && self.is_free(*other, at));
        Invariant::Chain.holds(left.is_none(), || format!("a run {what}, and {left:?} was not asked"))
    }
}
