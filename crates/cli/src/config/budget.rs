//! `[budget]`: what may be spent. What may not live here: what happens at a limit, which is the engine's.

use std::path::Path;

use engine::{Allowance, AtLimit, SharedBudget};
use serde::Deserialize;

use super::review::Remark;

/// As it stands in the file.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    at_limit: AtLimit,
    wrap_up_percent: u32,
    #[serde(default)]
    run: Amounts,
    #[serde(default)]
    session: Amounts,
    #[serde(default)]
    agent: Amounts,
    #[serde(default)]
    day: Amounts,
    #[serde(default)]
    process: Process,
}

/// What the process may have.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    memory_mb: Option<u64>,
}

/// The limits of one scope; what is left out is not limited. Which of them it has is in the table of keys.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amounts {
    /// How many go on at once.
    concurrent_runs: Option<usize>,
    tokens: Option<u64>,
    /// US dollars.
    cost: Option<f64>,
    calls: Option<u64>,
    wall_s: Option<u64>,
    bytes: Option<u64>,
}

impl Budget {
    /// As the engine has it.
    pub(super) fn resolved(self) -> engine::Budget {
        let Self { at_limit, wrap_up_percent: wrap_up, run, session, agent, day, .. } = self;
        let memory = self.memory();
        let [run, session, agent, day] = [run, session, agent, day].map(Amounts::allowance);
        engine::Budget { run, session, agent, day, memory, at_limit, wrap_up }
    }

    /// Resident bytes of the process.
    pub(super) fn memory(self) -> Option<u64> {
        self.process.memory_mb.map(|most| most << 20)
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
        self.agent.concurrent_runs
    }

    /// What sessions share of it.
    pub(super) fn shared(self) -> SharedBudget {
        let Self { wrap_up_percent: wrap_up, agent, day, .. } = self;
        let memory = self.memory();
        SharedBudget { agent: agent.allowance(), day: day.allowance(), wrap_up, memory, resident: 0 }
    }
}

impl Amounts {
    fn allowance(self) -> Allowance {
        let Self { tokens, cost, calls, wall_s, bytes, .. } = self;
        let cost = cost.map(|dollars| (dollars * 1e6).round() as u64);
        Allowance { tokens, cost, calls, wall_ms: wall_s.map(|seconds| seconds * 1_000), bytes }
    }
}
