//! `sessions.compact` and `sessions.uncompact`: compact a history on request, or restore the items that the last
//! summary replaced.

use std::sync::Arc;

use engine::{Acknowledgement, BodyKind, Command, Content, Event, MessageId, Outcome, Session, SessionRow};
use journal::Journal;
use protocol::method::{CompactParams, Compacted, CompactionResult, Ended, UncompactParams, Uncompacted};
use uuid::Uuid;
use views::SessionKey;
use views::context;

use super::end::{ended, observed, reading};
use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

pub(in crate::methods) async fn compact(caller: &Arc<Caller>, params: CompactParams) -> Result<Compacted, Error> {
    let service = &caller.service;
    // A session that does not exist is not created only to be summarised.
    let row = super::session(service, &SessionKey::parse(params.session_key.as_deref())?.to_string())?;
    let message = MessageId(Uuid::now_v7());
    // The wait begins before the request, because the compaction may be done before the response arrives.
    let waiting = service.hub.wait_for(message.into());
    let focus = Content::text(BodyKind::Message, params.focus.as_deref().unwrap_or_default().trim());
    let queue = service.runtime.resolver().queue(&row.agent);
    match super::ask(service, &row, Command::Compact { message, focus, queue }).await? {
        Acknowledgement::Done => {
            let row = super::session(service, &row.key)?;
            let only_compacts = only_compacts(service, &row).await;
            match row.run.filter(|_| only_compacts) {
                // An earlier request, whose owner may be gone: its run is this compaction.
                Some(run) => done(service, row, ended(caller, run, &mut None).await?).await,
                None => Ok(Compacted { session_key: row.key, run_id: row.run, done: None }),
            }
        }
        Acknowledgement::Receipt(_) => done(service, row, observed(caller, waiting, &mut None).await?).await,
    }
}

/// Whether the run of this session is active, and does nothing but compact the history.
async fn only_compacts(service: &Service, row: &SessionRow) -> bool {
    let session = super::state_of(service, row.clone()).await.ok().filter(Session::is_active);
    session.as_ref().and_then(Session::run).is_some_and(|run| run.counts.candidates.compaction.alone)
}

/// The result of a run that only compacted.
async fn done(service: &Service, row: SessionRow, ended: Ended) -> Result<Compacted, Error> {
    if ended.outcome != Outcome::Completed {
        let why = ended.error.unwrap_or_else(|| ended.outcome.name().to_owned());
        return Err(Error::State {
            what: format!("the history of {} was not compacted: {why}", row.key),
            hint: "nothing was changed; try again, or with another model (`compaction.model`)".to_owned(),
        });
    }
    let run = ended.run_id;
    let entries = reading(service, move |journal| {
        let known = journal.run(run)?;
        Ok(known.map(|run| journal.read(run.branch, run.first_seq)).transpose()?.unwrap_or_default())
    });
    let entries = entries.await?;
    let done = entries.iter().find_map(|entry| match &entry.event {
        Event::Compacted(e) if e.compaction.run == ended.run_id => {
            Some(CompactionResult { before: e.before, after: e.after, by: e.by.clone() })
        }
        _ => None,
    });
    Ok(Compacted { session_key: row.key, run_id: Some(ended.run_id), done })
}

pub(in crate::methods) async fn uncompact(caller: &Arc<Caller>, params: UncompactParams) -> Result<Uncompacted, Error> {
    let service = &caller.service;
    let row = super::session(service, &SessionKey::parse(params.session_key.as_deref())?.to_string())?;
    let of = row.clone();
    let dropped = reading(service, move |journal| dropped(journal, &of)).await?;
    let items = dropped.items.len();
    let command = Command::Uncompact { compaction: dropped.compaction, restored: dropped.items };
    super::ask(service, &row, command).await?;
    let tokens = super::state_of(service, row.clone()).await?.conversation.transcript.tokens();
    Ok(Uncompacted { session_key: row.key, items, tokens })
}

/// The items that the last compaction replaced, if all of them are still there.
fn dropped(journal: &dyn Journal, row: &SessionRow) -> Result<context::Dropped, Error> {
    let line = journal.history(row.branch)?;
    let dropped = context::dropped(&line)?.ok_or_else(|| Error::State {
        what: format!("{} has no compaction that can be undone", row.key),
        hint: format!("`limulus sessions context {}` shows what the model sees", row.key),
    })?;
    let hashes: Vec<_> = dropped.items.iter().flat_map(|at| at.item.bodies()).map(|body| body.hash).collect();
    if journal.bodies(&hashes)?.iter().any(Option::is_none) {
        return Err(Error::State {
            what: "the items that the last summary replaced were erased (`retention.keep_days`)".to_owned(),
            hint: format!("`limulus sessions context {} --dropped` shows what is left", row.key),
        });
    }
    Ok(dropped)
}
