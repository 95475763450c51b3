//! `budget.set`: somebody says what a session or its run may spend.

use std::sync::Arc;

use engine::{Allowance, Command, Resource, Scope};
use protocol::method::{BudgetSetParams, BudgetStory};

use crate::connection::Caller;
use crate::error::Error;
use crate::session_key::SessionKey;
use crate::show::budget::{budget, shared};

pub(in crate::methods) async fn set_budget(
    caller: &Arc<Caller>,
    params: BudgetSetParams,
) -> Result<BudgetStory, Error> {
    let service = &caller.service;
    let change = params.change();
    if params.lift.contains(&Resource::Memory) {
        let hint = "it is `budget.process.memory_mb` of the configuration, which is read again when it changes";
        return Err(Error::invalid("what the process may have in memory is not said of a session", hint));
    }
    if change == Allowance::default() {
        let hint = "name tokens, costMicros, calls, wallMs or bytes, or what `lift` lifts";
        return Err(Error::invalid("nothing is said of what may be spent", hint));
    }
    let key = SessionKey::parse(params.session_key.as_deref())?;
    let scope = match (params.run, params.agent, params.day) {
        (false, false, false) => Scope::Session,
        (true, false, false) => Scope::Run,
        (false, true, false) => Scope::Agent,
        (false, false, true) => Scope::Day,
        _ => return Err(Error::invalid("a budget has one scope", "give one of `run`, `agent` and `day`")),
    };
    if let Scope::Agent | Scope::Day = scope {
        if change.bytes.is_some() {
            let hint = "bytes are of a run or a session; all of the journal is bounded by `retention.journal_mb`";
            return Err(Error::invalid("bytes are not limited for an agent or a day", hint));
        }
        let agent = (scope == Scope::Agent).then(|| key.agent.clone());
        service.runtime.allow(agent, change).await?;
        return shared(service.home(), &**service.runtime.journal(), &key);
    }
    let row = super::session(service, &key.to_string())?;
    super::ask(service, &row, Command::Budget { scope, change }).await?;
    budget(service.home(), &**service.runtime.journal(), Some(&row.key))
}
