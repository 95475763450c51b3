//! Budgets, and what follows when one is nearly or completely used up. One rule applies to every limit.

use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::settings::Candidate;
use crate::tables::transitions::named;

named! {
    /// The resource that a limit is about.
    Resource {
        /// Tokens read and written.
        Tokens = "tokens",
        /// Cost, micro-dollars.
        Cost = "cost",
        /// Tool calls that were started.
        Calls = "calls",
        /// Time that runs were executing, milliseconds.
        Wall = "wall",
        /// Bytes that the journal keeps.
        Bytes = "bytes",
        /// Resident bytes; only for the scope of the process.
        Memory = "memory",
    }
}

named! {
    /// The scope of a limit.
    Scope {
        /// The limits of one run.
        Run = "run",
        /// All runs of a session.
        Session = "session",
        /// All runs of an agent in a day.
        Agent = "agent",
        /// All runs of the home in a day.
        Day = "day",
        /// All runs of the home, whenever they ran.
        Home = "home",
        /// The memory of the owning process.
        Process = "process",
    }
}

/// What happens at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The run waits until the limit is raised or its period starts anew.
    #[default]
    Wait,
    /// The run ends as failed.
    End,
}

/// The limits of one scope; none = no limit. [`NO_LIMIT`] lifts a configured limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Allowance {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Micro-dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Milliseconds of the runs' own clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes of messages, answers, outputs and images that the journal keeps: of a run or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The value of a limit that is lifted.
pub const NO_LIMIT: u64 = u64::MAX;

/// The part of each limit that is kept for recovery, in percent, rounded down to whole units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Reserve {
    pub tokens: u32,
    pub cost: u32,
    pub calls: u32,
    pub wall: u32,
}

impl Default for Reserve {
    /// A twentieth of tokens and cost (R23). The final report needs no calls, and hardly any time.
    fn default() -> Self {
        Self { tokens: 5, cost: 5, calls: 0, wall: 0 }
    }
}

impl Reserve {
    /// The reserve of a limit, in its own unit.
    pub fn of(&self, resource: Resource, limit: u64) -> u64 {
        let percent = match resource {
            Resource::Tokens => self.tokens,
            Resource::Cost => self.cost,
            Resource::Calls => self.calls,
            Resource::Wall => self.wall,
            Resource::Bytes | Resource::Memory => 0,
        };
        u64::try_from(u128::from(limit) * u128::from(percent) / 100).unwrap_or(limit)
    }
}

/// The reserves of all scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Reserves {
    #[serde(skip_serializing_if = "is_default")]
    pub run: Reserve,
    #[serde(skip_serializing_if = "is_default")]
    pub session: Reserve,
    #[serde(skip_serializing_if = "is_default")]
    pub agent: Reserve,
    #[serde(skip_serializing_if = "is_default")]
    pub day: Reserve,
    #[serde(skip_serializing_if = "is_default")]
    pub home: Reserve,
}

/// An amount of each resource that was spent or is reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Spent {
    #[serde(skip_serializing_if = "is_default")]
    pub tokens: u64,
    /// Micro-dollars.
    #[serde(skip_serializing_if = "is_default")]
    pub cost: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub calls: u64,
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
    /// For the run alone.
    pub run: Allowance,
    /// For all runs of its session.
    pub session: Allowance,
    /// For all runs of its agent in a day.
    pub agent: Allowance,
    /// For all runs of the home in a day.
    pub day: Allowance,
    /// For all runs of the home, whenever they ran.
    #[serde(skip_serializing_if = "is_default")]
    pub home: Allowance,
    /// The parts of these limits that are kept for recovery.
    #[serde(skip_serializing_if = "is_default")]
    pub reserves: Reserves,
    /// Resident bytes of the process above which only one run may continue; none = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// What happens at a limit.
    pub at_limit: AtLimit,
    /// Percent of a limit from which on the model is asked to wrap up; 0 = off.
    pub wrap_up: u32,
}

impl Budget {
    /// Whether it has a limit that other runs share.
    pub fn is_shared(&self) -> bool {
        [self.agent, self.day, self.home].iter().any(|of| !of.is_unlimited()) || self.memory.is_some()
    }
}

/// What was spent in one scope, and what is reserved there for requests in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Charged {
    pub spent: Spent,
    pub reserved: Spent,
}

