//! `queue.cancel`, `queue.clear`, `queue.mode`: withdraw waiting messages, and set the default queue mode of a session.

use std::sync::Arc;

use engine::{Command, MessageId, Override, ReceiptState, SessionRow};
use protocol::method::{Cancelled, QueueCancelParams, QueueClearParams, QueueModeParams, QueueModeSet};
use views::SessionKey;

use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

pub(in crate::methods) async fn cancel(caller: &Arc<Caller>, params: QueueCancelParams) -> Result<Cancelled, Error> {
    let service = &caller.service;
    let message: MessageId = params
        .message
        .parse()
        .map_err(|error: engine::InvalidId| Error::invalid(error.to_string(), "write the whole id"))?;
    let row = session_of_message(service, message)?;
    super::ask(service, &row, Command::Cancel { message, leg: None }).await?;
    Ok(Cancelled { session_key: row.key, messages: vec![message] })
}

pub(in crate::methods) async fn clear(caller: &Arc<Caller>, params: QueueClearParams) -> Result<Cancelled, Error> {
    let service = &caller.service;
    let row = super::session(service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    let before = service.runtime.journal().receipts(row.session)?;
    super::ask(service, &row, Command::Clear).await?;
    let after = service.runtime.journal().receipts(row.session)?;
    let cancelled = |state: ReceiptState| state == ReceiptState::Cancelled;
    let was = |message| before.iter().any(|receipt| receipt.message == message && cancelled(receipt.state));
    let now = after.iter().filter(|receipt| cancelled(receipt.state)).map(|receipt| receipt.message);
    Ok(Cancelled { session_key: row.key, messages: now.filter(|message| !was(*message)).collect() })
}

pub(in crate::methods) async fn mode(caller: &Arc<Caller>, params: QueueModeParams) -> Result<QueueModeSet, Error> {
    let service = &caller.service;
    let key = SessionKey::parse(Some(&params.session_key))?;
    let row = super::session(service, &key.to_string())?;
    super::ask(service, &row, Command::Override(Override::QueueMode(params.mode))).await?;
    if params.interrupt.is_some() || params.mode.is_none() {
        super::ask(service, &row, Command::Override(Override::Interrupt(params.interrupt))).await?;
    }
    let mode = params.mode.unwrap_or_else(|| service.runtime.resolver().queue(&key.agent).mode);
    Ok(QueueModeSet { session_key: row.key, mode })
}

/// The session that a message was sent to.
fn session_of_message(service: &Service, message: MessageId) -> Result<SessionRow, Error> {
    let journal = service.runtime.journal();
    for session in journal.unfinished()? {
        if journal.receipts(session.session)?.iter().any(|receipt| receipt.message == message) {
            return Ok(session);
        }
    }
    let what = format!("message {message} is not waiting");
    Err(Error::not_found(what, "`limulus queue list` shows those that do"))
}
