//! `budget.set`: somebody says what a session or its run may spend.

use std::sync::Arc;

use engine::{Allowance, Command, Scope};
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
    if change == Allowance::default() {
        let hint = "name tokens, costMicros, calls or wallMs, or what `lift` lifts";
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
        if change.calls.or(change.wall_ms).is_some() {
            let hint = "give tokens or costMicros; calls and wallMs are of a run or a session";
            return Err(Error::invalid("what sessions spend together is limited in tokens and money", hint));
        }
        let agent = (scope == Scope::Agent).then(|| key.agent.clone());
        service.runtime.allow(agent, change).await?;
        return shared(&**service.runtime.journal(), &key);
    }
    let row = super::session(service, &key.to_string())?;
    super::ask(service, &row, Command::Budget { scope, change }).await?;
    budget(&**service.runtime.journal(), Some(&row.key))
}
