//! Converts `[budget]` into the budget of the engine, which enforces it.

use std::path::Path;

use engine::{Allowance, Reserve, Reserves, SharedBudget};

use super::declared::{
    AgentBudget, AgentReserve, Budget, DayBudget, DayReserve, HomeBudget, HomeReserve, RunBudget, RunReserve,
    SessionBudget, SessionReserve,
};
use super::review::Remark;

impl Budget {
    /// The budget of a run, in the units of the engine.
    pub(super) fn resolved(self) -> engine::Budget {
        let Self { at_limit, wrap_up_percent, run, session, agent, day, home, .. } = self;
        engine::Budget {
            run: run.allowance(),
            session: session.allowance(),
            agent: agent.allowance(),
            day: day.allowance(),
            home: home.allowance(),
            reserves: Reserves {
                run: run.reserve.resolved(),
                session: session.reserve.resolved(),
                agent: agent.reserve.resolved(),
                day: day.reserve.resolved(),
                home: home.reserve.resolved(),
            },
            memory: self.memory(),
            at_limit,
            wrap_up: wrap_up_percent.or_zero(),
        }
    }

    /// The limit of the process's memory, bytes.
    pub(super) fn memory(self) -> Option<u64> {
        self.process.memory_mb.get().map(|most| most << 20)
    }

    /// Warns about a memory limit on a system that does not report the memory of a process.
    pub(super) fn unmeasurable(self) -> Option<Remark> {
        let is_known = Path::new("/proc/self/status").exists();
        self.memory().filter(|_| !is_known).map(|_| Remark {
            what: "`budget.process.memory_mb` limits nothing: this system does not report the memory of a process"
                .to_owned(),
            hint: "leave it out, and limit `lanes.main` instead".to_owned(),
        })
    }

    /// The maximum number of runs of one agent that execute at once.
    pub(super) fn runs_of_agent(self) -> Option<usize> {
        self.agent.concurrent_runs.get()
    }

    /// The maximum number of agents that execute runs at once.
    pub(super) fn agents_at_once(self) -> Option<usize> {
        self.home.concurrent_agents.get()
    }

    /// The budgets that all sessions share.
    pub(super) fn shared(self) -> SharedBudget {
        SharedBudget::from(&self.resolved())
    }
}

/// Converts the limits of a scope into those of the engine. A limit that the scope lacks is none.
macro_rules! allowance {
    ($($scope:ty: [$($field:ident),*] $bytes:expr;)+) => {
        $(impl $scope {
            fn allowance(self) -> Allowance {
                let Self { tokens, cost, calls, wall_s, $($field,)* .. } = self;
                let cost = cost.get().map(|dollars| (dollars * 1e6).round() as u64);
                let wall_ms = wall_s.get().map(|seconds| seconds * 1_000);
                Allowance { tokens: tokens.get(), cost, calls: calls.get(), wall_ms, bytes: $bytes }
            }
        })+
    };
}

allowance! {
    RunBudget: [bytes] bytes.get();
    SessionBudget: [bytes] bytes.get();
    AgentBudget: [] None;
    DayBudget: [] None;
    HomeBudget: [] None;
}

/// Converts the reserve of a scope into that of the engine.
macro_rules! reserve {
    ($($scope:ty),+) => {
        $(impl $scope {
            fn resolved(self) -> Reserve {
                let Self { tokens, cost, calls, wall } = self;
                Reserve { tokens, cost, calls, wall }
            }
        })+
    };
}

reserve!(RunReserve, SessionReserve, AgentReserve, DayReserve, HomeReserve);