/// The limits of one scope, and what counts against them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ScopeBudget {
    pub scope: Scope,
    pub allowance: Allowance,
    /// The part of the limits that is kept for recovery.
    pub reserve: Reserve,
    pub charged: Charged,
}

/// A limit with its figures, all in the unit of the resource. What is neither used nor reserved is [free](Self::free).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Limit {
    pub scope: Scope,
    pub of: Resource,
    /// What was spent.
    pub used: u64,
    /// What is kept back for requests in flight and for recovery.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reserved: u64,
    /// The part of it that is kept for recovery; none = that of [`Reserve::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    pub limit: u64,
    /// What the next request needs, its answer included; 0 = nothing, or unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needs: u64,
}

/// The state of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The next request fits.
    Free,
    /// The next request fits, and the model is to wrap up.
    Near(Limit),
    /// The next request does not fit.
    Reached(Limit),
}

/// The estimated tokens of an answer; most have fewer. The maximum of an answer would use up a small budget at once. So
/// a limit is exceeded by at most a part of one request.
const EXPECTED_OUTPUT: u64 = 4_096;

/// The same for the request of the final report.
const CLOSING_OUTPUT: u64 = 1_024;

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

    /// The part of the limit of this resource that is kept for recovery; 0 without a limit.
    pub fn reserved(&self, resource: Resource, reserve: &Reserve) -> u64 {
        self.of(resource).map_or(0, |limit| reserve.of(resource, limit))
    }

    /// These limits; `other` for resources without one.
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
    /// The amount of this resource.
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

    /// The tokens of a request, and its cost in micro-dollars.
    pub fn on_request(usage: &Usage, cost: u64) -> Self {
        Self { tokens: usage.prompt().saturating_add(usage.output), cost, ..Self::default() }
    }

    /// The estimate for a request of this many tokens, including its answer.
    pub fn expected(candidate: &Candidate, tokens: u64) -> Self {
        Self::with_output(candidate, tokens, EXPECTED_OUTPUT)
    }

    /// The same for the request of the final report.
    pub fn closing(candidate: &Candidate, tokens: u64) -> Self {
        Self::with_output(candidate, tokens, CLOSING_OUTPUT)
    }

    fn with_output(candidate: &Candidate, tokens: u64, output: u64) -> Self {
        let usage = Usage { input: tokens, output: output.min(candidate.max_output), ..Usage::default() };
        Self::on_request(&usage, candidate.cost(&usage))
    }

    /// Adds these amounts.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.saturating_add(other.cost);
        self.calls = self.calls.saturating_add(other.calls);
        self.wall_ms = self.wall_ms.saturating_add(other.wall_ms);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// The difference to earlier amounts; never negative.
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

    /// The larger amount of each resource.
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

    /// The sum of both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }
}

/// Whether a request that costs `next` may be sent, given these limits and what was spent of them. Of several limits,
/// the one with the largest used share decides.
pub fn standing(of: &[ScopeBudget], next: &Spent, wrap_up: u32) -> Standing {
    let limits = of.iter().flat_map(|budget| Resource::ALL.iter().filter_map(|of| budget.limit(*of, next)));
    let limits: Vec<Limit> = limits.collect();
    // The larger used share first.
    let fuller = |a: &&Limit, b: &&Limit| (a.share(), b.limit).cmp(&(b.share(), a.limit));
    if let Some(reached) = limits.iter().filter(|limit| limit.is_reached()).max_by(fuller) {
        return Standing::Reached(*reached);
    }
    let near = limits.iter().filter(|limit| wrap_up > 0 && limit.share() >= u128::from(wrap_up) * 100).max_by(fuller);
    near.map_or(Standing::Free, |near| Standing::Near(*near))
}

/// Whether a request that costs `next` may be sent from the reserve: a request that is sent once more, or a summary.
pub fn may_recover(of: &[ScopeBudget], next: &Spent) -> bool {
    let fits = |budget: &ScopeBudget| {
        let charged = budget.charged.all();
        Resource::ALL.iter().all(|of| {
            budget.allowance.of(*of).is_none_or(|limit| match of {
                Resource::Tokens | Resource::Cost => charged.of(*of).saturating_add(next.of(*of)) <= limit,
                Resource::Calls | Resource::Wall | Resource::Bytes | Resource::Memory => charged.of(*of) < limit,
            })
        })
    };
    of.iter().all(fits)
}

