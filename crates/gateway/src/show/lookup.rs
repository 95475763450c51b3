//! Which session and which run a command is about: keys, ids, unique beginnings of ids.

use engine::{MessageId, ReceiptRow, ReceiptState, RunId, RunRow, SessionId, SessionRow};
use journal::Read;
use protocol::method::RunParams;

use crate::error::Error;
use crate::session_key::SessionKey;

/// A run that is there.
#[derive(Debug, Clone)]
pub struct FoundRun {
    /// Its id.
    pub run: RunId,
    /// Its session.
    pub session: SessionRow,
    /// Its row; none as long as its message waits for its turn.
    pub row: Option<RunRow>,
}

/// The session of this key; nothing stands for `agent:main:main`.
pub fn session(read: &dyn Read, key: Option<&str>) -> Result<SessionRow, Error> {
    let key = SessionKey::parse(key)?.to_string();
    read.session(&key)?.ok_or_else(|| {
        Error::not_found(format!("there is no session `{key}`"), "`limulus sessions list` shows those that there are")
    })
}

/// The run that is meant.
pub fn run(read: &dyn Read, choice: &RunParams) -> Result<FoundRun, Error> {
    if let Some(id) = &choice.run {
        return by_id(read, id);
    }
    let session = session(read, choice.session.as_deref())?;
    last(read, &session)?.ok_or_else(|| {
        let hint = format!("`limulus agent --session {} -m TEXT` makes one", session.key);
        Error::not_found(format!("the session `{}` has no run yet", session.key), hint)
    })
}

/// The run that is meant, also by the id of a message that another run took or that no run will answer. Only for those who look:
/// what is done to a run names that very run.
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

/// The run that an abort means: of a session the active one, else the one that is to start next.
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

/// The active run of a session, else its last one, else the one that is to start next.
pub(crate) fn last(read: &dyn Read, session: &SessionRow) -> Result<Option<FoundRun>, Error> {
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

/// The messages of a session that wait, in order.
pub(crate) fn queued(read: &dyn Read, session: SessionId) -> Result<Vec<ReceiptRow>, Error> {
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
            return Err(Error::not_found(
                format!("there is no run `{id}`"),
                "`limulus runs list` shows those that there are",
            ));
        }
        _ => {
            let shown: Vec<String> = ids.iter().take(4).map(|(run, _)| run.to_string()).collect();
            let what = format!("`{id}` may be any of {} runs: {} …", ids.len(), shown.join(", "));
            return Err(Error::invalid(what, "write more of the id, or `--session KEY`"));
        }
    };
    let session = sessions.into_iter().find(|session| session.session == owner);
    let session = session.ok_or_else(|| Error::bug(format!("the run {run} belongs to no session")))?;
    Ok(FoundRun { run, session, row: read.run(run)? })
}
