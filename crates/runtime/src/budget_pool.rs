//! Drives the budget pool of the home. The pool is built from the rows of runs on the first request, then updated with
//! every commit, and asked again whenever something changes. The engine's budget pool decides what is enough.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::tables::transitions::RunState;
use engine::{
    Batch, BudgetPool, BudgetRequest, Charged, Grant, Limit, Phase, RunId, Session, SessionId, SharedBudget, Timestamp,
};
use journal::Read;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::runtime::Shared;

/// What was spent, according to the rows of the home.
pub fn budget_pool(journal: &dyn Read, now: Timestamp) -> Result<BudgetPool, journal::Error> {
    let agents: HashMap<SessionId, String> =
        journal.sessions()?.into_iter().map(|row| (row.session, row.agent)).collect();
    let rows = journal.runs(None)?;
    Ok(BudgetPool::of(rows.iter().map(|row| (row, agents.get(&row.session).cloned().unwrap_or_default())), now))
}

/// The budget pool of a home; built on the first request.
#[derive(Default)]
pub(crate) struct BudgetHandle {
    budget_pool: Mutex<Option<BudgetPool>>,
    is_open: AtomicBool,
    changed: Notify,
}

impl fmt::Debug for BudgetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetHandle").finish_non_exhaustive()
    }
}

impl BudgetHandle {
    /// Completes when something changes after now.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Announces that more may be spent than before.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    /// Records what a session's committed batch has spent.
    pub(crate) fn saw(&self, session: &Session, batch: &Batch, now: Timestamp) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut inside = self.lock();
        let Some(budget_pool) = inside.as_mut() else { return };
        for row in batch.views.runs.iter().filter(|row| row.outcome.is_some()) {
            budget_pool.saw(row.run, &session.account.agent, row.spent(), false, now);
        }
        if let Some(run) = session.run() {
            // The reservation for a summary is the grant, until the summary exists.
            let is_compacting = matches!(run.phase, Phase::Compacting(Some(_)));
            let Charged { spent, reserved } = run.charged(now);
            budget_pool.saw(run.id, &session.account.agent, spent, true, now);
            if run.budget.asked.is_none() && !is_compacting {
                budget_pool.sent(run.id, &session.account.agent, reserved);
            }
            if !is_at_work(session.run_state()) {
                budget_pool.rests(run.id);
            }
        }
        drop(inside);
        self.look_again();
    }

    /// Pauses this run in the pool, because no entry says so.
    pub(crate) fn rests(&self, run: RunId) {
        if let Some(budget_pool) = self.lock().as_mut() {
            budget_pool.rests(run);
        }
        self.look_again();
    }

    fn lock(&self) -> MutexGuard<'_, Option<BudgetPool>> {
        self.budget_pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resident bytes of a process, as the kernel counts them (`VmRSS`); `None` if the system has no `/proc`, or no such
/// process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    resident.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// The resident bytes of this process; 0 if unknown.
fn resident() -> u64 {
    resident_bytes(std::process::id()).unwrap_or_default()
}

fn is_at_work(state: RunState) -> bool {
    use RunState::{Awaiting, Compacting, Completed, Error, Idle, Paused, Preparing, Retry, Streaming, ToolExec};
    match state {
        Preparing | Streaming | ToolExec | Compacting => true,
        Idle | Error | Retry | Awaiting | Paused | Completed => false,
    }
}

impl Shared {
    /// Whether the process has reached its memory limit. If so, caches that can be read again are released.
    pub(crate) fn is_tight(&self, agent: &str) -> bool {
        self.resolver.shared_budget(agent).memory.is_some_and(|most| resident() >= most)
    }

    /// Requests permission to continue, under the current limits.
    pub(crate) fn ask_to_continue(&self, request: &BudgetRequest) -> Result<Grant, journal::Error> {
        let is_limited = self.resolver.shared_budget(&request.agent).memory.is_some();
        self.ask_pool(request, if is_limited { resident() } else { 0 })
    }

    /// Requests a grant to spend. A summary is granted whatever memory is in use, because it reduces memory.
    pub(crate) fn ask_to_spend(&self, request: &BudgetRequest) -> Result<Grant, journal::Error> {
        self.ask_pool(request, 0)
    }

    /// The limit of this agent that is exceeded by what is spent and reserved already, as far as the pool knows.
    pub(crate) fn limit_reached(&self, agent: &str) -> Result<Option<Limit>, journal::Error> {
        self.in_pool(agent, |budget_pool, budget, _| budget_pool.reached(agent, &budget))
    }

    fn ask_pool(&self, request: &BudgetRequest, resident: u64) -> Result<Grant, journal::Error> {
        self.in_pool(&request.agent, |budget_pool, budget, now| {
            budget_pool.ask(request, &SharedBudget { resident, ..budget }, now)
        })
    }

    /// Asks the pool, under the limits that an agent shares now.
    fn in_pool<T>(
        &self,
        agent: &str,
        ask: impl FnOnce(&mut BudgetPool, SharedBudget, Timestamp) -> T,
    ) -> Result<T, journal::Error> {
        let now = self.clock.now();
        let budget = self.resolver.shared_budget(agent).with(agent, |of| self.ledger.allowance(of));
        let mut inside = self.budget_pool.lock();
        let budget_pool = match &mut *inside {
            Some(budget_pool) => budget_pool,
            none => {
                // Later commits are observed; earlier ones are in the rows.
                self.budget_pool.is_open.store(true, Ordering::Release);
                none.insert(budget_pool(self.journal.as_ref(), now)?)
            }
        };
        Ok(ask(budget_pool, budget, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r21_the_memory_of_a_process_is_known_if_the_system_reports_it() {
        let before = resident_bytes(std::process::id());
        let allocated = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes(std::process::id());
        if cfg!(target_os = "linux") {
            let grown = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            assert!(grown > Some(48 << 20), "{before:?} {after:?}");
        }
        drop(allocated);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
