//! Finds the session and the run that a command names: by key, id, or unique prefix of an id.

use engine::{MessageId, ReceiptRow, ReceiptState, RunId, RunRow, SessionId, SessionRow};
use journal::Read;
use protocol::method::RunParams;

use crate::SessionKey;
use crate::error::Error;

/// A run that was found.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone)]
pub struct FoundRun {
    pub run: RunId,
    pub session: SessionRow,
    /// The row of the run; `None` as long as its message is queued.
    pub row: Option<RunRow>,
}

/// The session of this key; an absent key is `agent:main:main`.
pub fn session(read: &dyn Read, key: Option<&str>) -> Result<SessionRow, Error> {
    let key = SessionKey::parse(key)?.to_string();
    read.session(&key)?.ok_or_else(|| {
        Error::not_found(format!("there is no session `{key}`"), "`limulus sessions list` shows the sessions")
    })
}

/// The run that the parameters name.
pub fn run(read: &dyn Read, choice: &RunParams) -> Result<FoundRun, Error> {
    if let Some(id) = &choice.run {
        return by_id(read, id);
    }
    let session = session(read, choice.session.as_deref())?;
    last(read, &session)?.ok_or_else(|| {
        let hint = format!("`limulus agent --session {} -m TEXT` starts one", session.key);
        Error::not_found(format!("the session `{}` has no run yet", session.key), hint)
    })
}

/// The run that is named, also by the id of a message that another run took or that no run will answer. For reading
/// only: a method that changes a run must name that very run.
pub fn run_or_message(read: &dyn Read, choice: &RunParams) -> Result<FoundRun, Error> {
    let found = run(read, choice);
    let Err(Error::NotFound { .. }) = found else { return found };
    let message = choice.run.as_ref().and_then(|id| id.parse::<MessageId>().ok());
    let receipt = message.map(|message| read.receipt(message)).transpose()?.flatten();
    let Some(receipt) = receipt else { return found };
    let session = read.sessions()?.into_iter().find(|session| session.session == receipt.session);
    let session = session.ok_or_else(|| Error::bug(format!("the message {} has no session", receipt.message)))?;
    Ok(FoundRun { run: receipt.run, session, row: read.run(receipt.run)? })
}

/// The run that an abort names: for a session the active one, else the one that starts next.
pub fn run_to_end(read: &dyn Read, choice: &RunParams) -> Result<FoundRun, Error> {
    let found = run(read, choice)?;
    if choice.run.is_some() || found.session.run.is_some() {
        return Ok(found);
    }
    let next = queued(read, found.session.session)?.first().map(|receipt| receipt.run);
    Ok(match next {
        Some(run) => FoundRun { run, row: None, ..found },
        None => found,
    })
}

/// The active run of a session, else its last one, else the one that starts next.
pub fn last(read: &dyn Read, session: &SessionRow) -> Result<Option<FoundRun>, Error> {
    let row = match session.run {
        Some(run) => read.run(run)?,
        None => read.runs_before(Some(session.session), None, 1)?.pop(),
    };
    let run = match &row {
        Some(row) => Some(row.run),
        None => queued(read, session.session)?.first().map(|receipt| receipt.run),
    };
    Ok(run.map(|run| FoundRun { run, session: session.clone(), row }))
}

/// The waiting messages of a session, in order.
pub fn queued(read: &dyn Read, session: SessionId) -> Result<Vec<ReceiptRow>, Error> {
    let mut receipts = read.receipts(session)?;
    receipts.retain(|receipt| receipt.state == ReceiptState::Queued);
    Ok(receipts)
}

fn by_id(read: &dyn Read, id: &str) -> Result<FoundRun, Error> {
    let wanted = id.to_lowercase();
    let sessions = read.sessions()?;
    let mut ids: Vec<(RunId, SessionId)> = read.runs(None)?.iter().map(|row| (row.run, row.session)).collect();
    for session in sessions.iter().filter(|session| session.queued > 0) {
        ids.extend(queued(read, session.session)?.iter().map(|receipt| (receipt.run, session.session)));
    }
    ids.retain(|(run, _)| run.to_string().starts_with(&wanted));
    let (run, owner) = match ids[..] {
        [only] if !wanted.is_empty() => only,
        [] => {
            return Err(Error::not_found(format!("there is no run `{id}`"), "`limulus runs list` shows the runs"));
        }
        _ => {
            let shown: Vec<String> = ids.iter().take(4).map(|(run, _)| run.to_string()).collect();
            let what = format!("`{id}` matches {} runs: {} …", ids.len(), shown.join(", "));
            return Err(Error::invalid(what, "write more of the id, or `--session KEY`"));
        }
    };
    let session = sessions.into_iter().find(|session| session.session == owner);
    let session = session.ok_or_else(|| Error::bug(format!("the run {run} belongs to no session")))?;
    Ok(FoundRun { run, session, row: read.run(run)? })
}
