//! What counts against the budgets of a session and its run, and what its next request needs. The machine decides by
//! it, and everything that shows a budget shows it.

use super::run::Run;
use super::session::Session;
use crate::ids::Timestamp;
use crate::settings::Settings;
use crate::tables::budget::{Budget, Charged, Scope, ScopeBudget, Spent};

impl Run {
    /// What is reserved for the request, the summary and the title in flight.
    pub fn reserved(&self) -> Spent {
        let of_request = self.sent().and_then(|sent| sent.reserved).unwrap_or_default();
        of_request.and(&self.summary_out()).and(&self.title_out())
    }

    /// What it has spent at this time, including its running time, and what is reserved for its request in flight.
    pub fn charged(&self, at: Timestamp) -> Charged {
        let reserved = self.reserved();
        Charged { spent: self.spent_by(at).less(&reserved), reserved }
    }
}

impl Session {
    /// The budget of its unfinished run, if there is one, and its own.
    pub fn budgets(&self, configured: &Budget, at: Timestamp) -> Vec<ScopeBudget> {
        let of_run = self.run().map(|run| {
            let allowance = run.budget.allowance.or(configured.run);
            let reserve = configured.reserves.run;
            ScopeBudget { scope: Scope::Run, allowance, reserve, charged: run.charged(at) }
        });
        let before = Charged { spent: self.account.spent, reserved: Spent::default() };
        let charged = of_run.map_or(before, |of_run| before.and(&of_run.charged));
        let allowance = self.account.allowance.or(configured.session);
        let reserve = configured.reserves.session;
        of_run.into_iter().chain([ScopeBudget { scope: Scope::Session, allowance, reserve, charged }]).collect()
    }

    /// What the next request of its run needs, its answer included. `settings` are those of the run.
    pub fn needs(&self, settings: &Settings) -> Option<Spent> {
        let run = self.run()?;
        if let Some(asked) = run.budget.asked {
            return Some(asked.expected);
        }
        let at = run.counts.candidates.candidate;
        let candidate = settings.candidate(at)?;
        Some(Spent::expected(candidate, self.request_tokens(settings, at)))
    }
}