/// Whether the request for the final report may still be sent. It starts no call and is short.
pub fn can_close(of: &[ScopeBudget], next: &Spent) -> bool {
    let fits = |budget: &ScopeBudget| {
        let charged = budget.charged.all().and(next);
        let of_it = [Resource::Tokens, Resource::Cost];
        of_it.iter().all(|of| budget.allowance.of(*of).is_none_or(|limit| charged.of(*of) <= limit))
    };
    of.iter().all(fits)
}

impl Charged {
    /// Both together.
    pub fn all(&self) -> Spent {
        self.spent.and(&self.reserved)
    }

    /// The sum with other amounts.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self { spent: self.spent.and(&other.spent), reserved: self.reserved.and(&other.reserved) }
    }
}

impl ScopeBudget {
    /// The figures of a limited resource, where the next request costs `next`.
    pub fn limit(&self, of: Resource, next: &Spent) -> Option<Limit> {
        let limit = self.allowance.of(of)?;
        let kept = self.reserve.of(of, limit);
        let reserved = self.charged.reserved.of(of).saturating_add(kept);
        let kept = Some(kept).filter(|kept| *kept != Reserve::default().of(of, limit));
        let used = self.charged.spent.of(of);
        Some(Limit { scope: self.scope, of, used, reserved, kept, limit, needs: next.of(of) })
    }
}

