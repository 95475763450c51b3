//! `runs.abort`: ends a run. Answered when that is recorded; the run ends within its limit.

use std::sync::Arc;

use engine::{Command, RunId, RunRow, SessionRow};
use protocol::method::{AbortParams, Aborted};

use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;
use crate::session_key::SessionKey;

pub(in crate::methods) async fn abort(caller: &Arc<Caller>, params: AbortParams) -> Result<Aborted, Error> {
    let service = &caller.service;
    let (row, run) = which(service, &params)?;
    super::ask(service, &row, Command::Abort { run: Some(run) }).await?;
    Ok(Aborted { run_id: run, session_key: row.key })
}

/// The run that is meant, and its session.
fn which(service: &Service, params: &AbortParams) -> Result<(SessionRow, RunId), Error> {
    let journal = service.runtime.journal();
    let hint = "`limulus runs list` shows them";
    match (&params.run, &params.session) {
        (Some(_), Some(_)) | (None, None) => {
            Err(Error::invalid("name a run or a session, one of them", "give `run`, or `session` for its active run"))
        }
        (None, Some(key)) => {
            let row = super::session(service, &SessionKey::parse(Some(key))?.to_string())?;
            let run = row.run;
            let run = run.ok_or_else(|| Error::not_found(format!("no run is under way in {}", row.key), hint))?;
            Ok((row, run))
        }
        (Some(begins), None) => {
            let runs = journal.runs(None)?;
            let found: Vec<&RunRow> = runs.iter().filter(|row| row.run.to_string().starts_with(begins)).collect();
            let [row] = found[..] else {
                let what = if found.is_empty() { "there is no run" } else { "there is more than one run" };
                return Err(Error::not_found(format!("{what} `{begins}`"), hint));
            };
            let session = journal.session_of_run(row.run)?;
            let session = session.ok_or_else(|| Error::not_found(format!("run {} has no session", row.run), hint))?;
            Ok((session, row.run))
        }
    }
}
