//! The budget pool: what the runs of an agent and of the home have spent today, and the reservations for requests that
//! are about to be sent. It is not journaled: it is rebuilt from the rows of runs, and a run whose request was granted
//! but not sent when the process died requests again.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::RunRow;
use crate::ids::{RunId, Timestamp};
use crate::tables::budget::{
    Allowance, Budget, Charged, Limit, Reserves, Resource, Scope, ScopeBudget, Spent, Standing, can_close, standing,
};

const DAY_MS: i64 = 86_400_000;

/// What has a limit that several sessions share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedScope {
    /// All runs of this agent in a day.
    Agent(String),
    /// All runs of the home in a day.
    Day,
    /// All runs of the home, whenever they ran.
    Home,
}

/// The limits that an agent shares with others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedBudget {
    /// The limits of all runs of the agent in a day.
    pub agent: Allowance,
    /// The limits of all runs of the home in a day.
    pub day: Allowance,
    /// The limits of all runs of the home.
    pub home: Allowance,
    /// The parts of these limits that are kept for recovery.
    pub reserves: Reserves,
    /// Percent of a limit from which on the model is asked to wrap up; 0 = off.
    pub wrap_up: u32,
    /// Resident bytes of the process above which only one run may continue; `None` = no limit.
    pub memory: Option<u64>,
    /// Resident bytes of the process; 0 = unknown.
    pub resident: u64,
}

impl From<&Budget> for SharedBudget {
    /// As configured.
    fn from(of: &Budget) -> Self {
        let Budget { agent, day, home, reserves, wrap_up, memory, .. } = *of;
        Self { agent, day, home, reserves, wrap_up, memory, resident: 0 }
    }
}

impl SharedBudget {
    /// With the limits that were set in place of the configured ones.
    #[must_use]
    pub fn with(self, agent: &str, set: impl Fn(&SharedScope) -> Allowance) -> Self {
        Self {
            agent: set(&SharedScope::Agent(agent.to_owned())).or(self.agent),
            day: set(&SharedScope::Day).or(self.day),
            home: set(&SharedScope::Home).or(self.home),
            ..self
        }
    }
}

/// A request for a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct BudgetRequest {
    pub run: RunId,
    pub agent: String,
    /// The estimated cost of its request.
    pub expected: Spent,
    /// Whether the request only reports what was done: the part of a limit that is kept back is for this.
    pub closing: bool,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// It may be sent.
    Granted {
        /// A limit that is nearly reached.
        near: Option<Limit>,
    },
    /// It may not be sent yet.
    Denied {
        /// The limit that is reached.
        limit: Limit,
        /// When the next day begins, if the limit is one of a day.
        until: Option<Timestamp>,
    },
}

/// What was spent today, by agent, and ever. A day is a day in UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetPool {
    day: i64,
    spent: BTreeMap<String, Spent>,
    /// What all runs of the home have spent.
    total: Spent,
    /// The part of both that belongs to active runs.
    counted: BTreeMap<RunId, Spent>,
    /// What is reserved, with the agent: for a request that was granted and is not sent yet, or is in flight.
    reserved: BTreeMap<RunId, (String, Spent)>,
    /// The run that was granted something last and is still active.
    at_work: BTreeSet<RunId>,
}

