//! What a session and its run have spent, and what they may spend.

use engine::{Allowance, Phase, Resource, Scope, Settings, Spent, WaitFor};
use journal::Read;
use protocol::method::{BudgetLine, BudgetStory};

use super::{fold_branch, lookup};
use crate::error::Error;

/// Of the session of this key, as it was when something last happened in it.
pub(crate) fn budget(read: &dyn Read, key: Option<&str>) -> Result<BudgetStory, Error> {
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
    let run_lines = run.map(|run| lines(Scope::Run, run.allowance.or(configured.run), &of_run)).unwrap_or_default();
    let session_lines = lines(Scope::Session, session.allowance.or(configured.session), &of_session);
    let lines = run_lines.into_iter().chain(session_lines).collect();
    let waits = run.is_some_and(|run| matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. }));
    Ok(BudgetStory { session_key: row.key, run_id: run.map(|run| run.id), waits, lines })
}

fn lines(scope: Scope, allowance: Allowance, spent: &Spent) -> Vec<BudgetLine> {
    let line = |of: &Resource| BudgetLine { scope, of: *of, used: spent.of(*of), limit: allowance.of(*of) };
    Resource::ALL.iter().map(line).collect()
}
