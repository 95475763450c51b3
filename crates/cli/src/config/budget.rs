//! `[budget]`: what may be spent. What may not live here: what happens at a limit, which is the engine's.

use std::path::Path;

use engine::{Allowance, SharedBudget};

use super::declared::{AgentBudget, Budget, DayBudget, RunBudget, SessionBudget};
use super::review::Remark;

impl Budget {
    /// As the engine has it.
    pub(super) fn resolved(self) -> engine::Budget {
        let Self { at_limit, wrap_up_percent: wrap_up, run, session, agent, day, .. } = self;
        let memory = self.memory();
        let (run, session) = (run.allowance(), session.allowance());
        let (agent, day, wrap_up) = (agent.allowance(), day.allowance(), wrap_up.or_zero());
        engine::Budget { run, session, agent, day, memory, at_limit, wrap_up }
    }

    /// Resident bytes of the process.
    pub(super) fn memory(self) -> Option<u64> {
        self.process.memory_mb.get().map(|most| most << 20)
    }

    /// What is doubtful in it.
    pub(super) fn without_measure(self) -> Option<Remark> {
        let is_known = Path::new("/proc/self/status").exists();
        self.memory().filter(|_| !is_known).map(|_| Remark {
            what: "`budget.process.memory_mb` limits nothing: this system does not say what a process has in memory"
                .to_owned(),
            hint: "leave it out, and limit `lanes.main` instead".to_owned(),
        })
    }

    /// How many runs of one agent go on at once.
    pub(super) fn runs_of_agent(self) -> Option<usize> {
        self.agent.concurrent_runs.get()
    }

    /// What sessions share of it.
    pub(super) fn shared(self) -> SharedBudget {
        let Self { wrap_up_percent: wrap_up, agent, day, .. } = self;
        let (memory, wrap_up) = (self.memory(), wrap_up.or_zero());
        SharedBudget { agent: agent.allowance(), day: day.allowance(), wrap_up, memory, resident: 0 }
    }
}

/// The limits of a scope as the engine has them; one that the scope does not have is none.
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
}
