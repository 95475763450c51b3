//! `receipts.get`: the receipt of one message.

use engine::tables::transitions::RunState;
use engine::{MessageId, ReceiptRow, ReceiptState, SessionRow};
use journal::Read;
use protocol::method::{ReceiptParams, ReceiptsGet};
use protocol::show::{ReceiptStory, SteerLeg};
use views::{Source, fold_branch, lookup, session};

use super::Reads;
use crate::error::Error;

impl Reads for ReceiptsGet {
    fn read(source: &Source<'_>, params: ReceiptParams) -> Result<ReceiptStory, Error> {
        let read = source.read;
        let sessions = || match params.session.as_deref() {
            Some(key) => Ok(vec![lookup::session(read, Some(key))?]),
            None => Ok::<_, Error>(read.sessions()?),
        };
        let (session, receipt) = match (&params.id, &params.key) {
            (Some(id), None) => by_id(read, (params.session.is_none(), sessions), id)?,
            (None, Some(key)) => by_key(read, sessions()?, key)?,
            _ => {
                return Err(Error::invalid("a receipt has an id or a key", "name one of the two: `id` or `key`"));
            }
        };
        story(read, session, receipt)
    }
}

type Found = (SessionRow, ReceiptRow);

/// The receipt of the message with this id, or of the message that began the run with this id; they are the same.
fn by_id(
    read: &dyn Read,
    (in_any, sessions): (bool, impl FnOnce() -> Result<Vec<SessionRow>, Error>),
    id: &str,
) -> Result<Found, Error> {
    let message: MessageId =
        id.parse().map_err(|error: engine::InvalidId| Error::invalid(error.to_string(), "write the whole id"))?;
    if let Some(receipt) = read.receipt(message)? {
        // The session of a run is found at once; that of a message which waits is one of all.
        let of_run = if in_any { read.session_of_run(receipt.run)? } else { None };
        let of_run = of_run.filter(|session| session.session == receipt.session);
        let found = match of_run {
            Some(session) => Some(session),
            None => sessions()?.into_iter().find(|session| session.session == receipt.session),
        };
        if let Some(session) = found {
            return Ok((session, receipt));
        }
    }
    Err(unknown(&format!("there is no message {message}")))
}

fn by_key(read: &dyn Read, sessions: Vec<SessionRow>, key: &str) -> Result<Found, Error> {
    let mut found = vec![];
    for session in sessions {
        if let Some(receipt) = read.receipt_by_key(session.session, key)? {
            found.push((session, receipt));
        }
    }
    if found.len() > 1 {
        let keys: Vec<&str> = found.iter().take(4).map(|(session, _)| session.key.as_str()).collect();
        let what = format!("the key `{key}` was used in {} sessions: {}", found.len(), keys.join(", "));
        return Err(Error::invalid(what, "name one of them with `--session KEY`"));
    }
    found.pop().ok_or_else(|| unknown(&format!("no message was sent with the key `{key}`")))
}

fn unknown(what: &str) -> Error {
    Error::not_found(what, "a message without an acknowledgement was not recorded: send it again with the same key")
}

fn story(read: &dyn Read, row: SessionRow, receipt: ReceiptRow) -> Result<ReceiptStory, Error> {
    let run = read.run(receipt.run)?;
    let ahead = match receipt.state {
        ReceiptState::Queued => {
            let queued = read.receipts(row.session)?.into_iter().filter(|other| other.state == receipt.state);
            queued.map(|other| other.message).position(|message| message == receipt.message)
        }
        _ => None,
    };
    let state = fold_branch(read, &row)?;
    let message = state.account.messages.get(&receipt.message);
    let (origin, reply_to) = message.map(session::addresses).unwrap_or_default();
    Ok(ReceiptStory {
        origin,
        reply_to,
        mode: receipt.mode,
        mode_by: message.and_then(|message| message.mode_by),
        masked: message.map_or(0, |message| message.masked),
        queue_state: state.queue_state(receipt.message),
        steer_state: state.steer_state(receipt.message),
        steer: receipt.steer.map(|leg| SteerLeg {
            state: leg.state,
            run: leg.run,
            taken_over: leg.is_taken_over(receipt.message),
        }),
        message: receipt.message,
        key: receipt.key,
        session: row.session,
        session_key: row.key,
        state: receipt.state,
        accepted_at: receipt.accepted_at,
        ahead: ahead.map(|before| before as u32 + 1),
        run: receipt.run,
        ends_run: message.and_then(|message| message.ends),
        run_state: run.as_ref().map_or(RunState::Idle, |run| run.state),
        outcome: run.as_ref().and_then(|run| run.outcome),
        started_at: run.as_ref().map(|run| run.started_at),
        ended_at: run.as_ref().and_then(|run| run.ended_at),
        checkpoint: run.as_ref().and_then(engine::RunRow::checkpoint),
        error: run.and_then(|run| run.error),
    })
}
