//! What a session and its run have spent, what is reserved for them, and their limits.

use std::cell::OnceCell;
use std::path::Path;

use engine::tables::budget::{Standing, standing};
use engine::{
    Allowance, Budget, BudgetPool, Charged, Hash, Ledger, Limit, Phase, Resource, Scope, ScopeBudget, Session,
    Settings, SharedBudget, Spent, Timestamp, WaitFor,
};
use journal::Read;
use protocol::method::{BudgetLine, BudgetStory};

use super::{Source, fold_branch, lookup, owner};
use crate::SessionKey;
use crate::error::Error;

/// The budget of the session of this key, as of its last entry.
pub fn budget(home: &Path, read: &dyn Read, key: Option<&str>) -> Result<BudgetStory, Error> {
    let row = lookup::session(read, key)?;
    let session = fold_branch(read, &row)?;
    let last = lookup::last(read, &row)?.and_then(|found| found.row);
    let settings = last.map(|row| settings(read, row.settings)).transpose()?.flatten();
    let lines = lines_of((home, read, &SharedPool::default()), &session, settings.as_ref())?;
    let waits = awaits(&session);
    Ok(BudgetStory { session_key: row.key, run_id: session.run().map(|run| run.id), waits, lines })
}

/// The limits of an unfinished run, and those of its session, its agent, its day, the home and the process.
pub(super) fn limited(source: &Source<'_>, session: &Session) -> Result<Vec<BudgetLine>, Error> {
    let settings = session.run().map(|run| settings(source.read, run.settings)).transpose()?.flatten();
    let lines = lines_of((source.home, source.read, &SharedPool::default()), session, settings.as_ref())?;
    Ok(lines.into_iter().filter(|line| line.limit.is_some()).collect())
}

/// The limit that leaves too little for the next request of a run, if the run waits for it.
pub fn awaited(read: &dyn Read, pool: &SharedPool, session: &Session) -> Result<Option<Limit>, Error> {
    let Some(run) = session.run().filter(|_| awaits(session)) else { return Ok(None) };
    let Some(settings) = settings(read, run.settings)? else { return Ok(None) };
    let needs = session.needs(&settings).unwrap_or_default();
    let budgets = budgets((read, pool), session, &settings.budget)?;
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
    (home, read, pool): (&Path, &dyn Read, &SharedPool),
    session: &Session,
    settings: Option<&Settings>,
) -> Result<Vec<BudgetLine>, Error> {
    let configured = settings.map(|settings| settings.budget.clone()).unwrap_or_default();
    let needs = settings.filter(|_| awaits(session)).and_then(|settings| session.needs(settings)).unwrap_or_default();
    let budgets = budgets((read, pool), session, &configured)?;
    let lines = budgets.iter().flat_map(|budget| lines(budget, &needs));
    Ok(lines.chain(process_line(home, &configured)).collect())
}

/// The budgets of a session and its run; those of its agent, its day and the home only if they are limited.
fn budgets(
    (read, pool): (&dyn Read, &SharedPool),
    session: &Session,
    configured: &Budget,
) -> Result<Vec<ScopeBudget>, Error> {
    let own = session.budgets(configured, session.account.last_activity);
    Ok(own.into_iter().chain(pool.budgets(read, &session.account.agent, configured)?).collect())
}

/// The limits of the agent of this key, of a day and of the home.
pub fn shared(home: &Path, read: &dyn Read, key: &SessionKey) -> Result<BudgetStory, Error> {
    match budget(home, read, Some(&key.to_string())) {
        // The limits of the home need no session.
        Err(Error::NotFound { .. }) => {
            let budgets = SharedPool::default().budgets(read, &key.agent, &Budget::default())?;
            let lines = budgets.iter().flat_map(|budget| lines(budget, &Spent::default())).collect();
            Ok(BudgetStory { session_key: key.to_string(), run_id: None, waits: false, lines })
        }
        story => story,
    }
}

/// What the sessions of a home share, for one command: it costs a look at the whole home, so it is read once, and only if
/// there is a limit.
#[derive(Default)]
pub struct SharedPool {
    ledger: OnceCell<Ledger>,
    pool: OnceCell<BudgetPool>,
}

impl SharedPool {
    /// The budgets of an agent, of its day and of the home, as far as they have limits: those that were set, else those
    /// that are configured.
    fn budgets(&self, read: &dyn Read, agent: &str, configured: &Budget) -> Result<Vec<ScopeBudget>, Error> {
        // The owner, too, uses a damaged ledger up to the damage.
        let ledger = self.ledger.get_or_init(|| runtime::readable_ledger(read).0);
        let limits = SharedBudget::from(configured).with(agent, |of| ledger.allowance(of));
        if [limits.agent, limits.day, limits.home].iter().all(Allowance::is_unlimited) {
            return Ok(vec![]);
        }
        let pool = if let Some(known) = self.pool.get() {
            known
        } else {
            let read = pool(read)?;
            self.pool.get_or_init(|| read)
        };
        let budgets = pool.budgets(agent, &limits).into_iter();
        Ok(budgets.filter(|budget| !budget.allowance.is_unlimited()).collect())
    }
}

/// What all runs have spent, and what is reserved for their requests.
fn pool(read: &dyn Read) -> Result<BudgetPool, Error> {
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let mut pool = runtime::budget_pool(read, now)?;
    // A row does not say which part of its amounts is reserved; the state of the run does.
    for row in read.sessions()?.into_iter().filter(|row| row.run.is_some()) {
        let Ok(session) = fold_branch(read, &row) else { continue };
        if let Some(run) = session.run() {
            let Charged { spent, reserved } = run.charged(session.account.last_activity);
            pool.saw(run.id, &session.account.agent, spent, true, now);
            pool.sent(run.id, &session.account.agent, reserved);
        }
    }
    Ok(pool)
}

/// The memory of the owner of the home, if it is limited.
fn process_line(home: &Path, configured: &Budget) -> Option<BudgetLine> {
    let limit = configured.memory?;
    let used = owner(home)?.resident_bytes?;
    Some(Limit { scope: Scope::Process, of: Resource::Memory, used, reserved: 0, kept: None, limit, needs: 0 }.into())
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
            kept: 0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[test]
    fn r23_the_budgets_that_sessions_share_are_read_once_for_a_command() {
        let home = Budget { home: Allowance { tokens: Some(1_000), ..Allowance::default() }, ..Budget::default() };
        let used = |pool: &SharedPool, scene: &Scene| {
            let budgets = pool.budgets(&scene.journal, "main", &home).unwrap();
            assert_eq!(budgets.iter().map(|budget| budget.scope).collect::<Vec<_>>(), [Scope::Home]);
            budgets[0].charged.spent.tokens
        };
        let mut scene = Scene::new();
        let pool = SharedPool::default();
        assert_eq!(used(&pool, &scene), 0);
        scene.start("hello");
        scene.stream("Hi.");
        scene.end_stream();
        assert_eq!(used(&pool, &scene), 0, "the next question of the same command does not read the home again");
        assert!(used(&SharedPool::default(), &scene) > 0);
        let unlimited = SharedPool::default();
        assert_eq!(unlimited.budgets(&scene.journal, "main", &Budget::default()).unwrap(), []);
        assert!(unlimited.pool.get().is_none(), "nothing is read if nothing is limited");
    }
}
