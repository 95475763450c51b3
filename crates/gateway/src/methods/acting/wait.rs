//! `agent.wait`: waits for the end of a run. The run continues if the wait ends early. A run that never was is an error
//! at once.

use std::sync::Arc;
use std::time::Duration;

use engine::{ReceiptState, RunId, Timestamp};
use protocol::method::{WaitParams, WaitStatus, Waited};

use super::end::{self, reading};
use crate::connection::{Caller, ReadPermit};
use crate::error::Error;
use crate::events::{End, is_over};

pub(in crate::methods) async fn wait<'a>(
    caller: &'a Arc<Caller>,
    params: WaitParams,
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<Waited, Error> {
    let service = &caller.service;
    let within = Duration::from_millis(params.timeout_ms);
    if let Ok(waited) = tokio::time::timeout(within, until_ended(caller, params.run_id, permit)).await {
        return waited;
    }
    // The journal says whether it has started; what the wait has read meanwhile is gone.
    *permit = None;
    if let Some(row) = service.runtime.journal().run(params.run_id)? {
        *permit = Some(caller.permit_to_read().await);
        return reading(service, move |journal| Ok(views::waited(journal, &row)?)).await;
    }
    let (run_id, status) = (params.run_id, WaitStatus::Timeout);
    let (started_at, ended_at, error, stop_reason, reply) = (None, None, None, None, None);
    Ok(Waited { run_id, status, started_at, ended_at, error, stop_reason, reply })
}

async fn until_ended<'a>(caller: &'a Caller, run: RunId, permit: &mut Option<ReadPermit<'a>>) -> Result<Waited, Error> {
    let service = &caller.service;
    let waiting = service.hub.wait_for(run);
    let journal = service.runtime.journal();
    let row = journal.run(run)?;
    let has_begun = row.is_some();
    if let Some(row) = row.filter(|row| row.outcome.is_some()) {
        *permit = Some(caller.permit_to_read().await);
        return reading(service, move |journal| Ok(views::waited(journal, &row)?)).await;
    }
    // Its message may have been settled before the run began, or another run may take it.
    let receipt = journal.receipt(run.into())?;
    // A run has a receipt before its client knows its id.
    if receipt.is_none() && !has_begun {
        return Err(Error::not_found(format!("there is no run {run}"), "`limulus runs list` shows them"));
    }
    if let Some(receipt) = receipt {
        if is_over(receipt.state) {
            return Ok(never_began(run, receipt.state, receipt.accepted_at));
        }
        if receipt.run != run {
            return Box::pin(until_ended(caller, receipt.run, permit)).await;
        }
    }
    match end::next_end(service, waiting).await? {
        // This may be the run that took the message.
        End::Ran { ended, .. } => match journal.run(ended.run)? {
            Some(row) => {
                *permit = Some(caller.permit_to_read().await);
                reading(service, move |journal| Ok(views::waited(journal, &row)?)).await
            }
            None => Err(Error::Bug { what: format!("run {} has ended and has no row", ended.run) }),
        },
        End::NeverBegan { state, at } => Ok(never_began(run, state, at)),
    }
}

/// The answer for a run that will never start.
fn never_began(run: RunId, state: ReceiptState, at: Timestamp) -> Waited {
    let (status, error) = (WaitStatus::Error, end::never_began(run, state, at).error);
    Waited { run_id: run, status, started_at: None, ended_at: Some(at), error, stop_reason: None, reply: None }
}
