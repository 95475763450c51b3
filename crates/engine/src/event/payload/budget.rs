//! Budgets: their limits, and requests to the budget pool.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::ids::EffectId;
use crate::tables::budget::{Allowance, Scope, Spent};

payload! {
    /// New limits replace the configured ones.
    BudgetSet {
        /// For the active run, or for all runs of the session.
        scope: Scope,
        /// All limits that were set for that scope, including this one.
        allowance: Allowance,
    }
    /// A grant is requested for a request that counts against shared budgets.
    BudgetAsked {
        /// The effect that requests it.
        reserve: EffectId,
        /// The estimated cost of the request.
        expected: Spent,
        /// Whether the request only reports what was done: the part that is kept back is for this.
        #[serde(default, skip_serializing_if = "is_default")]
        closing: bool,
    }
    /// New daily limits of an agent or of the home replace the configured ones.
    AllowanceSet {
        /// The agent; none = the home.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// All limits that were set for it, including this one.
        allowance: Allowance,
    }
}
