//! Budgets, and what follows when one is nearly or wholly used up. One rule for every limit.

use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::settings::Candidate;
use crate::tables::transitions::named;

named! {
    /// What is limited.
    Resource {
        /// Tokens read and written.
        Tokens = "tokens",
        /// Money.
        Cost = "cost",
        /// Calls of tools.
        Calls = "calls",
        /// Time that runs were at work.
        Wall = "wall",
        /// Bytes that the journal keeps.
        Bytes = "bytes",
        /// Resident bytes of the process: of that alone.
        Memory = "memory",
    }
}

named! {
    /// The scope of a limit.
    Scope {
        /// One run.
        Run = "run",
        /// All runs of a session.
        Session = "session",
        /// All runs of an agent in a day.
        Agent = "agent",
        /// All runs of the home in a day.
        Day = "day",
        /// The memory of the owning process.
        Process = "process",
    }
}

/// What happens at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The run waits until there is more.
    #[default]
    Wait,
    /// The run ends as failed.
    End,
}

/// The limits of one scope; none = no limit. [`NO_LIMIT`] is none as well, where it takes the place of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Allowance {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Micro-dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Milliseconds of the runs' own clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes of messages, answers, outputs and images that the journal keeps: of a run or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Stands in the place of a limit that is lifted.
pub const NO_LIMIT: u64 = u64::MAX;

/// What was spent, or is going to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spent {
    /// Tokens.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens: u64,
    /// Micro-dollars.
    #[serde(skip_serializing_if = "is_default")]
    pub cost: u64,
    /// Calls of tools.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: u64,
    /// Milliseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_ms: u64,
    /// Bytes of content in the journal.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
}

/// The configured limits of a run, as of its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// By itself.
    pub run: Allowance,
    /// With all runs of its session.
    pub session: Allowance,
    /// With all runs of its agent in a day.
    pub agent: Allowance,
    /// With all runs of the home in a day.
    pub day: Allowance,
    /// Resident bytes of the process above which only one run may continue; none = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// What happens at a limit.
    pub at_limit: AtLimit,
    /// Percent of a limit from which on the model is asked to wrap up; 0 = off.
    pub wrap_up: u32,
}

impl Budget {
    /// Whether others spend from it as well.
    pub fn is_shared(&self) -> bool {
        !self.agent.is_unlimited() || !self.day.is_unlimited() || self.memory.is_some()
    }
}

/// A limit that is near or reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Limit {
    /// Whose.
    pub scope: Scope,
    pub of: Resource,
    /// What was spent of it.
    pub used: u64,
    /// What may be.
    pub limit: u64,
}

/// The state of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There is enough.
    Free,
    /// There is enough for now, and the model is to wrap up.
    Near(Limit),
    /// There is not enough for what comes next.
    Reached(Limit),
}

/// Tokens that an answer is taken to have before it is there: most have fewer. What the whole of an answer may cost would
/// leave nothing of a small budget; so a limit is passed by a part of one request at most.
const EXPECTED_OUTPUT: u64 = 4_096;

/// The same for a request that only reports what was done.
const CLOSING_OUTPUT: u64 = 1_024;

/// The part of a limit that is kept back for the final report: a twentieth.
const KEPT_BACK: u64 = 20;

fn is_default<T: Default + PartialEq>(amount: &T) -> bool {
    *amount == T::default()
}

impl Allowance {
    /// Whether it limits nothing.
    pub fn is_unlimited(&self) -> bool {
        Resource::ALL.iter().all(|of| self.of(*of).is_none())
    }

    /// The limit of this resource.
    pub fn of(&self, resource: Resource) -> Option<u64> {
        let limit = match resource {
            Resource::Tokens => self.tokens,
            Resource::Cost => self.cost,
            Resource::Calls => self.calls,
            Resource::Wall => self.wall_ms,
            Resource::Bytes => self.bytes,
            Resource::Memory => None,
        };
        limit.filter(|limit| *limit != NO_LIMIT)
    }

