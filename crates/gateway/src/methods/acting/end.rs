//! How a run ended: notified when it ends, or read from the journal afterwards.

use engine::{Batch, Body, Event, Outcome, ReceiptState, RunEnded, RunId, RunRow, Timestamp, Usage};
use journal::Journal;
use protocol::method::{AgentAnswer, Ended};

use crate::error::Error;
use crate::events::{End, Waiting};
use crate::service::Service;
use crate::show;

/// Waits until this run has ended.
pub(super) async fn ended(service: &Service, run: RunId) -> Result<Ended, Error> {
    let waiting = service.hub.wait_for(run);
    let journal = service.runtime.journal();
    // The order matters: an end that is recorded after this read is notified.
    if let Some(row) = journal.run(run)?.filter(|row| row.outcome.is_some()) {
        return of_row(journal.as_ref(), &row);
    }
    observed(service, waiting).await
}

/// The end of a run that had not ended when the wait for it began.
pub(super) async fn observed(service: &Service, waiting: Waiting<'_>) -> Result<Ended, Error> {
    let (run, journal) = (waiting.run(), service.runtime.journal());
    let mut broken = service.runtime.broken();
    let mut leaving = service.leaving();
    tokio::select! {
        biased;
        end = waiting.end() => match end {
            Some(End::Ran { batch, at, ended }) => of_event(journal.as_ref(), Some(&batch), &ended, at),
            Some(End::NeverBegan { state, at }) => Ok(never_began(run, state, at)),
            None => Err(runtime::Error::Leaving.into()),
        },
        Ok(error) = broken.wait_for(Option::is_some) => Err(error.clone().expect("waited for").into()),
        Ok(_) = leaving.wait_for(|leaving| *leaving) => Err(runtime::Error::Leaving.into()),
    }
}

/// The second response of `agent`.
pub(super) fn response(ended: Ended) -> AgentAnswer {
    match ended.outcome {
        Outcome::Completed => AgentAnswer::Ok(ended),
        Outcome::TimedOut => AgentAnswer::Timeout(ended),
        Outcome::Failed | Outcome::Aborted | Outcome::Interrupted => AgentAnswer::Error(ended),
    }
}

/// The response for a message that no run will answer.
pub(super) fn never_began(run: RunId, state: ReceiptState, at: Timestamp) -> Ended {
    let error = show::never_began(state);
    let (outcome, text, usage) = (Outcome::Aborted, String::new(), Usage::default());
    Ended { run_id: run, outcome, started_at: at, ended_at: at, text, usage, error, stop_reason: None }
}

fn of_event(journal: &dyn Journal, batch: Option<&Batch>, ended: &RunEnded, at: Timestamp) -> Result<Ended, Error> {
    let recorded = batch.and_then(|batch| batch.views.runs.iter().find(|row| row.run == ended.run));
    let started_at = match recorded {
        Some(row) => row.started_at,
        None => journal.run(ended.run)?.map_or(at, |row| row.started_at),
    };
    let mut text = String::new();
    for body in &ended.text {
        text.push_str(&String::from_utf8_lossy(&content(journal, batch, body)?));
    }
    let error = ended.failure.as_ref().map(ToString::to_string);
    let (run_id, outcome, usage) = (ended.run, ended.outcome, ended.usage);
    let stop_reason = ended.stop_reason;
    Ok(Ended { run_id, outcome, started_at, ended_at: at, text, usage, error, stop_reason })
}

fn content(journal: &dyn Journal, batch: Option<&Batch>, body: &Body) -> Result<std::sync::Arc<[u8]>, Error> {
    let here = batch.and_then(|batch| batch.bodies.iter().find(|content| content.body.hash == body.hash));
    match here {
        Some(content) => Ok(std::sync::Arc::clone(&content.bytes)),
        None => Ok(journal.body(&body.hash)?.unwrap_or_default()),
    }
}

/// A run that ended earlier. Its text is in the entry of its end.
fn of_row(journal: &dyn Journal, row: &RunRow) -> Result<Ended, Error> {
    // If its first entries were removed, the remaining ones are searched for its end.
    let entries = match journal.read(row.branch, row.first_seq) {
        Ok(entries) => entries,
        Err(_) => journal.history(row.branch)?.entries().map(|(_, entry)| entry.clone()).collect(),
    };
    let end = entries.iter().find_map(|entry| match &entry.event {
        Event::RunEnded(ended) if ended.run == row.run => Some((ended, entry.at)),
        _ => None,
    });
    let Some((ended, at)) = end else {
        let run = row.run;
        return Err(Error::State {
            what: format!("run {run} answered the message with this key, and its answer was removed"),
            hint: format!("`limulus runs show {run}` shows what is left of it; use another key to ask again"),
        });
    };
    of_event(journal, None, ended, at)
}
