//! `runs.abort`: ends a run. The response comes when the abort is recorded; the run ends within its limit. A run that
//! has not begun is withdrawn, whether it waits for a lane or behind another run.

use std::sync::Arc;

use engine::{Command, MessageId, ReceiptState, RunId, SessionRow};
use protocol::ErrorCode;
use protocol::method::{AbortParams, Aborted, RunParams};
use views::SessionKey;
use views::lookup;

use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

/// The run to end.
struct Meant {
    session: SessionRow,
    run: RunId,
    has_begun: bool,
}

pub(in crate::methods) async fn abort(caller: &Arc<Caller>, params: AbortParams) -> Result<Aborted, Error> {
    let service = &caller.service;
    let Meant { session, run, has_begun } = which(service, &params)?;
    let abort = Command::Abort { run: Some(run) };
    let cancelled = if params.clear { clear(service, &session, run, abort.clone()).await? } else { vec![] };
    if params.clear {
        // The abort was sent together with the clearing, so that nothing else begins in between.
    } else if has_begun {
        super::ask(service, &session, abort).await?;
    } else if let Err(error) = super::ask(service, &session, Command::Cancel { message: run.into(), leg: None }).await {
        // The run may have begun meanwhile.
        if error.shape().code != ErrorCode::NotFound {
            return Err(error);
        }
        super::ask(service, &session, abort).await?;
    }
    Ok(Aborted { run_id: run, session_key: session.key, cancelled })
}

/// Withdraws all waiting messages together with the run, so that none of them begins in between. Returns the messages
/// without the run's own, which ends with the run if it had not begun.
async fn clear(service: &Service, session: &SessionRow, run: RunId, abort: Command) -> Result<Vec<MessageId>, Error> {
    let waiting = lookup::queued(&**service.runtime.journal(), session.session)?;
    let (cleared, aborted) = super::ask_both(service, session, [Command::Clear, abort]).await?;
    cleared?;
    let is_cancelled = |message: &MessageId| -> Result<bool, Error> {
        let receipt = service.runtime.journal().receipt(*message)?;
        Ok(receipt.is_some_and(|receipt| receipt.state == ReceiptState::Cancelled))
    };
    if let Err(error) = aborted
        && !is_cancelled(&run.into())?
    {
        return Err(error);
    }
    let mut cancelled = vec![];
    for message in waiting.into_iter().map(|receipt| receipt.message).filter(|message| RunId::from(*message) != run) {
        if is_cancelled(&message)? {
            cancelled.push(message);
        }
    }
    Ok(cancelled)
}

/// The run that the parameters name, and its session.
fn which(service: &Service, params: &AbortParams) -> Result<Meant, Error> {
    let journal = service.runtime.journal();
    match (&params.run, &params.session) {
        (Some(_), Some(_)) | (None, None) => {
            Err(Error::invalid("name either a run or a session", "give `run`, or `session` for its active run"))
        }
        (None, Some(key)) => {
            let session = super::session(service, &SessionKey::parse(Some(key))?.to_string())?;
            let waits =
                || lookup::queued(&**journal, session.session).map(|queued| queued.first().map(|first| first.run));
            let (run, has_begun) = match session.run {
                Some(run) => (Some(run), true),
                None => (waits()?, false),
            };
            let hint = "`limulus runs list` shows them";
            let run = run.ok_or_else(|| Error::not_found(format!("no run is active in {}", session.key), hint))?;
            Ok(Meant { session, run, has_begun })
        }
        (Some(run), None) => {
            let found = lookup::run(&**journal, &RunParams { run: Some(run.clone()), session: None })?;
            Ok(Meant { session: found.session, run: found.run, has_begun: found.row.is_some() })
        }
    }
}
