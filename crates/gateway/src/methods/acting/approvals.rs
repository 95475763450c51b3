//! `approvals.resolve`: answers an approval request. The first answer counts.

use std::sync::Arc;

use engine::{Command, Refusal};
use protocol::method::{AnswerParams, NoResult};

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) async fn resolve_approval(
    caller: &Arc<Caller>,
    params: AnswerParams,
) -> Result<NoResult, Error> {
    let AnswerParams { call, fingerprint, allow } = params;
    let service = &caller.service;
    let place = if caller.client.mode == "cli" { "on the terminal" } else { "in" };
    let by = format!("the user, {place} {}, process {}", caller.client.id, caller.process());
    // A request of an earlier owner is in the journal alone.
    let key = match service.approvals.session_of(call) {
        Some(key) => key,
        None => service.runtime.journal().session_of_run(call.run)?.ok_or(Refusal::Stale)?.key,
    };
    let row = super::session(service, &key)?;
    super::ask(service, &row, Command::Answer { call, fingerprint, allow, by }).await?;
    Ok(NoResult {})
}
