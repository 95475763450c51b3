//! `[budget]`: what may be spent. What may not live here: what happens at a limit, which is the engine's.

use engine::{Allowance, AtLimit, SharedBudget};
use serde::Deserialize;

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
    agent: Shared,
    #[serde(default)]
    day: Shared,
}

/// The limits of one scope; what is left out is not limited.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amounts {
    tokens: Option<u64>,
    /// US dollars.
    cost: Option<f64>,
    calls: Option<u64>,
    wall_s: Option<u64>,
}

/// Limits of what sessions spend together.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    tokens: Option<u64>,
    /// US dollars.
    cost: Option<f64>,
}

impl From<Shared> for Amounts {
    fn from(Shared { tokens, cost }: Shared) -> Self {
        Self { tokens, cost, ..Self::default() }
    }
}

impl Budget {
    /// As the engine has it.
    pub(super) fn resolved(self) -> engine::Budget {
        let Self { at_limit, wrap_up_percent: wrap_up, run, session, agent, day } = self;
        let [run, session, agent, day] = [run, session, agent.into(), day.into()].map(Amounts::allowance);
        engine::Budget { run, session, agent, day, at_limit, wrap_up }
    }

    /// What sessions share of it.
    pub(super) fn shared(self) -> SharedBudget {
        let Self { wrap_up_percent: wrap_up, agent, day, .. } = self;
        SharedBudget { agent: Amounts::from(agent).allowance(), day: Amounts::from(day).allowance(), wrap_up }
    }
}

impl Amounts {
    fn allowance(self) -> Allowance {
        let Self { tokens, cost, calls, wall_s } = self;
        let cost = cost.map(|dollars| (dollars * 1e6).round() as u64);
        Allowance { tokens, cost, calls, wall_ms: wall_s.map(|seconds| seconds * 1_000) }
    }
}
