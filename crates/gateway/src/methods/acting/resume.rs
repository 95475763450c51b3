//! `sessions.resume`: resumes unfinished runs, or repairs a session that needs a human.

use std::sync::Arc;

use engine::Command;
use engine::tables::lifecycle::LifecycleKind;
use protocol::method::{ResumeParams, Resumed};
use views::SessionKey;

use crate::connection::Caller;
use crate::error::Error;
use crate::service::unfinished;

pub(in crate::methods) async fn resume(caller: &Arc<Caller>, params: ResumeParams) -> Result<Resumed, Error> {
    let service = &caller.service;
    let rows = match &params.session_key {
        Some(key) => vec![super::session(service, &SessionKey::parse(Some(key))?.to_string())?],
        None if params.force => {
            return Err(Error::invalid("only one session can be repaired at a time", "name it with `sessionKey`"));
        }
        None => unfinished(&**service.runtime.journal())?,
    };
    let mut session_keys = vec![];
    for row in rows {
        if params.force && row.lifecycle == LifecycleKind::Error {
            super::ask(service, &row, Command::Recover { force: true }).await?;
        } else if row.unfinished {
            service.runtime.open(&row.key, &row.agent, vec![]).await?;
        } else {
            continue;
        }
        session_keys.push(row.key);
    }
    Ok(Resumed { session_keys })
}
