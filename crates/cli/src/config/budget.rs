//! `[budget]`: what may be spent. What may not live here: what happens at a limit, which is the engine's.

use engine::{Allowance, AtLimit};
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

impl Budget {
    /// As the engine has it.
    pub(super) fn resolved(self) -> engine::Budget {
        let Self { at_limit, wrap_up_percent: wrap_up, run, session } = self;
        engine::Budget { run: run.allowance(), session: session.allowance(), at_limit, wrap_up }
    }
}

impl Amounts {
    fn allowance(self) -> Allowance {
        let Self { tokens, cost, calls, wall_s } = self;
        let cost = cost.map(|dollars| (dollars * 1e6).round() as u64);
        Allowance { tokens, cost, calls, wall_ms: wall_s.map(|seconds| seconds * 1_000) }
    }
}
