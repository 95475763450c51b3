//! `sessions.delete`: ends the conversation of a session as if it had never been. The session has it erased, whoever owns the
//! home then; the response comes when that is recorded.

use std::sync::Arc;

use engine::{Command, Erased, Event, Seq, SessionRow};
use journal::Journal;
use protocol::method::{DeleteParams, SessionDeleted};
use views::SessionKey;

use super::end::reading;
use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

pub(in crate::methods) async fn delete(caller: &Arc<Caller>, params: DeleteParams) -> Result<SessionDeleted, Error> {
    let service = &caller.service;
    let row = super::session(service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    let branch = row.branch;
    let before = reading(service, move |journal| Ok(journal.last(branch)?)).await?;
    super::ask(service, &row, Command::Delete).await?;
    for grant in service.runtime.grants().iter().filter(|grant| grant.session == Some(row.session)) {
        service.runtime.revoke_grant(grant.id, "the deletion of its conversation".to_owned()).await?;
    }
    match until_erased(service, &row, before).await? {
        Ok(Erased { bodies, bytes, files }) => Ok(SessionDeleted { session_key: row.key, bodies, bytes, files }),
        Err(why) => Err(Error::NotErased { key: row.key, why }),
    }
}

/// Waits for the end of an erasure that is recorded behind this entry.
async fn until_erased(service: &Service, row: &SessionRow, before: Seq) -> Result<Result<Erased, String>, Error> {
    let (mut observed, mut broken, mut leaving) = (service.hub.observed(), service.runtime.broken(), service.leaving());
    let branch = row.branch;
    loop {
        // An end that is recorded after this read is notified.
        let look = move |journal: &dyn Journal| {
            let entries = journal.range(branch, Seq(before.0 + 1), journal.last(branch)?)?;
            Ok(end_of_erasure(entries.iter().map(|entry| &entry.event)))
        };
        if let Some(end) = reading(service, look).await? {
            return Ok(end);
        }
        tokio::select! {
            Ok(()) = observed.changed() => {}
            Ok(error) = broken.wait_for(Option::is_some) => return Err(error.clone().expect("waited for").into()),
            Ok(_) = leaving.wait_for(|leaving| *leaving) => return Err(runtime::Error::Leaving.into()),
        }
    }
}

/// The end of the last erasure; none while it is under way.
fn end_of_erasure<'a>(events: impl Iterator<Item = &'a Event>) -> Option<Result<Erased, String>> {
    let mut end = None;
    for event in events {
        match event {
            Event::SessionLabelled(e) if e.erasure.is_some() => end = None,
            Event::ErasureEnded(e) => {
                let erased = Erased { bodies: e.bodies, bytes: e.bytes, files: e.files };
                end = Some(e.failure.clone().map_or(Ok(erased), Err));
            }
            _ => {}
        }
    }
    end
}
