//! Budgets: what may be spent, and what the budget pool is asked for.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::ids::EffectId;
use crate::tables::budget::{Allowance, Scope, Spent};

payload! {
    /// What may be spent is another, in place of what is configured.
    BudgetSet {
        /// By the run that is under way, or by all runs of the session.
        scope: Scope,
        /// What was said so far of that scope, this with it.
        allowance: Allowance,
    }
    /// Leave is asked for a request, of which others spend as well.
    BudgetAsked {
        /// The effect that asks for it.
        reserve: EffectId,
        /// What the request is taken to cost.
        expected: Spent,
        /// Whether it is one that only says what was done: what is kept back is for it.
        #[serde(default, skip_serializing_if = "is_default")]
        closing: bool,
    }
    /// What all runs of an agent, or of the home, may spend in a day is another, in place of what is configured.
    AllowanceSet {
        /// The agent; none = the home.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// What was said so far of it, this with it.
        allowance: Allowance,
    }
}