    /// These limits where they say something, else those.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            calls: self.calls.or(other.calls),
            wall_ms: self.wall_ms.or(other.wall_ms),
            bytes: self.bytes.or(other.bytes),
        }
    }
}

impl Spent {
    /// What was spent of this resource.
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Tokens => self.tokens,
            Resource::Cost => self.cost,
            Resource::Calls => self.calls,
            Resource::Wall => self.wall_ms,
            Resource::Bytes => self.bytes,
            Resource::Memory => 0,
        }
    }

    /// A request that took so much, at so many micro-dollars.
    pub fn on_request(usage: &Usage, cost: u64) -> Self {
        Self { tokens: usage.prompt().saturating_add(usage.output), cost, ..Self::default() }
    }

    /// A request of so many tokens that is yet to be answered.
    pub fn expected(candidate: &Candidate, tokens: u64) -> Self {
        Self::with_output(candidate, tokens, EXPECTED_OUTPUT)
    }

    /// The same of one that only says what was done.
    pub fn closing(candidate: &Candidate, tokens: u64) -> Self {
        Self::with_output(candidate, tokens, CLOSING_OUTPUT)
    }

    fn with_output(candidate: &Candidate, tokens: u64, output: u64) -> Self {
        let usage = Usage { input: tokens, output: output.min(candidate.max_output), ..Usage::default() };
        Self::on_request(&usage, candidate.cost(&usage))
    }

    /// Adds what another has spent.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.saturating_add(other.cost);
        self.calls = self.calls.saturating_add(other.calls);
        self.wall_ms = self.wall_ms.saturating_add(other.wall_ms);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Without what was counted of it before.
    #[must_use]
    pub fn less(self, before: &Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(before.tokens),
            cost: self.cost.saturating_sub(before.cost),
            calls: self.calls.saturating_sub(before.calls),
            wall_ms: self.wall_ms.saturating_sub(before.wall_ms),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }

    /// Of each resource the larger one.
    #[must_use]
    pub fn at_least(self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            cost: self.cost.max(other.cost),
            calls: self.calls.max(other.calls),
            wall_ms: self.wall_ms.max(other.wall_ms),
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }
}

/// Whether a request that costs `next` may be sent by a spender that has spent this much of these limits. Of several
/// limits, the one nearest to its end decides.
pub fn standing(of: &[(Scope, Allowance, Spent)], next: &Spent, wrap_up: u32) -> Standing {
    let limits = of.iter().flat_map(|(scope, allowance, spent)| {
        let limit = |of: &Resource| Some((*of, allowance.of(*of)?, spent.of(*of)));
        let limits: Vec<_> = Resource::ALL.iter().filter_map(limit).collect();
        limits.into_iter().map(|(of, limit, used)| Limit { scope: *scope, of, used, limit })
    });
    let limits: Vec<Limit> = limits.collect();
    // The fuller one first.
    let fuller = |a: &&Limit, b: &&Limit| (a.share(), b.limit).cmp(&(b.share(), a.limit));
    if let Some(reached) = limits.iter().filter(|limit| limit.is_reached(next)).max_by(fuller) {
        return Standing::Reached(*reached);
    }
    let near = limits.iter().filter(|limit| wrap_up > 0 && limit.share() >= u128::from(wrap_up) * 100).max_by(fuller);
    near.map_or(Standing::Free, |near| Standing::Near(*near))
}

/// Whether the request for the final report may still be sent.
pub fn can_close(of: &[(Scope, Allowance, Spent)], next: &Spent) -> bool {
    let fits = |(_, allowance, spent): &(Scope, Allowance, Spent)| {
        let of_it = [Resource::Tokens, Resource::Cost];
        of_it.iter().all(|of| allowance.of(*of).is_none_or(|limit| spent.of(*of).saturating_add(next.of(*of)) <= limit))
    };
    of.iter().all(fits)
}

impl Limit {
    /// What was spent of it, in hundredths of a percent.
    fn share(&self) -> u128 {
        u128::from(self.used) * 10_000 / u128::from(self.limit.max(1))
    }

