//! `budget.set`: somebody says what a session or its run may spend.

use std::sync::Arc;

use engine::{Allowance, Command, Scope};
use protocol::method::{BudgetSetParams, BudgetStory};

use crate::connection::Caller;
use crate::error::Error;
use crate::session_key::SessionKey;
use crate::show::budget::budget;

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
    let row = super::session(service, &SessionKey::parse(params.session_key.as_deref())?.to_string())?;
    let scope = if params.run { Scope::Run } else { Scope::Session };
    super::ask(service, &row, Command::Budget { scope, change }).await?;
    budget(&**service.runtime.journal(), Some(&row.key))
}
