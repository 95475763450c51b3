//! What a session and its run have spent, and their limits.

use std::path::Path;

use engine::{Allowance, Budget, Phase, Resource, Scope, Settings, Spent, Timestamp, WaitFor};
use journal::Read;
use protocol::method::{BudgetLine, BudgetStory};

use super::{fold_branch, lookup, owner};
use crate::error::Error;
use crate::session_key::SessionKey;

/// The budget of the session of this key, as of its last entry.
pub(crate) fn budget(home: &Path, read: &dyn Read, key: Option<&str>) -> Result<BudgetStory, Error> {
    let row = lookup::session(read, key)?;
    let session = fold_branch(read, &row)?;
    let last = lookup::last(read, &row)?.and_then(|found| found.row);
    let settings = match &last {
        Some(row) => read.body(&row.settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()),
        None => None,
    };
    let configured = settings.map(|settings| settings.budget).unwrap_or_default();
    let run = session.run();
    let of_run = run.map(|run| run.spent_by(session.last_activity)).unwrap_or_default();
    let of_session = session.spent.and(&of_run);
    let run_lines =
        run.map(|run| lines(Scope::Run, run.budget.allowance.or(configured.run), &of_run)).unwrap_or_default();
    let session_lines = lines(Scope::Session, session.allowance.or(configured.session), &of_session);
    let shared_lines = shared_lines(read, &row.agent, &configured)?;
    let lines = run_lines.into_iter().chain(session_lines).chain(shared_lines);
    let lines = lines.chain(process_line(home, &configured)).collect();
    let waits = run.is_some_and(|run| matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. }));
    Ok(BudgetStory { session_key: row.key, run_id: run.map(|run| run.id), waits, lines })
}

/// The daily limits of the agent of this key and of the home.
pub(crate) fn shared(home: &Path, read: &dyn Read, key: &SessionKey) -> Result<BudgetStory, Error> {
    match budget(home, read, Some(&key.to_string())) {
        // The limits of the home need no session.
        Err(Error::NotFound { .. }) => {
            let lines = shared_lines(read, &key.agent, &Budget::default())?;
            Ok(BudgetStory { session_key: key.to_string(), run_id: None, waits: false, lines })
        }
        story => story,
    }
}

/// The daily limits of an agent and of the home, if there are any: those that were set, else those that are configured.
fn shared_lines(read: &dyn Read, agent: &str, configured: &Budget) -> Result<Vec<BudgetLine>, Error> {
    // The owner, too, uses a damaged ledger up to the damage.
    let (ledger, _) = runtime::readable_ledger(read);
    let of_agent = ledger.allowance(Some(agent)).or(configured.agent);
    let of_day = ledger.allowance(None).or(configured.day);
    if of_agent.is_unlimited() && of_day.is_unlimited() {
        return Ok(vec![]);
    }
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let (by_agent, by_all) = runtime::budget_pool(read, now)?.spent_by(agent);
    let limited = [(Scope::Agent, of_agent, by_agent), (Scope::Day, of_day, by_all)].into_iter();
    let limited = limited.filter(|(_, allowance, _)| !allowance.is_unlimited());
    let lines = limited.flat_map(|(scope, allowance, spent)| lines(scope, allowance, &spent));
    Ok(lines.filter(|line| line.of != Resource::Bytes).collect())
}

/// The memory of the owner of the home, if it is limited.
fn process_line(home: &Path, configured: &Budget) -> Option<BudgetLine> {
    let limit = configured.memory?;
    let used = owner(home)?.resident_bytes?;
    Some(BudgetLine { scope: Scope::Process, of: Resource::Memory, used, limit: Some(limit) })
}

fn lines(scope: Scope, allowance: Allowance, spent: &Spent) -> Vec<BudgetLine> {
    let line = |of: &Resource| BudgetLine { scope, of: *of, used: spent.of(*of), limit: allowance.of(*of) };
    Resource::ALL.iter().filter(|of| **of != Resource::Memory).map(line).collect()
}