impl BudgetPool {
    /// Rebuilds the pool from these runs, each with its agent: all of them. A run that began on an earlier day and has not
    /// ended before today counts for today in full.
    pub fn of<'a>(rows: impl IntoIterator<Item = (&'a RunRow, String)>, now: Timestamp) -> Self {
        let mut budget_pool = Self { day: day(now), ..Self::default() };
        for (row, agent) in rows {
            if row.ended_at.is_none_or(|ended| day(ended) == budget_pool.day) {
                // This includes an ended run, because it may be reported once more.
                budget_pool.saw(row.run, &agent, row.spent(), true, now);
            } else {
                budget_pool.total.add(&row.spent());
            }
        }
        budget_pool
    }

    /// Records what a run has spent so far, without what is reserved for its request in flight.
    pub fn saw(&mut self, run: RunId, agent: &str, spent: Spent, is_under_way: bool, now: Timestamp) {
        self.turn(now);
        let before = self.counted.remove(&run).unwrap_or_default();
        let of_agent = self.spent.entry(agent.to_owned()).or_default();
        *of_agent = of_agent.and(&spent).less(&before);
        self.total = self.total.and(&spent).less(&before);
        if is_under_way {
            self.counted.insert(run, spent);
        } else {
            self.reserved.remove(&run);
            self.rests(run);
        }
    }

    /// This run waits, is paused, or has ended.
    pub fn rests(&mut self, run: RunId) {
        self.at_work.remove(&run);
    }

    /// The grant of this run was used by a request, for which this is reserved now, or is no longer needed.
    pub fn sent(&mut self, run: RunId, agent: &str, reserved: Spent) {
        if reserved == Spent::default() {
            self.reserved.remove(&run);
        } else {
            self.reserved.insert(run, (agent.to_owned(), reserved));
        }
    }

    /// Whether this request may be sent. If so, its estimated cost is reserved.
    pub fn ask(&mut self, request: &BudgetRequest, budget: &SharedBudget, now: Timestamp) -> Grant {
        self.turn(now);
        self.reserved.remove(&request.run);
        self.rests(request.run);
        if let Some(limit) = self.memory_reached(request, budget) {
            return Grant::Denied { limit, until: None };
        }
        let limits = self.budgets(&request.agent, budget);
        let near = match standing(&limits, &request.expected, budget.wrap_up) {
            Standing::Reached(limit) if !request.closing || !can_close(&limits, &request.expected) => {
                let next_day = Timestamp((self.day + 1) * DAY_MS);
                return Grant::Denied { limit, until: Some(next_day).filter(|_| limit.scope != Scope::Home) };
            }
            Standing::Near(limit) => Some(limit),
            Standing::Free | Standing::Reached(_) => None,
        };
        let before = self.reserved.insert(request.run, (request.agent.clone(), request.expected));
        debug_assert!(before.is_none(), "a run holds one grant");
        self.at_work.insert(request.run);
        Grant::Granted { near }
    }

    /// The limit of this agent that is exceeded without anything more.
    pub fn reached(&self, agent: &str, budget: &SharedBudget) -> Option<Limit> {
        match standing(&self.budgets(agent, budget), &Spent::default(), 0) {
            Standing::Reached(limit) => Some(limit),
            Standing::Free | Standing::Near(_) => None,
        }
    }

    /// When the process has reached its memory limit, one run continues at a time; the memory of the others is freed as
    /// they end.
    fn memory_reached(&self, request: &BudgetRequest, budget: &SharedBudget) -> Option<Limit> {
        let (used, limit) = (budget.resident, budget.memory?);
        let reached =
            Limit { scope: Scope::Process, of: Resource::Memory, used, reserved: 0, kept: None, limit, needs: 0 };
        (used >= limit && !request.closing && !self.at_work.is_empty()).then_some(reached)
    }

    /// The budgets of an agent today, and of the whole home today and ever, with these limits.
    pub fn budgets(&self, agent: &str, of: &SharedBudget) -> [ScopeBudget; 3] {
        let by_agent = self.charged_by(|of| of == agent);
        let by_all = self.charged_by(|_| true);
        let by_home = Charged { spent: self.total, ..by_all };
        let SharedBudget { agent, day, home, reserves, .. } = *of;
        [
            ScopeBudget { scope: Scope::Agent, allowance: agent, reserve: reserves.agent, charged: by_agent },
            ScopeBudget { scope: Scope::Day, allowance: day, reserve: reserves.day, charged: by_all },
            ScopeBudget { scope: Scope::Home, allowance: home, reserve: reserves.home, charged: by_home },
        ]
    }

    /// What these agents have spent today, and what is reserved for them.
    fn charged_by(&self, is_one: impl Fn(&str) -> bool) -> Charged {
        let sum = |all: &mut dyn Iterator<Item = (&String, &Spent)>| {
            let of_them = all.filter(|(of, _)| is_one(of));
            of_them.fold(Spent::default(), |sum, (_, spent)| sum.and(spent))
        };
        Charged {
            spent: sum(&mut self.spent.iter()),
            reserved: sum(&mut self.reserved.values().map(|(of, reserved)| (of, reserved))),
        }
    }

    /// Starts another day: nothing is spent, and what is reserved stays.
    fn turn(&mut self, now: Timestamp) {
        if day(now) > self.day {
            (self.day, self.spent) = (day(now), BTreeMap::new());
        }
    }
}

