//! `agent.wait`: waits for the end of a run. The run continues if the wait ends early. A run that never was is an error
//! at once.

use std::sync::Arc;
use std::time::Duration;

use engine::{Outcome, ReceiptState, RunId, RunRow, Timestamp};
use protocol::method::{WaitParams, WaitStatus, Waited};

use crate::connection::Caller;
use crate::error::Error;
use crate::events::{End, is_over};
use crate::service::Service;

pub(in crate::methods) async fn wait(caller: &Arc<Caller>, params: WaitParams) -> Result<Waited, Error> {
    let service = &caller.service;
    let within = Duration::from_millis(params.timeout_ms);
    match tokio::time::timeout(within, until_ended(service, params.run_id)).await {
        Ok(waited) => waited,
        // The journal says whether it has started.
        Err(_) => Ok(match service.runtime.journal().run(params.run_id)? {
            Some(row) if row.outcome.is_some() => of_row(row),
            row => Waited {
                run_id: params.run_id,
                status: WaitStatus::Timeout,
                started_at: row.map(|row| row.started_at),
                ended_at: None,
                error: None,
                stop_reason: None,
            },
        }),
    }
}

async fn until_ended(service: &Service, run: RunId) -> Result<Waited, Error> {
    let waiting = service.hub.wait_for(run);
    let journal = service.runtime.journal();
    let row = journal.run(run)?;
    let has_begun = row.is_some();
    if let Some(row) = row.filter(|row| row.outcome.is_some()) {
        return Ok(of_row(row));
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
            return Box::pin(until_ended(service, receipt.run)).await;
        }
    }
    let mut broken = service.runtime.broken();
    let mut leaving = service.leaving();
    tokio::select! {
        biased;
        end = waiting.end() => match end {
            // This may be the run that took the message.
            Some(End::Ran { ended, .. }) => match journal.run(ended.run)? {
                Some(row) => Ok(of_row(row)),
                None => Err(Error::Bug { what: format!("run {} has ended and has no row", ended.run) }),
            },
            Some(End::NeverBegan { state, at }) => Ok(never_began(run, state, at)),
            None => Err(runtime::Error::Leaving.into()),
        },
        Ok(error) = broken.wait_for(Option::is_some) => Err(error.clone().expect("waited for").into()),
        Ok(_) = leaving.wait_for(|leaving| *leaving) => Err(runtime::Error::Leaving.into()),
    }
}

/// The answer for a run that will never start.
fn never_began(run: RunId, state: ReceiptState, at: Timestamp) -> Waited {
    let error = super::end::never_began(run, state, at).error;
    let status = WaitStatus::Error;
    Waited { run_id: run, status, started_at: None, ended_at: Some(at), error, stop_reason: None }
}

fn of_row(row: RunRow) -> Waited {
    let status = match row.outcome {
        Some(Outcome::Completed) => WaitStatus::Ok,
        Some(Outcome::TimedOut) | None => WaitStatus::Timeout,
        Some(Outcome::Failed | Outcome::Aborted | Outcome::Interrupted) => WaitStatus::Error,
    };
    let RunRow { run, started_at, ended_at, error, stop_reason, .. } = row;
    Waited { run_id: run, status, started_at: Some(started_at), ended_at, error, stop_reason }
}
