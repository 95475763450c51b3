//! What a session and its run have spent, what is reserved for them, and their limits.

use std::path::Path;

use engine::tables::budget::{Standing, standing};
use engine::{
    Budget, Charged, Hash, Limit, Phase, Resource, Scope, ScopeBudget, Session, Settings, Spent, Timestamp, WaitFor,
};
use journal::Read;
use protocol::method::{BudgetLine, BudgetStory};

use super::{Source, fold_branch, lookup, owner};
use crate::error::Error;
use crate::session_key::SessionKey;

/// The budget of the session of this key, as of its last entry.
pub(crate) fn budget(home: &Path, read: &dyn Read, key: Option<&str>) -> Result<BudgetStory, Error> {
    let row = lookup::session(read, key)?;
    let session = fold_branch(read, &row)?;
    let last = lookup::last(read, &row)?.and_then(|found| found.row);
    let settings = last.map(|row| settings(read, row.settings)).transpose()?.flatten();
    let lines = lines_of(home, read, &session, settings.as_ref())?;
    let waits = awaits(&session);
    Ok(BudgetStory { session_key: row.key, run_id: session.run().map(|run| run.id), waits, lines })
}

/// The limits of an unfinished run, and those of its session, its agent, its day and the process.
pub(super) fn limited(source: &Source<'_>, session: &Session) -> Result<Vec<BudgetLine>, Error> {
    let settings = session.run().map(|run| settings(source.read, run.settings)).transpose()?.flatten();
    let lines = lines_of(source.home, source.read, session, settings.as_ref())?;
    Ok(lines.into_iter().filter(|line| line.limit.is_some()).collect())
}

/// The limit that leaves too little for the next request of a run, if the run waits for it.
pub(crate) fn awaited(read: &dyn Read, session: &Session) -> Result<Option<Limit>, Error> {
    let Some(run) = session.run().filter(|_| awaits(session)) else { return Ok(None) };
    let Some(settings) = settings(read, run.settings)? else { return Ok(None) };
    let needs = session.needs(&settings).unwrap_or_default();
    let budgets = budgets(read, session, &settings.budget)?;
    Ok(match standing(&budgets, &needs, 0) {
        Standing::Reached(limit) => Some(limit),
        Standing::Free | Standing::Near(_) => None,
    })
}

fn awaits(session: &Session) -> bool {
    session.run().is_some_and(|run| matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. }))
}

fn settings(read: &dyn Read, hash: Hash) -> Result<Option<Settings>, Error> {
    Ok(read.body(&hash)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()))
}

/// Every resource of every scope.
fn lines_of(
    home: &Path,
    read: &dyn Read,
    session: &Session,
    settings: Option<&Settings>,
) -> Result<Vec<BudgetLine>, Error> {
    let configured = settings.map(|settings| settings.budget.clone()).unwrap_or_default();
    let needs = settings.filter(|_| awaits(session)).and_then(|settings| session.needs(settings)).unwrap_or_default();
    let budgets = budgets(read, session, &configured)?;
    let lines = budgets.iter().flat_map(|budget| lines(budget, &needs));
    Ok(lines.chain(process_line(home, &configured)).collect())
}

/// The budgets of a session and its run; those of its agent and its day only if they are limited.
fn budgets(read: &dyn Read, session: &Session, configured: &Budget) -> Result<Vec<ScopeBudget>, Error> {
    let own = session.budgets(configured, session.last_activity);
    Ok(own.into_iter().chain(shared_budgets(read, &session.agent, configured)?).collect())
}

/// The daily limits of the agent of this key and of the home.
pub(crate) fn shared(home: &Path, read: &dyn Read, key: &SessionKey) -> Result<BudgetStory, Error> {
    match budget(home, read, Some(&key.to_string())) {
        // The limits of the home need no session.
        Err(Error::NotFound { .. }) => {
            let budgets = shared_budgets(read, &key.agent, &Budget::default())?;
            let lines = budgets.iter().flat_map(|budget| lines(budget, &Spent::default())).collect();
            Ok(BudgetStory { session_key: key.to_string(), run_id: None, waits: false, lines })
        }
        story => story,
    }
}

/// The daily limits of an agent and of the home, if there are any: those that were set, else those that are configured.
fn shared_budgets(read: &dyn Read, agent: &str, configured: &Budget) -> Result<Vec<ScopeBudget>, Error> {
    // The owner, too, uses a damaged ledger up to the damage.
    let (ledger, _) = runtime::readable_ledger(read);
    let of_agent = ledger.allowance(Some(agent)).or(configured.agent);
    let of_day = ledger.allowance(None).or(configured.day);
    if of_agent.is_unlimited() && of_day.is_unlimited() {
        return Ok(vec![]);
    }
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let mut pool = runtime::budget_pool(read, now)?;
    // A row does not say which part of its amounts is reserved; the state of the run does.
    for row in read.sessions()?.into_iter().filter(|row| row.run.is_some()) {
        let Ok(session) = fold_branch(read, &row) else { continue };
        if let Some(run) = session.run() {
            let Charged { spent, reserved } = run.charged(session.last_activity);
            pool.saw(run.id, &session.agent, spent, true, now);
            pool.sent(run.id, &session.agent, reserved);
        }
    }
    let budgets = pool.budgets(agent, (of_agent, of_day)).into_iter();
    Ok(budgets.filter(|budget| !budget.allowance.is_unlimited()).collect())
}

/// The memory of the owner of the home, if it is limited.
fn process_line(home: &Path, configured: &Budget) -> Option<BudgetLine> {
    let limit = configured.memory?;
    let used = owner(home)?.resident_bytes?;
    Some(Limit { scope: Scope::Process, of: Resource::Memory, used, reserved: 0, limit, needs: 0 }.into())
}

/// Every resource of a scope, where the next request needs this much.
fn lines(budget: &ScopeBudget, needs: &Spent) -> Vec<BudgetLine> {
    let ScopeBudget { scope, charged, .. } = *budget;
    let line = |of: &Resource| {
        let unlimited = BudgetLine {
            scope,
            of: *of,
            used: charged.spent.of(*of),
            reserved: charged.reserved.of(*of),
            free: None,
            limit: None,
            needs: None,
        };
        budget.limit(*of, needs).map_or(unlimited, Into::into)
    };
    // Bytes are limited for a run or a session only.
    let shown = |of: &&Resource| match of {
        Resource::Memory => false,
        Resource::Bytes => matches!(scope, Scope::Run | Scope::Session),
        Resource::Tokens | Resource::Cost | Resource::Calls | Resource::Wall => true,
    };
    Resource::ALL.iter().filter(shown).map(line).collect()
}