fn day(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::tables::budget::Resource;

    const NOON: Timestamp = Timestamp(DAY_MS * 20_000 + DAY_MS / 2);

    fn run(n: u128) -> RunId {
        RunId(Uuid::from_u128(n))
    }

    fn tokens(tokens: u64) -> Spent {
        Spent { tokens, ..Spent::default() }
    }

    fn request(n: u128, agent: &str, expected: u64) -> BudgetRequest {
        BudgetRequest { run: run(n), agent: agent.to_owned(), expected: tokens(expected), closing: false }
    }

    fn budget(agent: u64, day: u64) -> SharedBudget {
        let of = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
        SharedBudget { agent: of(agent), day: of(day), wrap_up: 80, ..SharedBudget::default() }
    }

    /// What main and the whole home have spent, and what is reserved for them.
    fn charged(budget_pool: &BudgetPool) -> (Charged, Charged) {
        let [agent, day, _] = budget_pool.budgets("main", &SharedBudget::default());
        (agent.charged, day.charged)
    }

    fn is_granted(leave: Grant) -> bool {
        matches!(leave, Grant::Granted { .. })
    }

    #[test]
    fn r23_what_is_granted_counts_until_it_is_sent_and_what_was_spent_counts_once() {
        let (mut budget_pool, budget) = (BudgetPool::default(), budget(1_000, 1_000));
        assert!((1..=9).all(|n| is_granted(budget_pool.ask(&request(n, "main", 100), &budget, NOON))));
        // A twentieth is kept back.
        assert!(!is_granted(budget_pool.ask(&request(10, "main", 100), &budget, NOON)));
        assert!(is_granted(budget_pool.ask(
            &BudgetRequest { closing: true, ..request(10, "main", 100) },
            &budget,
            NOON
        )));
        // The first one has sent its request, which used less than its reservation.
        budget_pool.sent(run(1), "main", tokens(90));
        assert_eq!(charged(&budget_pool).0, Charged { spent: tokens(0), reserved: tokens(990) });
        budget_pool.saw(run(1), "main", tokens(30), true, NOON);
        budget_pool.sent(run(1), "main", tokens(0));
        assert_eq!(charged(&budget_pool).0, Charged { spent: tokens(30), reserved: tokens(900) });
        // A repeated request is not granted twice, and an ended run leaves what it has spent.
        assert!(is_granted(budget_pool.ask(&request(2, "main", 20), &budget, NOON)));
        budget_pool.saw(run(2), "main", tokens(5), false, NOON);
        let sum = Charged { spent: tokens(35), reserved: tokens(800) };
        assert_eq!(charged(&budget_pool), (sum, sum));
    }

    #[test]
    fn r23_an_agent_has_its_own_limit_and_all_have_that_of_the_day() {
        let (mut budget_pool, budget) = (BudgetPool::default(), budget(1_000, 1_500));
        budget_pool.saw(run(1), "a", tokens(900), true, NOON);
        let Grant::Denied { limit, until } = budget_pool.ask(&request(2, "a", 100), &budget, NOON) else {
            panic!("it is too much")
        };
        assert_eq!((limit.scope, limit.used, until), (Scope::Agent, 900, Some(Timestamp(DAY_MS * 20_001))));
        let Grant::Granted { near: Some(near) } =
            budget_pool.ask(&request(3, "b", 500), &SharedBudget { wrap_up: 60, ..budget }, NOON)
        else {
            panic!("it is near")
        };
        assert_eq!((near.scope, near.percent()), (Scope::Day, 60));
        let Grant::Denied { limit, .. } = budget_pool.ask(&request(4, "c", 100), &budget, NOON) else {
            panic!("it is too much")
        };
        // 500 are granted to b, and a twentieth is kept back.
        assert_eq!((limit.scope, limit.used, limit.reserved, limit.free()), (Scope::Day, 900, 575, 25));
    }

    #[test]
    fn r23_calls_and_time_of_an_agent_and_of_a_day_are_limited_as_well() {
        let calls = Allowance { calls: Some(10), ..Allowance::default() };
        let wall = Allowance { wall_ms: Some(60_000), ..Allowance::default() };
        let budget = SharedBudget { agent: calls, day: wall, ..SharedBudget::default() };
        let mut budget_pool = BudgetPool::default();
        budget_pool.saw(run(1), "a", Spent { calls: 9, wall_ms: 40_000, ..Spent::default() }, true, NOON);
        assert!(is_granted(budget_pool.ask(&request(2, "a", 100), &budget, NOON)));
        budget_pool.saw(run(2), "a", Spent { calls: 1, wall_ms: 10_000, ..Spent::default() }, false, NOON);
        let Grant::Denied { limit, .. } = budget_pool.ask(&request(3, "a", 100), &budget, NOON) else {
            panic!("no call is left")
        };
        assert_eq!((limit.scope, limit.of, limit.used), (Scope::Agent, Resource::Calls, 10));
        assert!(is_granted(budget_pool.ask(&request(4, "b", 100), &budget, NOON)));
        budget_pool.saw(run(1), "a", Spent { calls: 9, wall_ms: 50_000, ..Spent::default() }, true, NOON);
        let Grant::Denied { limit, .. } = budget_pool.ask(&request(4, "b", 100), &budget, NOON) else {
            panic!("no time is left")
        };
        assert_eq!((limit.scope, limit.of, limit.used), (Scope::Day, Resource::Wall, 60_000));
        // The part that is kept back for the final report allows neither.
        assert!(is_granted(budget_pool.ask(&BudgetRequest { closing: true, ..request(4, "b", 100) }, &budget, NOON)));
    }

    #[test]
    fn r21_at_the_memory_limit_one_run_continues_at_a_time() {
        let tight = SharedBudget { memory: Some(500), resident: 500, ..SharedBudget::default() };
        let (mut budget_pool, ample) = (BudgetPool::default(), SharedBudget { resident: 499, ..tight });
        let ask = |budget_pool: &mut BudgetPool, run, budget| budget_pool.ask(&request(run, "a", 1), &budget, NOON);
        assert!(
            is_granted(ask(&mut budget_pool, 1, ample)) && is_granted(ask(&mut budget_pool, 2, ample)),
            "there is enough"
        );
        let (scope, of) = (Scope::Process, Resource::Memory);
        let limit = Limit { scope, of, used: 500, reserved: 0, kept: None, limit: 500, needs: 0 };
        assert_eq!(ask(&mut budget_pool, 1, tight), Grant::Denied { limit, until: None });
        assert!(is_granted(ask(&mut budget_pool, 2, tight)), "nobody else is at work");
        assert_eq!(ask(&mut budget_pool, 1, tight), Grant::Denied { limit, until: None });
        assert_eq!(ask(&mut budget_pool, 3, tight), Grant::Denied { limit, until: None });
        let closing = BudgetRequest { closing: true, ..request(4, "a", 1) };
        assert!(is_granted(budget_pool.ask(&closing, &tight, NOON)), "it ends");
        budget_pool.saw(run(4), "a", Spent::default(), false, NOON);
        budget_pool.rests(run(2));
        assert!(is_granted(ask(&mut budget_pool, 1, tight)), "the one at work waits for something else");
        budget_pool.saw(run(1), "a", Spent::default(), false, NOON);
        assert!(is_granted(ask(&mut budget_pool, 3, tight)), "it has ended");
        assert!(is_granted(ask(&mut budget_pool, 2, ample)), "there is enough again");
    }

    #[test]
    fn r23_another_day_starts_at_zero_and_an_unfinished_run_counts_from_there() {
        let (mut budget_pool, budget) = (BudgetPool::default(), budget(1_000, 1_000));
        budget_pool.saw(run(1), "main", tokens(950), true, NOON);
        assert!(!is_granted(budget_pool.ask(&request(1, "main", 100), &budget, NOON)));
        let morning = Timestamp(DAY_MS * 20_001);
        assert!(is_granted(budget_pool.ask(&request(1, "main", 100), &budget, morning)));
        budget_pool.saw(run(1), "main", tokens(1_050), true, morning);
        budget_pool.sent(run(1), "main", tokens(0));
        assert_eq!(charged(&budget_pool).0.all(), tokens(100));
    }

    #[test]
    fn r23_the_home_counts_every_run_and_no_day_renews_its_limit() {
        let of = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
        let budget = SharedBudget { home: of(1_000), ..SharedBudget::default() };
        let mut budget_pool = BudgetPool::of([], NOON);
        budget_pool.saw(run(1), "a", tokens(500), false, NOON);
        let morning = Timestamp(DAY_MS * 20_001);
        budget_pool.saw(run(2), "b", tokens(300), true, morning);
        budget_pool.saw(run(2), "b", tokens(350), true, morning);
        assert!(is_granted(budget_pool.ask(&request(3, "c", 100), &budget, morning)), "of 1,000, 50 are for recovery");
        let Grant::Denied { limit, until } = budget_pool.ask(&request(4, "c", 1), &budget, morning) else {
            panic!("all of it is used or reserved")
        };
        assert_eq!((limit.scope, limit.used, limit.reserved, until), (Scope::Home, 850, 150, None));
        let Grant::Denied { limit, .. } = budget_pool.ask(&request(4, "c", 1), &budget, Timestamp(DAY_MS * 20_002))
        else {
            panic!("another day changes nothing")
        };
        assert_eq!(limit.used, 850);
        let none = SharedBudget {
            reserves: Reserves {
                home: crate::tables::budget::Reserve { tokens: 0, ..Default::default() },
                ..Reserves::default()
            },
            ..budget
        };
        assert!(is_granted(budget_pool.ask(&request(4, "c", 50), &none, morning)), "nothing is kept for recovery");
    }
}
