//! Which session and which run a command is about: keys, ids, unique beginnings of ids.

use engine::{ReceiptRow, ReceiptState, RunId, RunRow, SessionId, SessionRow};
use gateway::SessionKey;
use journal::Read;

use crate::error::CliError;

/// How a run is named on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RunChoice {
    /// The run's id, or as much of its beginning as is unique
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// The session whose active, else last, run is meant: NAME, or agent:AGENT:NAME [default: agent:main:main]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
}

/// A run that is there.
#[derive(Debug, Clone)]
pub(crate) struct FoundRun {
    /// Its id.
    pub(crate) run: RunId,
    /// Its session.
    pub(crate) session: SessionRow,
    /// Its row; none as long as its message waits for its turn.
    pub(crate) row: Option<RunRow>,
}

/// The session of this key; nothing stands for `agent:main:main`.
pub(crate) fn session(read: &dyn Read, key: Option<&str>) -> Result<SessionRow, CliError> {
    let key = SessionKey::parse(key)?.to_string();
    read.session(&key)?.ok_or_else(|| {
        CliError::not_found(
            format!("there is no session `{key}`"),
            "`limulus sessions list` shows those that there are",
        )
    })
}

/// Finds runs by what a person typed, without clap's help.
pub(crate) struct Lookup;

impl Lookup {
    /// The run of this id, or of this session. One that has not started is an error.
    pub(crate) fn run(read: &dyn Read, run: Option<&str>, session: Option<&str>) -> Result<RunRow, CliError> {
        let choice = RunChoice { run: run.map(str::to_owned), session: session.map(str::to_owned) };
        let found = choice.find(read)?;
        found.row.ok_or_else(|| {
            let what = format!("the run {} has not started: its message waits in {}", found.run, found.session.key);
            CliError::not_found(what, "`limulus status` shows what it waits for")
        })
    }
}

impl RunChoice {
    /// Finds the run.
    pub(crate) fn find(&self, read: &dyn Read) -> Result<FoundRun, CliError> {
        if let Some(id) = &self.run {
            return by_id(read, id);
        }
        let session = session(read, self.session.as_deref())?;
        last(read, &session)?.ok_or_else(|| {
            let hint = format!("`limulus agent --session {} -m TEXT` makes one", session.key);
            CliError::not_found(format!("the session `{}` has no run yet", session.key), hint)
        })
    }
}

/// The active run of a session, else its last one, else the one that is to start next.
pub(crate) fn last(read: &dyn Read, session: &SessionRow) -> Result<Option<FoundRun>, CliError> {
    let row = match session.run {
        Some(run) => read.run(run)?,
        None => read.runs(Some(session.session))?.pop(),
    };
    let run = match &row {
        Some(row) => Some(row.run),
        None => queued(read, session.session)?.first().map(|receipt| receipt.run),
    };
    Ok(run.map(|run| FoundRun { run, session: session.clone(), row }))
}

/// The messages of a session that wait, in order.
fn queued(read: &dyn Read, session: SessionId) -> Result<Vec<ReceiptRow>, CliError> {
    let mut receipts = read.receipts(session)?;
    receipts.retain(|receipt| receipt.state == ReceiptState::Queued);
    Ok(receipts)
}

fn by_id(read: &dyn Read, id: &str) -> Result<FoundRun, CliError> {
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
            return Err(CliError::not_found(
                format!("there is no run `{id}`"),
                "`limulus runs list` shows those that there are",
            ));
        }
        _ => {
            let shown: Vec<String> = ids.iter().take(4).map(|(run, _)| run.to_string()).collect();
            let what = format!("`{id}` may be any of {} runs: {} …", ids.len(), shown.join(", "));
            return Err(CliError::Usage { what, hint: "write more of the id, or `--session KEY`".to_owned() });
        }
    };
    let session = sessions.into_iter().find(|session| session.session == owner);
    let session = session.ok_or_else(|| CliError::bug(&format!("the run {run} belongs to no session")))?;
    Ok(FoundRun { run, session, row: read.run(run)? })
}
