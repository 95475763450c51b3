//! `budget.set`: sets the limits of a session, its run, an agent or a day.

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
        let hint = "it is `budget.process.memory_mb` of the configuration, which is reloaded when it changes";
        return Err(Error::invalid("memory is limited for the process, not for a session", hint));
    }
    if change == Allowance::default() {
        let hint = "name tokens, costMicros, calls, wallMs or bytes, or what `lift` lifts";
        return Err(Error::invalid("no limit was given", hint));
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
            let hint = "limit bytes for a run or a session; `retention.journal_mb` limits the whole journal";
            return Err(Error::invalid("bytes cannot be limited for an agent or a day", hint));
        }
        let agent = (scope == Scope::Agent).then(|| key.agent.clone());
        service.runtime.allow(agent, change).await?;
        return shared(service.home(), &**service.runtime.journal(), &key);
    }
    let row = super::session(service, &key.to_string())?;
    super::ask(service, &row, Command::Budget { scope, change }).await?;
    budget(service.home(), &**service.runtime.journal(), Some(&row.key))
}
