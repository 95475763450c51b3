//! `sessions.end`: terminates a session. The response comes when all of its processes have ended.

use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::{CallOutcome, Command, Process, ProcessState, Session, SessionRow, Timestamp};
use protocol::method::{EndParams, SessionEnded};
use views::SessionKey;

use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

pub(in crate::methods) async fn terminate(caller: &Arc<Caller>, params: EndParams) -> Result<SessionEnded, Error> {
    let service = &caller.service;
    // A session that does not exist is not created only to be terminated.
    let row = super::session(service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    super::ask(service, &row, Command::Terminate).await?;
    let session = until_over(service, &row.key).await?;
    let is_left = |state: &ProcessState| matches!(state, ProcessState::Ended { outcome: CallOutcome::Unended, .. });
    let left = session.account.processes.iter().filter(|process| is_left(&process.state)).map(Process::name).collect();
    Ok(SessionEnded { session_key: row.key, left })
}

/// Terminates the sessions in which nothing has happened since this time. Returns the result for each. A session that
/// becomes active meanwhile continues and is not among them.
pub(crate) async fn terminate_idle(
    service: &Service,
    before: Timestamp,
) -> Result<Vec<(String, Result<(), Error>)>, Error> {
    let rests =
        |row: &SessionRow| row.lifecycle == LifecycleKind::Idle && !row.unfinished && row.last_activity < before;
    let mut ended = vec![];
    for row in service.runtime.journal().sessions()?.into_iter().filter(rests) {
        match super::ask(service, &row, Command::TerminateIdle { before }).await {
            Err(Error::Refusal(_)) => {}
            answer => ended.push((row.key, answer.map(drop))),
        }
    }
    Ok(ended)
}

/// Waits until nothing of it runs. What goes out of it may take longer.
async fn until_over(service: &Service, key: &str) -> Result<Session, Error> {
    let (mut observed, mut broken, mut leaving) = (service.hub.observed(), service.runtime.broken(), service.leaving());
    loop {
        // An end that is recorded after this read is notified.
        let row = super::session(service, key)?;
        if row.lifecycle == LifecycleKind::Terminated && row.run.is_none() {
            let session = super::state_of(service, row).await?;
            if !session.account.processes.iter().any(Process::is_ending) {
                return Ok(session);
            }
        }
        tokio::select! {
            Ok(()) = observed.changed() => {}
            Ok(error) = broken.wait_for(Option::is_some) => return Err(error.clone().expect("waited for").into()),
            Ok(_) = leaving.wait_for(|leaving| *leaving) => return Err(runtime::Error::Leaving.into()),
        }
    }
}
