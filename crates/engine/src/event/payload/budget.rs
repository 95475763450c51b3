//! Budgets: their limits, and requests to the budget pool.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::budget_pool::SharedScope;
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
    /// New limits that sessions share replace the configured ones.
    AllowanceSet {
        /// The scope, if it is not a day: `home`, all runs of the home.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
        /// The agent whose day it is; none = the home's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// All limits that were set for it, including this one.
        allowance: Allowance,
    }
}

impl AllowanceSet {
    /// New limits of this scope.
    pub fn new(of: SharedScope, allowance: Allowance) -> Self {
        match of {
            SharedScope::Agent(agent) => Self { scope: None, agent: Some(agent), allowance },
            SharedScope::Day => Self { scope: None, agent: None, allowance },
            SharedScope::Home => Self { scope: Some(Scope::Home), agent: None, allowance },
        }
    }

    /// What they limit.
    pub fn of(&self) -> SharedScope {
        match (self.scope, &self.agent) {
            (Some(Scope::Home), _) => SharedScope::Home,
            (_, Some(agent)) => SharedScope::Agent(agent.clone()),
            (_, None) => SharedScope::Day,
        }
    }
}