impl Limit {
    /// What is neither used nor reserved.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used).saturating_sub(self.reserved)
    }

    /// What is kept for recovery.
    pub fn kept(&self) -> u64 {
        self.kept.unwrap_or_else(|| Reserve::default().of(self.of, self.limit))
    }

    /// The share that is used or reserved for requests in flight, in hundredths of a percent.
    fn share(&self) -> u128 {
        let charged = self.used.saturating_add(self.reserved).saturating_sub(self.kept());
        u128::from(charged) * 10_000 / u128::from(self.limit.max(1))
    }

    /// Whether the next request needs more than is free, or nothing is.
    pub fn is_reached(&self) -> bool {
        match self.of {
            Resource::Tokens | Resource::Cost => {
                self.used.saturating_add(self.reserved).saturating_add(self.needs) > self.limit
            }
            Resource::Calls | Resource::Wall | Resource::Bytes | Resource::Memory => {
                self.used.saturating_add(self.reserved) >= self.limit
            }
        }
    }

    /// The used share in whole percent.
    pub fn percent(&self) -> u64 {
        u64::try_from(self.share() / 100).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scope: Scope, allowance: Allowance, spent: Spent) -> ScopeBudget {
        let charged = Charged { spent, ..Charged::default() };
        ScopeBudget { scope, allowance, reserve: Reserve::default(), charged }
    }

    fn of_run(allowance: Allowance, spent: Spent) -> Vec<ScopeBudget> {
        vec![of(Scope::Run, allowance, spent)]
    }

    const NOTHING: Spent = Spent { tokens: 0, cost: 0, calls: 0, wall_ms: 0, bytes: 0 };

    #[test]
    fn r23_a_request_is_sent_only_if_it_fits_and_a_twentieth_is_kept_back() {
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
    fn r23_used_reserved_and_free_are_the_limit_and_a_request_stops_that_needs_more_than_is_free() {
        let allowance = Allowance { tokens: Some(7_000), ..Allowance::default() };
        let charged = Charged { spent: Spent { tokens: 408, ..NOTHING }, reserved: Spent { tokens: 500, ..NOTHING } };
        let budget = ScopeBudget { scope: Scope::Run, allowance, reserve: Reserve::default(), charged };
        let limit = |needs| budget.limit(Resource::Tokens, &Spent { tokens: needs, ..NOTHING }).expect("it is limited");
        // A twentieth, 350, is for the final report.
        assert_eq!((limit(0).used, limit(0).reserved, limit(0).free(), limit(0).limit), (408, 850, 5_742, 7_000));
        assert_eq!((limit(5_742).is_reached(), limit(5_743).is_reached()), (false, true));
        assert_eq!(budget.limit(Resource::Cost, &NOTHING), None);
        // More may be used than is allowed: by a part of one request.
        let over = of(Scope::Run, allowance, Spent { tokens: 7_100, ..NOTHING });
        assert_eq!(
            over.limit(Resource::Tokens, &NOTHING).map(|limit| (limit.free(), limit.is_reached())),
            Some((0, true))
        );
    }

    #[test]
    fn r23_recovery_may_use_the_reserve_and_no_limit_without_one() {
        let allowance = Allowance { tokens: Some(1_000), wall_ms: Some(10), ..Allowance::default() };
        let next = Spent { tokens: 100, ..NOTHING };
        for (tokens, wall_ms, may) in [(850, 0, true), (900, 9, true), (901, 0, false), (900, 10, false)] {
            let limits = of_run(allowance, Spent { tokens, wall_ms, ..NOTHING });
            assert_eq!(may_recover(&limits, &next), may, "{tokens} {wall_ms}");
        }
        let reserve = |of| allowance.reserved(of, &Reserve::default());
        assert_eq!([reserve(Resource::Tokens), reserve(Resource::Wall), reserve(Resource::Cost)], [50, 0, 0]);
    }

    #[test]
    fn r23_limits_of_calls_time_and_bytes_have_no_part_that_is_kept_back() {
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
            assert!(can_close(&of_run(allowance, spent), &NOTHING), "the final report takes neither");
        }
    }

    #[test]
    fn r23_the_reserve_of_a_scope_is_a_setting() {
        let reserve = Reserve { tokens: 20, cost: 0, calls: 50, wall: 10 };
        let amounts =
            Allowance { tokens: Some(999), cost: Some(999), calls: Some(3), wall_ms: Some(1_000), bytes: Some(9) };
        let of = |of| amounts.reserved(of, &reserve);
        let resources = [Resource::Tokens, Resource::Cost, Resource::Calls, Resource::Wall, Resource::Bytes];
        assert_eq!(resources.map(of), [199, 0, 1, 100, 0], "rounded down");
        assert_eq!(
            Allowance { tokens: Some(u64::MAX - 1), ..amounts }.reserved(Resource::Tokens, &reserve),
            (u64::MAX - 1) / 5
        );
        let default = |of| amounts.reserved(of, &Reserve::default());
        assert_eq!(resources.map(default), [49, 49, 0, 0, 0]);
        // Nothing but recovery may use it, of calls and time as well.
        let is_free = |spent| {
            let budget = ScopeBudget { reserve, ..of_scope(amounts, spent) };
            standing(&[budget], &NOTHING, 0) == Standing::Free
        };
        let used = |calls, wall_ms| Spent { calls, wall_ms, ..NOTHING };
        assert_eq!([used(1, 899), used(2, 0), used(0, 900)].map(is_free), [true, false, false]);
        let budget = ScopeBudget { reserve, ..of_scope(amounts, used(2, 950)) };
        assert!(may_recover(&[budget], &NOTHING));
        assert_eq!(budget.limit(Resource::Calls, &NOTHING).map(|limit| (limit.reserved, limit.free())), Some((1, 0)));
        // The share does not count what nobody uses.
        assert_eq!(budget.limit(Resource::Wall, &NOTHING).map(|limit| limit.percent()), Some(95));
    }

    fn of_scope(allowance: Allowance, spent: Spent) -> ScopeBudget {
        of(Scope::Run, allowance, spent)
    }

    #[test]
    fn r23_of_several_limits_the_one_with_the_largest_used_share_decides() {
        let limits = vec![
            of(Scope::Run, Allowance { tokens: Some(100), ..Allowance::default() }, Spent { tokens: 85, ..NOTHING }),
            of(Scope::Session, Allowance { cost: Some(100), ..Allowance::default() }, Spent { cost: 92, ..NOTHING }),
        ];
        let Standing::Near(near) = standing(&limits, &NOTHING, 80) else { panic!("it is near") };
        assert_eq!((near.scope, near.of, near.percent()), (Scope::Session, Resource::Cost, 92));
        assert_eq!(standing(&limits, &NOTHING, 0), Standing::Free, "0 = off");
        assert_eq!(standing(&limits, &NOTHING, 93), Standing::Free);
    }

    #[test]
    fn r23_a_limit_that_was_set_replaces_the_configured_one_and_may_lift_it() {
        let configured = Allowance { tokens: Some(5), calls: Some(7), ..Allowance::default() };
        let set = Allowance { tokens: Some(NO_LIMIT), cost: Some(3), ..Allowance::default() };
        let both = set.or(configured);
        assert_eq!(
            Resource::ALL.iter().map(|of| both.of(*of)).collect::<Vec<_>>(),
            [None, Some(3), Some(7), None, None, None]
        );
        assert!(!both.is_unlimited() && Allowance::default().is_unlimited());
    }
}
