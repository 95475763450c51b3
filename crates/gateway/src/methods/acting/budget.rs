//! `budget.set`: sets the limits of a session, its run, an agent, a day or the home.

use std::sync::Arc;

use engine::{Allowance, Command, Resource, Scope, SharedScope};
use protocol::method::{BudgetSetParams, BudgetStory};
use views::SessionKey;
use views::budget::{budget, shared};

use crate::connection::Caller;
use crate::error::Error;

/// What a limit is set for.
enum Of {
    Session(Scope),
    Shared(SharedScope),
}

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
    let of = match (params.run, params.agent, params.day, params.home) {
        (false, false, false, false) => Of::Session(Scope::Session),
        (true, false, false, false) => Of::Session(Scope::Run),
        (false, true, false, false) => Of::Shared(SharedScope::Agent(key.agent.clone())),
        (false, false, true, false) => Of::Shared(SharedScope::Day),
        (false, false, false, true) => Of::Shared(SharedScope::Home),
        _ => return Err(Error::invalid("a budget has one scope", "give one of `run`, `agent`, `day` and `home`")),
    };
    let scope = match of {
        Of::Session(scope) => scope,
        Of::Shared(of) => {
            if change.bytes.is_some() {
                let hint = "limit bytes for a run or a session; `retention.journal_mb` limits the whole journal";
                return Err(Error::invalid("bytes cannot be limited for an agent, a day or the home", hint));
            }
            service.runtime.allow(of, change).await?;
            return Ok(shared(service.home(), &**service.runtime.journal(), &key)?);
        }
    };
    let row = super::session(service, &key.to_string())?;
    super::ask(service, &row, Command::Budget { scope, change }).await?;
    Ok(budget(service.home(), &**service.runtime.journal(), Some(&row.key))?)
}
