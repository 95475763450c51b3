//! How a run ended: notified when it ends, or read from the journal afterwards.

use std::sync::Arc;

use engine::{Batch, Body, Outcome, ReceiptState, RunEnded, RunId, RunRow, Timestamp, Usage};
use journal::Journal;
use protocol::method::{AgentAnswer, Ended};
use protocol::show::Reply;

use crate::connection::{Caller, ReadPermit};
use crate::error::Error;
use crate::events::{End, Waiting};
use crate::service::Service;

/// Waits until this run has ended.
pub(super) async fn ended<'a>(
    caller: &'a Caller,
    run: RunId,
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<Ended, Error> {
    let service = &caller.service;
    let waiting = service.hub.wait_for(run);
    // The order matters: an end that is recorded after this read is notified.
    if let Some(row) = service.runtime.journal().run(run)?.filter(|row| row.outcome.is_some()) {
        *permit = Some(caller.permit_to_read().await);
        return reading(service, move |journal| of_row(journal, &row)).await;
    }
    observed(caller, waiting, permit).await
}

/// The end of a run that had not ended when the wait for it began.
pub(super) async fn observed<'a>(
    caller: &'a Caller,
    waiting: Waiting<'_>,
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<Ended, Error> {
    let (service, run) = (&caller.service, waiting.run());
    match next_end(service, waiting).await? {
        End::Ran { batches, at, ended } => {
            // The usual turn has just passed by: nothing has to be read.
            if let Some(ended) = batches.and_then(|batches| of_batches(&batches, &ended, at)) {
                return Ok(ended);
            }
            *permit = Some(caller.permit_to_read().await);
            reading(service, move |journal| of_event(journal, &ended, at)).await
        }
        End::NeverBegan { state, at } => Ok(never_began(run, state, at)),
    }
}

/// Waits for the end, as long as this process owns the home.
pub(super) async fn next_end(service: &Service, waiting: Waiting<'_>) -> Result<End, Error> {
    let mut broken = service.runtime.broken();
    let mut leaving = service.leaving();
    tokio::select! {
        biased;
        end = waiting.end() => end.ok_or_else(|| runtime::Error::Leaving.into()),
        Ok(error) = broken.wait_for(Option::is_some) => Err(error.clone().expect("waited for").into()),
        Ok(_) = leaving.wait_for(|leaving| *leaving) => Err(runtime::Error::Leaving.into()),
    }
}

/// Reads the journal on a thread that may block, because a run may have many entries.
pub(crate) async fn reading<T: Send + 'static>(
    service: &Service,
    read: impl FnOnce(&dyn Journal) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let journal = service.journal_to_read();
    // What was read comes back with the journal, so that a shutdown waits for the answer that is made of it.
    let reading = tokio::task::spawn_blocking(move || (read(journal.get()), journal));
    match reading.await {
        Ok((read, _journal)) => read,
        Err(error) => Err(Error::Bug { what: format!("reading a run failed: {error}") }),
    }
}

/// The second response of `agent`.
pub(super) fn response(ended: Ended) -> AgentAnswer {
    match ended.outcome {
        Outcome::Completed => AgentAnswer::Ok(ended),
        Outcome::TimedOut | Outcome::Stalled => AgentAnswer::Timeout(ended),
        Outcome::Failed | Outcome::Aborted | Outcome::Interrupted => AgentAnswer::Error(ended),
    }
}

/// The response for a message that no run will answer.
pub(super) fn never_began(run: RunId, state: ReceiptState, at: Timestamp) -> Ended {
    let error = views::never_began(state);
    let (outcome, text, usage) = (Outcome::Aborted, String::new(), Usage::default());
    let (stop_reason, reply) = (None, None);
    Ended { run_id: run, outcome, started_at: at, ended_at: at, text, usage, error, stop_reason, reply }
}

fn of_event(journal: &dyn Journal, ended: &RunEnded, at: Timestamp) -> Result<Ended, Error> {
    let row = journal.run(ended.run)?;
    let started_at = row.as_ref().map_or(at, |row| row.started_at);
    // What it answered is known; a damaged entry costs no more than the reply.
    let reply = row.and_then(|row| views::reply(journal, &row, &views::texts(journal)).ok().flatten());
    let mut text = String::new();
    for body in &ended.text {
        text.push_str(&String::from_utf8_lossy(&journal.body(&body.hash)?.unwrap_or_default()));
    }
    Ok(shape(ended, (started_at, at), text, reply))
}

/// The end of a run from all its batches; `None` if they do not have all of it.
fn of_batches(batches: &[Arc<Batch>], ended: &RunEnded, at: Timestamp) -> Option<Ended> {
    let row = batches.last()?.views.runs.iter().rfind(|row| row.run == ended.run)?;
    let texts = |body: &Body| {
        let mut bodies = batches.iter().flat_map(|batch| &batch.bodies);
        let content = bodies.find(|content| content.body.hash == body.hash);
        let content =
            content.ok_or_else(|| views::Error::Bug { what: format!("the run has no body {}", body.hash) })?;
        Ok(String::from_utf8_lossy(&content.bytes).into_owned())
    };
    let reply = views::reply::reply_of(batches, row, &texts).ok()?;
    let text = ended.text.iter().map(texts).collect::<Result<String, views::Error>>().ok()?;
    Some(shape(ended, (row.started_at, at), text, reply))
}

fn shape(
    ended: &RunEnded,
    (started_at, ended_at): (Timestamp, Timestamp),
    text: String,
    reply: Option<Reply>,
) -> Ended {
    let reply = reply.map(|reply| reply.beside(&text));
    let error = ended.failure.as_ref().map(ToString::to_string);
    let (run_id, outcome, usage) = (ended.run, ended.outcome, ended.usage);
    let stop_reason = ended.stop_reason;
    Ended { run_id, outcome, started_at, ended_at, text, usage, error, stop_reason, reply }
}

/// A run that ended earlier. Its text is in the entry of its end.
fn of_row(journal: &dyn Journal, row: &RunRow) -> Result<Ended, Error> {
    let entries = views::reply::entries(journal, row)?;
    let Some((at, ended)) = views::reply::end_of(&entries, row.run) else {
        let run = row.run;
        return Err(Error::State {
            what: format!("run {run} answered the message with this key, and its answer was removed"),
            hint: format!("`limulus runs show {run}` shows what is left of it; use another key to ask again"),
        });
    };
    of_event(journal, ended, at)
}