    /// Whether the next cost exceeds what is left, apart from what is kept back.
    fn is_reached(&self, next: &Spent) -> bool {
        match self.of {
            Resource::Tokens | Resource::Cost => {
                self.used.saturating_add(next.of(self.of)) > self.limit - self.limit / KEPT_BACK
            }
            Resource::Calls | Resource::Wall | Resource::Bytes | Resource::Memory => self.used >= self.limit,
        }
    }

    /// How much of it was spent, whole percent.
    pub fn percent(&self) -> u64 {
        u64::try_from(self.share() / 100).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_run(allowance: Allowance, spent: Spent) -> Vec<(Scope, Allowance, Spent)> {
        vec![(Scope::Run, allowance, spent)]
    }

    const NOTHING: Spent = Spent { tokens: 0, cost: 0, calls: 0, wall_ms: 0, bytes: 0 };

    #[test]
    fn r23_a_request_goes_out_only_where_what_it_takes_is_left_but_for_a_twentieth() {
        let allowance = Allowance { tokens: Some(1_000), ..Allowance::default() };
        let next = Spent { tokens: 100, ..NOTHING };
        for (used, is_free) in [(0, true), (850, true), (851, false), (5_000, false)] {
            let limits = of_run(allowance, Spent { tokens: used, ..NOTHING });
            assert_eq!(standing(&limits, &next, 0) == Standing::Free, is_free, "{used}");
        }
        // The twentieth is for the final report.
        assert!(can_close(&of_run(allowance, Spent { tokens: 900, ..NOTHING }), &next));
        assert!(!can_close(&of_run(allowance, Spent { tokens: 901, ..NOTHING }), &next));
    }

    #[test]
    fn r23_calls_time_and_bytes_are_used_up_when_they_are() {
        let calls = Allowance { calls: Some(2), ..Allowance::default() };
        let wall = Allowance { wall_ms: Some(2), ..Allowance::default() };
        let bytes = Allowance { bytes: Some(2), ..Allowance::default() };
        let used = [(calls, Spent { calls: 2, ..NOTHING }), (wall, Spent { wall_ms: 2, ..NOTHING })];
        for (allowance, spent) in used.into_iter().chain([(bytes, Spent { bytes: 2, ..NOTHING })]) {
            assert!(matches!(standing(&of_run(allowance, spent), &NOTHING, 0), Standing::Reached(_)));
            assert_eq!(
                standing(&of_run(allowance, Spent { calls: 1, wall_ms: 1, bytes: 1, ..NOTHING }), &NOTHING, 0),
                Standing::Free
            );
            assert!(can_close(&of_run(allowance, spent), &NOTHING), "saying what was done takes neither");
        }
    }

    #[test]
    fn r23_of_several_limits_the_fullest_says_how_it_stands() {
        let limits = vec![
            (Scope::Run, Allowance { tokens: Some(100), ..Allowance::default() }, Spent { tokens: 85, ..NOTHING }),
            (Scope::Session, Allowance { cost: Some(100), ..Allowance::default() }, Spent { cost: 92, ..NOTHING }),
        ];
        let Standing::Near(near) = standing(&limits, &NOTHING, 80) else { panic!("it is near") };
        assert_eq!((near.scope, near.of, near.percent()), (Scope::Session, Resource::Cost, 92));
        assert_eq!(standing(&limits, &NOTHING, 0), Standing::Free, "0 = off");
        assert_eq!(standing(&limits, &NOTHING, 93), Standing::Free);
    }

    #[test]
    fn r23_what_is_said_takes_the_place_of_what_is_configured_and_may_lift_it() {
        let configured = Allowance { tokens: Some(5), calls: Some(7), ..Allowance::default() };
        let said = Allowance { tokens: Some(NO_LIMIT), cost: Some(3), ..Allowance::default() };
        let both = said.or(configured);
        assert_eq!(
            Resource::ALL.iter().map(|of| both.of(*of)).collect::<Vec<_>>(),
            [None, Some(3), Some(7), None, None, None]
        );
        assert!(!both.is_unlimited() && Allowance::default().is_unlimited());
    }
}
