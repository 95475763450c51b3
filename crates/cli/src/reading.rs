//! Data for the reading commands: from the owner over its socket if one responds, else from the journal, which anyone
//! may read. Both use the same methods, so the results are the same.

use std::path::Path;
use std::time::Duration;

use client::look;
use config::Globals;
use gateway::methods::reading::Reads;
use gateway::socket;
use protocol::method::Method;
use protocol::{ClientError, ErrorCode};
use serde_json::Value;
use tokio::time::timeout;
use views::Source;

use crate::error::CliError;
use crate::show::open;

/// If the owner takes longer than this, the command reads the journal itself.
const ANSWER: Duration = Duration::from_secs(30);

/// The result of a reading method, from the owner or from the journal.
pub(crate) fn ask<M>(globals: &Globals, params: M::Params) -> Result<M::Result, CliError>
where
    M: Reads,
    M::Params: Clone,
{
    ask_among::<M>(globals, params, &[])
}

/// The same for a method that lists agents. The owner knows those of its configuration; `agents` are those of this
/// process'.
pub(crate) fn ask_among<M>(globals: &Globals, params: M::Params, agents: &[String]) -> Result<M::Result, CliError>
where
    M: Reads,
    M::Params: Clone,
{
    match of_owner::<M>(&globals.home, params.clone()) {
        Some(answer) => answer,
        None => of_journal::<M>(globals, params, agents),
    }
}

/// The result from the journal, whoever owns it.
fn of_journal<M: Reads>(globals: &Globals, params: M::Params, agents: &[String]) -> Result<M::Result, CliError> {
    let reader = open(globals)?;
    let (home, immutable) = (globals.home.as_path(), reader.is_immutable());
    let most_bytes = u64::MAX;
    Ok(M::read(&Source { home, read: &reader, immutable, most_bytes, waits: &[], full: &[], agents }, params)?)
}

/// The payload of the owner's response; None if no owner responds.
fn ask_owner(home: &Path, method: &str, params: Value) -> Option<Result<Value, ClientError>> {
    if !home.join(socket::NAME).exists() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        // An owner of another version may not know the method.
        let owner_client = look(home, false).await?.ok().filter(|owner_client| owner_client.can(method))?;
        timeout(ANSWER, owner_client.client.request(method, params)).await.ok()
    })?;
    runtime.shutdown_background();
    Some(answer)
}

/// The result from the owner; None if there is no owner that can answer.
fn of_owner<M: Method>(home: &Path, params: M::Params) -> Option<Result<M::Result, CliError>> {
    match ask_owner(home, M::NAME, M::params_to_json(params))? {
        // An owner of another version may answer in another form.
        Ok(result) => M::result_from_json(result).ok().map(Ok),
        Err(ClientError::Answered(shape)) => {
            // The journal can answer instead: the owner shuts down, cannot read, or the result exceeds a frame.
            let is_final =
                !matches!(shape.code, ErrorCode::TooLarge | ErrorCode::Unavailable | ErrorCode::Store | ErrorCode::Bug);
            is_final.then(|| Err(shape.into()))
        }
        Err(ClientError::Gone | ClientError::Frame(_) | ClientError::Unreadable { .. }) => None,
    }
}
