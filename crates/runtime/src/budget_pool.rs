//! The budget pool of the home, driven: made from the rows of runs when somebody first asks, told of what is spent from then on,
//! asked again whenever that changes. What may not live here: what is enough, which the engine's budget pool says.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::tables::transitions::RunState;
use engine::{Batch, BudgetPool, BudgetRequest, Grant, Phase, RunId, Session, SessionId, SharedBudget, Timestamp};
use journal::Read;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::runtime::Shared;

/// What was spent today, as the rows of a home say.
pub fn budget_pool(journal: &dyn Read, now: Timestamp) -> Result<BudgetPool, journal::Error> {
    let agents: HashMap<SessionId, String> =
        journal.sessions()?.into_iter().map(|row| (row.session, row.agent)).collect();
    let rows = journal.runs(None)?;
    Ok(BudgetPool::of(rows.iter().map(|row| (row, agents.get(&row.session).cloned().unwrap_or_default())), now))
}

/// The budget pool of a home; nobody needs it until somebody asks.
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
    /// Comes when something has changed since now.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// More may be spent than before.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    /// Takes note of what was recorded of a session.
    pub(crate) fn saw(&self, session: &Session, batch: &Batch, now: Timestamp) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut inside = self.lock();
        let Some(budget_pool) = inside.as_mut() else { return };
        for row in batch.views.runs.iter().filter(|row| row.outcome.is_some()) {
            budget_pool.saw(row.run, &session.agent, row.spent(), false, now);
        }
        if let Some(run) = session.run() {
            // What is set aside for a summary is what it was granted, until it is there.
            let is_compacting = matches!(run.phase, Phase::Compacting(Some(_)));
            budget_pool.saw(run.id, &session.agent, run.spent_by(now).less(&run.summary_out()), true, now);
            if run.asked.is_none() && !is_compacting {
                budget_pool.sent(run.id);
            }
            if !is_at_work(session.run_state()) {
                budget_pool.rests(run.id);
            }
        }
        drop(inside);
        self.look_again();
    }

    /// This run stands still, and no entry says so.
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

/// Resident bytes of a process, as the kernel counts them (`VmRSS`); none where the system has no `/proc`, or no such process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    resident.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// What this process has in memory; 0 where that is not known.
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
    /// Whether the process has as much in memory as it may. Then what can be read again is let go.
    pub(crate) fn is_tight(&self, agent: &str) -> bool {
        self.resolver.shared_budget(agent).memory.is_some_and(|most| resident() >= most)
    }

    /// Asks for leave to go on, by what is configured and was said until now.
    pub(crate) fn ask_to_go_on(&self, request: &BudgetRequest) -> Result<Grant, journal::Error> {
        let is_limited = self.resolver.shared_budget(&request.agent).memory.is_some();
        self.ask_purse(request, if is_limited { resident() } else { 0 })
    }

    /// Asks for leave to spend; a summary is wanted whatever is in memory, for it makes that less.
    pub(crate) fn ask_to_spend(&self, request: &BudgetRequest) -> Result<Grant, journal::Error> {
        self.ask_purse(request, 0)
    }

    fn ask_purse(&self, request: &BudgetRequest, resident: u64) -> Result<Grant, journal::Error> {
        let now = self.clock.now();
        let configured = self.resolver.shared_budget(&request.agent);
        let budget = SharedBudget {
            agent: self.ledger.allowance(Some(&request.agent)).or(configured.agent),
            day: self.ledger.allowance(None).or(configured.day),
            resident,
            ..configured
        };
        let mut inside = self.budget_pool.lock();
        let budget_pool = match &mut *inside {
            Some(budget_pool) => budget_pool,
            none => {
                // What is recorded from here on is told; what was is in the rows.
                self.budget_pool.is_open.store(true, Ordering::Release);
                none.insert(budget_pool(self.journal.as_ref(), now)?)
            }
        };
        Ok(budget_pool.ask(request, &budget, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r21_what_a_process_has_in_memory_is_known_where_the_system_says_it() {
        let before = resident_bytes(std::process::id());
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes(std::process::id());
        if cfg!(target_os = "linux") {
            let grown = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            assert!(grown > Some(48 << 20), "{before:?} {after:?}");
        }
        drop(held);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
